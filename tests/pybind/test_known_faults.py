# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Faults that caches of serving engines have had in public, each tested as a kind.

A counter of evictable blocks that drifts is in test_histories.py, beside the histories that it
takes.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kv_support import unchanged
from servecore import BlockPool, PrefixCache, TokenBuffer

POLICIES = ["lru", "lfu", "slru", "fifo", "priority"]


def ids(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


def keep(pool: BlockPool, cache: PrefixCache, tokens: Any, **options: Any) -> list[int]:
    """Inserts the tokens with new blocks, which nobody but the cache holds afterwards."""
    blocks = cache.allocate(len(tokens) // cache.block_size)
    assert blocks is not None
    cache.insert(tokens, blocks, **options)
    pool.release_array(ids(*blocks))
    return blocks


# One block freed twice in one call: the free list would give it to two owners.


@pytest.mark.parametrize("given", list(itertools.product(range(3), repeat=3)))
def test_one_call_frees_no_block_twice(given: tuple[int, ...]) -> None:
    pool = BlockPool(4)
    pool.allocate(3)
    if len(set(given)) < 3:
        with unchanged(pool), pytest.raises(RuntimeError, match="block"):
            pool.release_array(ids(*given))
        assert [pool.ref_count(block) for block in range(3)] == [1, 1, 1]
    else:
        pool.release_array(ids(*given))
    pool.check()
    rest = pool.allocate(pool.num_free)
    assert rest is not None
    assert len(set(rest)) == len(rest), "one block was given to two owners"


def test_one_call_frees_no_block_that_a_cache_or_a_match_holds() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 1)
    keep(pool, cache, np.arange(3))
    for repeated in ([1], [1, 1], [0, 1, 2], [2, 1, 2]):
        with unchanged(pool, cache), pytest.raises(RuntimeError, match="block"):
            pool.release_array(ids(*repeated))
    with (
        cache.match(np.arange(3)),
        unchanged(pool, cache),
        pytest.raises(RuntimeError, match="block 1"),
    ):
        pool.release_array(ids(1, 1))


# A negative count: a slice with one takes almost everything.


@pytest.mark.parametrize("n", [-1, -3, -(2**31), -(2**63), -(2**70)])
def test_a_negative_count_takes_nothing(n: int) -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 1)
    keep(pool, cache, np.arange(2))
    calls: list[Callable[[], Any]] = [
        lambda: pool.allocate(n),
        lambda: pool.allocate_array(n),
        lambda: pool.allocate_many([1, n]),
        lambda: pool.allocate_many_array([1, n]),
        lambda: cache.allocate(n),
        lambda: cache.allocate_array(n),
        lambda: cache.evict(n),
    ]
    for call in calls:
        with unchanged(pool, cache), pytest.raises(ValueError, match=str(n)):
            call()


# A priority that decides nothing when there is too little room.


def test_the_priority_decides_what_is_retained() -> None:
    pool = BlockPool(6)
    cache = PrefixCache(pool, 1, eviction="priority")
    priorities = [3, -7, 0, 2**31 - 1, -(2**31), 5]
    for token, priority in enumerate(priorities):
        keep(pool, cache, ids(token), priority=priority)
    # Being used much and of late is worth nothing against a higher priority.
    for _ in range(10):
        cache.match(ids(4)).release()
    gone = []
    for _ in priorities:
        assert cache.evict(1) == 1
        events = cache.events()
        gone.append(int(events.block_ids[-1]))
    assert gone == [4, 1, 2, 0, 5, 3]


def test_a_path_is_retained_for_the_highest_priority_on_it() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 1, eviction="priority")
    blocks = keep(pool, cache, ids(1, 2), priority=0)
    cache.insert(ids(1), blocks[:1], priority=9)
    keep(pool, cache, ids(7), priority=4)
    keep(pool, cache, ids(8), priority=4)
    cache.insert(ids(1), blocks[:1], priority=-9)
    cache.evict(3)
    assert cache.events().block_ids[-3:].tolist() == [1, 2, 3]
    assert cache.match(ids(1)).num_tokens == 1


# Objects for each block: a full collection of garbage takes a second when there are a million.


def tracked(make: Callable[[], Any]) -> int:
    """By how much the result of a call raises what the garbage collector has to look at."""
    gc.collect()
    before = len(gc.get_objects())
    kept = make()
    gc.collect()
    grown = len(gc.get_objects()) - before
    del kept
    return grown


MOST_TRACKED = 20


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("length", [1, 100_000])
def test_no_block_is_an_object_of_the_garbage_collector(policy: str, length: int) -> None:
    tokens = np.arange(length, dtype=np.int32)

    def fill() -> Any:
        pool = BlockPool(2 * length)
        cache = PrefixCache(pool, 1, eviction=policy)
        own = cache.allocate_array(length)
        assert own is not None
        result = cache.insert(tokens, own)
        matches = cache.match_many(np.concatenate([tokens, tokens]), [0, length, 2 * length])
        assert matches[1].num_tokens == length
        views = [match.block_ids for match in matches]
        return pool, cache, own, result, matches, views, TokenBuffer(tokens), cache.events()

    assert tracked(fill) <= MOST_TRACKED


def test_objects_for_each_block_would_be_noticed() -> None:
    assert tracked(lambda: [[block] for block in range(100)]) > MOST_TRACKED


# Equal blocks computed twice: the second engine has to learn that its own are not the cached ones.


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shared", [0, 1, 3, 5])
def test_whose_block_is_not_kept_is_told(policy: str, shared: int) -> None:
    pool = BlockPool(12)
    cache = PrefixCache(pool, 2, eviction=policy)
    first = keep(pool, cache, np.arange(10))
    tokens = np.concatenate([np.arange(2 * shared), np.arange(50, 60 - 2 * shared)])
    own = pool.allocate(5)
    assert own is not None
    result = cache.insert(tokens, own)
    assert result.duplicates.tolist() == own[:shared]
    assert result.num_new_tokens == 10 - 2 * shared
    assert cache.stats()["duplicate_blocks"] == shared
    with cache.match(tokens) as match:
        assert match.block_ids.tolist() == first[:shared] + own[shared:]
    # No token path has two blocks, and every block of the caller's is his to give back once.
    pool.release_array(ids(*own))
    assert [pool.ref_count(block) for block in own] == [0] * shared + [1] * (5 - shared)
    cache.reset()
    assert pool.num_free == 12
    cache.check()
    pool.check()
