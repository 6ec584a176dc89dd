# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Long random histories of a crowded cache beside its model, where every policy has to decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kv_models
import servecore

NUM_BLOCKS = 20
STEPS = 400


class History:
    """A cache and its model, which do the same."""

    def __init__(self, eviction: str, block_size: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.block_size = block_size
        self.real_pool = servecore.BlockPool(NUM_BLOCKS)
        self.model_pool = kv_models.ModelPool(NUM_BLOCKS)
        self.real = servecore.PrefixCache(self.real_pool, block_size, eviction=eviction)
        self.model = kv_models.ModelCache(self.model_pool, block_size, eviction=eviction)
        self.held: list[tuple[servecore.PrefixMatch, kv_models.ModelMatch]] = []
        self.loose: list[int] = []

    def tokens(self) -> np.ndarray[Any, Any]:
        """Up to six of two blocks that differ in their last token, and a part of one."""
        blocks = np.zeros((int(self.rng.integers(1, 7)), self.block_size), dtype=np.int64)
        blocks[:, -1] = self.rng.integers(0, 2, size=len(blocks)) << 40
        return blocks.reshape(-1)[: blocks.size - int(self.rng.integers(0, 2))]

    def namespace(self) -> str:
        return "other" if self.rng.random() < 0.2 else ""

    def match(self) -> None:
        tokens, namespace = self.tokens(), self.namespace()
        real = self.real.match(tokens, namespace=namespace)
        model = self.model.match(tokens.tolist(), namespace=namespace)
        assert real.block_ids.tolist() == model.block_ids
        self.held.append((real, model))

    def release(self) -> None:
        if self.held:
            for match in self.held.pop(int(self.rng.integers(len(self.held)))):
                match.release()

    def look(self) -> None:
        self.match()
        for match in self.held.pop():
            match.release()

    def serve(self) -> None:
        tokens, namespace = self.tokens(), self.namespace()
        priority = int(self.rng.integers(-2, 3))
        match: tuple[Any, ...] = ()
        ids: list[int] = []
        # Without a match every block is the request's own, and most are duplicates.
        if self.rng.random() < 0.8:
            match = (
                self.real.match(tokens, namespace=namespace),
                self.model.match(tokens.tolist(), namespace=namespace),
            )
            ids = match[1].block_ids
            assert match[0].block_ids.tolist() == ids
        own = self.real.allocate(len(tokens) // self.block_size - len(ids))
        assert own == self.model.allocate(len(tokens) // self.block_size - len(ids))
        if own is not None:
            ours = self.real.insert(tokens, ids + own, namespace=namespace, priority=priority)
            theirs = self.model.insert(
                tokens.tolist(), ids + own, namespace=namespace, priority=priority
            )
            assert ours.num_new_tokens == theirs.num_new_tokens
            assert ours.duplicates.tolist() == theirs.duplicates
            self.real_pool.release_array(np.array(own, dtype=np.int32))
            self.model_pool.release_array(own)
        for each in match:
            each.release()

    def retain(self) -> None:
        """A reference on any block in use, the middle of a path included."""
        used = [b for b in range(NUM_BLOCKS) if self.model_pool.ref_count(b)]
        if used and len(self.loose) < 3:
            block = used[int(self.rng.integers(len(used)))]
            self.real_pool.retain(block)
            self.model_pool.retain(block)
            self.loose.append(block)

    def let_go(self) -> None:
        if self.loose:
            block = self.loose.pop(int(self.rng.integers(len(self.loose))))
            self.real_pool.release(block)
            self.model_pool.release(block)

    def evict(self) -> None:
        n = int(self.rng.integers(0, 5))
        assert self.real.evict(n) == self.model.evict(n)

    def reset(self) -> None:
        self.real.reset()
        self.model.reset()

    def compare(self) -> None:
        self.real.check()
        self.real_pool.check()
        stats = self.real.stats()
        del stats["num_nodes"]
        assert stats == self.model.stats()
        assert self.real_pool.stats() == self.model_pool.stats()
        events = self.real.events()
        columns = (events.is_stored, events.block_ids, events.parent_ids)
        told = list(zip(*map(np.ndarray.tolist, columns), strict=True))
        assert (told, events.num_lost) == self.model.events()

    def run(self) -> None:
        operations = [
            (self.serve, 0.45),
            (self.look, 0.25),
            (self.match, 0.08),
            (self.release, 0.1),
            (self.retain, 0.03),
            (self.let_go, 0.05),
            (self.evict, 0.03),
            (self.reset, 0.01),
        ]
        odds = [odd for _, odd in operations]
        for which in self.rng.choice(len(operations), size=STEPS, p=odds):
            operations[which][0]()
            self.compare()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("block_size", [1, 2, 3, 16])
@pytest.mark.parametrize("eviction", sorted(kv_models.RANKS))
def test_the_real_one_does_as_the_model(eviction: str, block_size: int, seed: int) -> None:
    history = History(eviction, block_size, seed)
    history.run()
    assert history.model.stats()["evicted_blocks"] > 50, "the policy decided too little"


@pytest.mark.parametrize("eviction", sorted(kv_models.RANKS))
def test_what_is_idle_is_what_can_be_freed(eviction: str) -> None:
    # A counter of evictable blocks that drifts starves whoever believes it.
    for seed in range(5):
        history = History(eviction, 2, 100 + seed)
        history.run()
        while history.held:
            history.release()
        while history.loose:
            history.let_go()
        history.serve()
        idle = history.real_pool.stats()["num_idle"]
        assert idle == history.real.stats()["num_cached_blocks"] > 0
        free = history.real_pool.num_free
        assert history.real.evict(NUM_BLOCKS) == idle
        assert history.real_pool.num_free == free + idle == NUM_BLOCKS
        assert history.real_pool.stats()["num_idle"] == 0
