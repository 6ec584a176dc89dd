# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The model that is quick enough for traces does as the one that looks at all prefixes."""

from __future__ import annotations

import numpy as np
import pytest

import models

# isort: split
import kv_models

NUM_BLOCKS = 16


def test_they_know_the_same_policies() -> None:
    assert models.RANKS.keys() == kv_models.RANKS.keys()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block_size", [1, 3])
@pytest.mark.parametrize("eviction", sorted(models.RANKS))
def test_the_quick_model_does_as_the_strict_one(eviction: str, block_size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    quick_pool = models.BlockPool(NUM_BLOCKS)
    strict_pool = kv_models.ModelPool(NUM_BLOCKS)
    quick = models.PrefixCache(quick_pool, block_size, eviction=eviction)
    strict = kv_models.ModelCache(strict_pool, block_size, eviction=eviction)
    held: list[tuple[models.PrefixMatch, kv_models.ModelMatch]] = []

    for _ in range(400):
        tokens = np.repeat(rng.integers(0, 2, size=int(rng.integers(1, 7))), block_size)
        what = rng.random()
        if what < 0.1:
            n = int(rng.integers(0, 5))
            assert quick.evict(n) == strict.evict(n)
        elif held and what < 0.25:
            for each in held.pop(int(rng.integers(len(held)))):
                each.release()
        else:
            match = (quick.match(tokens), strict.match(tokens.tolist()))
            found = match[1].block_ids
            assert match[0].block_ids == found
            held.append(match)
        if what > 0.5:
            n = len(tokens) // block_size - len(found)
            own = quick.allocate(n)
            assert own == strict.allocate(n)
            if own is not None:
                ours = quick.insert(tokens, np.array([*found, *own], dtype=np.int32))
                theirs = strict.insert(tokens.tolist(), [*found, *own])
                assert (ours.num_new_tokens, ours.duplicates) == (
                    theirs.num_new_tokens,
                    theirs.duplicates,
                )
                quick_pool.release_array(np.array(own, dtype=np.int32))
                strict_pool.release_array(list(own))
            for each in held.pop():
                each.release()
        quick_pool.check()
        quick.check()
        assert [quick_pool.ref_count(block) for block in range(NUM_BLOCKS)] == [
            strict_pool.ref_count(block) for block in range(NUM_BLOCKS)
        ]
        counts = strict.stats()
        assert quick.stats() == {name: counts[name] for name in quick.stats()}
    assert strict.stats()["evicted_blocks"] > 30, "the policy decided too little"
