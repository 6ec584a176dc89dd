# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""vLLM's own BlockPool and ours, side by side, under random calls.

Run by test_vllm.py; see vllm_stand_ins.py. Each call goes to both pools, and what each gives, its
queue of free blocks, its counts, its hashes and its events have to be equal.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import vllm_stand_ins

vllm_stand_ins.install()

from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.utils.hashing import sha256  # noqa: E402
from vllm.v1.core import kv_cache_coordinator  # noqa: E402
from vllm.v1.core.block_pool import BlockPool as Theirs  # noqa: E402
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

from servecore.integrations import vllm  # noqa: E402

Ours = vllm.block_pool_class()
BLOCK_SIZE = 4
init_none_hash(sha256)
HASHER = get_request_block_hasher(BLOCK_SIZE, sha256)


def request(tokens: list[int]) -> Request:
    """vLLM's own, with a hash for each whole block."""
    return Request(
        request_id="r",
        prompt_token_ids=tokens,
        sampling_params=SamplingParams(max_tokens=1),
        pooling_params=None,
        block_hasher=HASHER,
    )


def state(pool: Theirs) -> tuple[object, ...]:
    """What can be seen of a pool."""
    blocks = [
        (block.block_id, block.ref_cnt, block.block_hash, block.block_hash_num_tokens)
        for block in pool.blocks
    ]
    free = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    first = pool.free_block_queue.fake_free_list_head.next_free_block
    walked = []
    while first.block_id >= 0:
        walked.append(first.block_id)
        first = first.next_free_block
    assert walked == free
    return blocks, free, pool.get_num_free_blocks(), pool.get_usage()


def run(seed: int, events: bool) -> None:
    """Random requests: look up, touch, allocate, cache, free, evict."""
    rng = random.Random(seed)
    pools = [kind(60, True, BLOCK_SIZE, enable_kv_cache_events=events) for kind in (Theirs, Ours)]
    # Of each request: its tokens, and its blocks of each pool.
    running: list[tuple[list[int], list[list[object]]]] = []
    for step in range(2000):
        choice = rng.random()
        if choice < 0.45 and len(running) < 6:
            tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 40))]
            req, group = request(tokens), rng.randrange(2)
            held = []
            for pool in pools:
                found = []
                for block_hash in req.block_hashes:
                    blocks = pool.get_cached_block(block_hash, [group])
                    if blocks is None:
                        break
                    found += blocks
                pool.touch(found)
                need = -(-len(tokens) // BLOCK_SIZE) - len(found)
                if need > pool.get_num_free_blocks():
                    pool.free_blocks(reversed(found))
                    continue
                blocks = found + pool.get_new_blocks(need)
                full = len(req.block_hashes)
                pool.cache_full_blocks(req, blocks, len(found), full, BLOCK_SIZE, group)
                held.append(blocks)
            assert len(held) != 1, step
            if held:
                running.append((tokens, held))
        elif choice < 0.8 and running:
            _, held = running.pop(rng.randrange(len(running)))
            for pool, blocks in zip(pools, held, strict=True):
                pool.free_blocks(reversed(blocks))
        elif choice < 0.95:
            ids = set(rng.sample(range(1, 60), 3))
            for pool in pools:
                pool.evict_blocks(ids)
        else:
            done = {pool.reset_prefix_cache() for pool in pools}
            assert len(done) == 1, step
        states = [state(pool) for pool in pools]
        assert states[0] == states[1], (step, states)
        taken = [[repr(event) for event in pool.take_events()] for pool in pools]
        assert taken[0] == taken[1], (step, taken)
        assert events or not taken[0]
    pools[1]._native.check()


def misuse() -> None:
    """A block freed once too often is an error, and nothing has changed."""
    pool = Ours(8, True, BLOCK_SIZE)
    blocks = pool.get_new_blocks(2)
    pool.free_blocks(blocks)
    before = state(pool)
    for wrong in (blocks[0], pool.blocks[5]):
        error = error_of(RuntimeError, lambda wrong=wrong: pool.free_blocks([wrong]))
        assert f"block {wrong.block_id}" in error, error
        assert state(pool) == before
    assert "8 free blocks" in error_of(ValueError, lambda: pool.get_new_blocks(8))
    assert state(pool) == before


def error_of(kind: type[Exception], call: Callable[[], object]) -> str:
    """The words of the error that a call has to end in."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def installed() -> None:
    """What the KVCacheManager makes its pools of."""
    for _ in range(2):
        vllm.install()
        assert kv_cache_coordinator.BlockPool is Ours
    vllm.uninstall()
    assert kv_cache_coordinator.BlockPool is Theirs


for seed in range(4):
    run(seed, events=seed % 2 == 1)
misuse()
installed()
print("equal")
