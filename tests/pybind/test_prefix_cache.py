# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""PrefixCache, PrefixMatch and InsertResult."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

from kv_support import unchanged
from servecore import BlockPool, InsertResult, PrefixCache, PrefixMatch

Ints = np.ndarray[Any, np.dtype[np.int32]]


def tokens(*values: int) -> Ints:
    return np.array(values, dtype=np.int32)


def filled(num_blocks: int = 8, num_tokens: int = 6) -> tuple[BlockPool, PrefixCache, Ints]:
    """A pool, a cache with blocks of two tokens, and the tokens that it holds and nobody else."""
    pool = BlockPool(num_blocks)
    cache = PrefixCache(pool, 2)
    held = np.arange(num_tokens, dtype=np.int32)
    blocks = cache.allocate(num_tokens // 2)
    assert blocks is not None
    cache.insert(held, blocks)
    for block in blocks:
        pool.release(block)
    return pool, cache, held


def test_what_was_inserted_is_found() -> None:
    _, cache, held = filled()
    match = cache.match(held)
    assert match.num_tokens == 6
    assert match.block_ids.dtype == np.int32
    assert match.block_ids.tolist() == [0, 1, 2]


def test_only_whole_blocks_are_found() -> None:
    _, cache, held = filled()
    assert cache.match(held[:5]).num_tokens == 4
    assert cache.match(held[:1]).num_tokens == 0
    assert cache.match(held[:0]).block_ids.tolist() == []


def test_the_longest_common_prefix_is_found() -> None:
    _, cache, _ = filled()
    assert cache.match(tokens(0, 1, 2, 9, 4, 5)).block_ids.tolist() == [0]
    assert cache.match(tokens(9, 1, 2, 3)).num_tokens == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_width_and_stride_of_tokens_do_not_matter(dtype: Any, step: int) -> None:
    _, cache, held = filled()
    spread = np.repeat(held, abs(step)).astype(dtype)
    view = spread[::step] if step > 0 else spread[::-1].copy()[::-1]
    assert cache.match(view).num_tokens == 6


def test_tokens_beyond_int32_are_not_truncated() -> None:
    pool = BlockPool(2)
    cache = PrefixCache(pool, 1)
    cache.insert(np.array([7 + 2**32]), pool.allocate(1) or [])
    assert cache.match(np.array([7])).num_tokens == 0
    assert cache.match(np.array([7 + 2**32])).num_tokens == 1


def test_namespaces_are_strangers() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 2)
    blocks = pool.allocate(2)
    assert blocks is not None
    cache.insert(tokens(1, 2), blocks[:1], namespace="lora/ü")
    assert cache.match(tokens(1, 2)).num_tokens == 0
    assert cache.match(tokens(1, 2), namespace="lora/ü").num_tokens == 2
    assert cache.insert(tokens(1, 2), blocks[1:]).num_new_tokens == 2
    assert cache.stats()["num_namespaces"] == 2


def test_insert_says_what_is_new_and_what_is_double() -> None:
    pool, cache, held = filled()
    blocks = pool.allocate(4)
    assert blocks == [3, 4, 5, 6]
    result = cache.insert(np.concatenate([held, held[:2], held[:1]]), blocks)
    assert result.num_new_tokens == 2
    assert result.duplicates.dtype == np.int32
    assert result.duplicates.tolist() == [3, 4, 5]
    assert repr(result) == "<InsertResult new_tokens=2 duplicates=3>"
    pool.release_array(result.duplicates)
    assert pool.num_free == 4


def test_insert_of_the_cache_own_blocks_is_nothing_new() -> None:
    _, cache, held = filled()
    with cache.match(held) as match:
        result = cache.insert(held, match.block_ids)
    assert (result.num_new_tokens, result.duplicates.tolist()) == (0, [])


def test_insert_takes_more_ids_than_it_needs_and_any_form_of_them() -> None:
    for form in (list, tuple, np.array, lambda ids: np.array(ids, dtype=np.int32)):
        pool = BlockPool(4)
        cache = PrefixCache(pool, 2)
        blocks = pool.allocate(3)
        assert blocks is not None
        assert cache.insert(tokens(1, 2, 3, 4, 5), form(blocks), priority=3).num_new_tokens == 4
        assert [pool.ref_count(block) for block in blocks] == [2, 2, 1]


def test_the_cache_holds_its_own_references() -> None:
    pool, cache, held = filled()
    assert [pool.ref_count(block) for block in range(3)] == [1, 1, 1]
    with unchanged(pool, cache), pytest.raises(RuntimeError, match="block 1"):
        pool.release(1)
    with unchanged(pool, cache), pytest.raises(RuntimeError, match="block 0"):
        pool.release_array(np.array([0, 1, 2]))
    with cache.match(held), unchanged(pool, cache), pytest.raises(RuntimeError, match="block 1"):
        pool.release(1)


def test_a_match_protects_its_blocks() -> None:
    pool, cache, held = filled(num_blocks=4)
    match = cache.match(held[:4])
    with unchanged(pool, cache):
        assert cache.allocate(3) is None
    assert cache.allocate(2) == [2, 3]
    match.release()
    assert cache.evict(9) == 2


@pytest.mark.parametrize("how", ["release", "with", "del", "raise"])
def test_a_match_ends(how: str) -> None:
    pool, cache, held = filled()
    match = cache.match(held)
    assert pool.ref_count(0) == 2
    if how == "release":
        match.release()
    elif how == "with":
        with match as entered:
            assert entered is match
    elif how == "raise":
        with pytest.raises(KeyError), match:
            raise KeyError
    del match
    gc.collect()
    assert pool.ref_count(0) == 1
    pool.check()


def test_a_match_is_released_once() -> None:
    pool, cache, held = filled()
    match = cache.match(held)
    match.release()
    with unchanged(pool, cache), pytest.raises(RuntimeError, match="released before"):
        match.release()
    with unchanged(pool, cache), pytest.raises(RuntimeError, match="released before"), match:
        pass
    del match
    assert pool.ref_count(0) == 1


def test_a_match_may_be_released_inside_its_with_block() -> None:
    pool, cache, held = filled()
    with cache.match(held) as match:
        match.release()
    assert pool.ref_count(0) == 1


def test_a_released_match_is_a_record() -> None:
    _, cache, held = filled()
    match = cache.match(held)
    assert repr(match) == "<PrefixMatch tokens=6 blocks=3>"
    match.release()
    assert repr(match) == "<PrefixMatch tokens=6 blocks=3 released>"
    assert (match.num_tokens, match.block_ids.tolist()) == (6, [0, 1, 2])


def test_block_ids_outlive_the_match_and_do_not_reach_into_it() -> None:
    _, cache, held = filled()
    match = cache.match(held)
    # What it will release is its own record, of which these are copies.
    match.block_ids[:] = -1
    assert match.block_ids.tolist() == [0, 1, 2]
    assert not np.shares_memory(match.block_ids, match.block_ids)
    kept = match.block_ids
    del match
    gc.collect()
    assert kept.tolist() == [0, 1, 2]


def test_a_match_outlives_its_cache_and_pool() -> None:
    pool, cache, held = filled()
    match = cache.match(held)
    del cache
    gc.collect()
    assert [pool.ref_count(block) for block in range(3)] == [1, 1, 1]
    del pool
    gc.collect()
    match.release()


def test_a_cache_keeps_its_pool_alive_and_gives_back_its_blocks() -> None:
    pool, cache, held = filled()
    del cache
    gc.collect()
    assert pool.num_free == 8
    cache = PrefixCache(BlockPool(3), 2)
    gc.collect()
    blocks = cache.allocate(3)
    assert blocks == [0, 1, 2]
    cache.insert(held, blocks)
    cache.check()


def test_the_least_recently_used_goes_first() -> None:
    pool = BlockPool(3)
    cache = PrefixCache(pool, 1)
    for token in range(3):
        blocks = cache.allocate(1)
        assert blocks is not None
        cache.insert(tokens(token), blocks)
        pool.release(blocks[0])
    cache.match(tokens(0)).release()
    assert cache.allocate(1) == [1]
    assert cache.match(tokens(0)).num_tokens == 1
    assert cache.match(tokens(1)).num_tokens == 0


def test_leaves_go_before_their_parents() -> None:
    _, cache, held = filled()
    assert cache.evict(1) == 1
    assert cache.match(held).block_ids.tolist() == [0, 1]
    assert cache.stats()["evicted_blocks"] == 1


def test_allocate_that_is_too_much_evicts_nothing() -> None:
    pool, cache, _ = filled(num_blocks=4)
    with unchanged(pool, cache):
        assert cache.allocate(5) is None


def test_reset_forgets_all() -> None:
    pool, cache, held = filled()
    match = cache.match(held[:2])
    cache.reset()
    assert cache.stats()["num_cached_blocks"] == 0
    assert cache.stats()["dropped_blocks"] == 3
    assert pool.ref_count(0) == 1
    match.release()
    assert pool.num_free == 8
    cache.check()


def test_stats_and_repr() -> None:
    _, cache, held = filled()
    cache.match(held[:5])
    assert cache.stats() == {
        "num_cached_blocks": 3,
        "num_nodes": 1,
        "num_namespaces": 1,
        "queries": 1,
        "query_tokens": 5,
        "hit_tokens": 4,
        "inserted_blocks": 3,
        "duplicate_blocks": 0,
        "evicted_blocks": 0,
        "dropped_blocks": 0,
    }
    assert repr(cache) == "<PrefixCache blocks=3 block_size=2>"


@pytest.mark.parametrize(
    ("block_ids", "error", "found"),
    [
        ([3], ValueError, "block_ids has 1 "),
        ([3, 8], IndexError, "8"),
        ([3, -1], IndexError, "-1"),
        ([3, 2**32 + 4], IndexError, str(2**32 + 4)),
        ([3, 10**30], IndexError, r"block_ids\[1\] is int"),
        ([3, 3], ValueError, r"block_ids\[1\] is block 3"),
        ([3, 0], ValueError, "block 0"),
        ([3, 7], RuntimeError, "block 7"),
        ([3, 4.0], TypeError, r"block_ids\[1\]: .* float 4.0"),
        ([3, True], TypeError, r"block_ids\[1\]: .* bool True"),
        (np.array([3.0, 4.0]), TypeError, "block_ids: .* float64"),
        (np.array([[3], [4]]), ValueError, "block_ids: expected 1 dimension, got 2"),
        (3, TypeError, "block_ids: .* int 3"),
    ],
)
def test_bad_block_ids(block_ids: Any, error: type[Exception], found: str) -> None:
    pool, cache, _ = filled()
    pool.allocate(2)
    with unchanged(pool, cache), pytest.raises(error, match=found):
        cache.insert(tokens(9, 9, 9, 9), block_ids)


@pytest.mark.parametrize(
    ("values", "error", "found"),
    [
        (np.zeros(4), TypeError, "tokens: .* float64"),
        (np.array([1, None]), TypeError, "tokens: .* object"),
        (np.zeros((2, 2), np.int32), ValueError, "tokens: expected 1 dimension, got 2"),
        ([1, 2], TypeError, "tokens: .* got list; numpy.array"),
        ("abc", TypeError, "tokens: .* str 'abc'"),
    ],
)
def test_bad_tokens(values: Any, error: type[Exception], found: str) -> None:
    pool, cache, _ = filled()
    pool.allocate(2)
    with unchanged(pool, cache), pytest.raises(error, match=found):
        cache.match(values)
    with unchanged(pool, cache), pytest.raises(error, match=found):
        cache.insert(values, [3, 4])


@pytest.mark.parametrize(
    ("method", "value", "error"),
    [
        ("allocate", -1, ValueError),
        ("allocate", 2**31, ValueError),
        ("allocate", 2**64, ValueError),
        ("allocate", 1.0, TypeError),
        ("allocate", True, TypeError),
        ("evict", -1, ValueError),
        ("evict", -(2**64), ValueError),
        ("evict", 1.0, TypeError),
        ("evict", True, TypeError),
    ],
)
def test_bad_counts(method: str, value: Any, error: type[Exception]) -> None:
    pool, cache, _ = filled()
    with unchanged(pool, cache), pytest.raises(error):
        getattr(cache, method)(value)


@pytest.mark.parametrize("name", [b"bytes", 3, None])
def test_a_namespace_is_a_str(name: Any) -> None:
    pool, cache, held = filled()
    with unchanged(pool, cache), pytest.raises(TypeError):
        cache.match(held, namespace=name)
    with unchanged(pool, cache), pytest.raises(TypeError):
        cache.insert(held, [0, 1, 2], namespace=name)


def test_a_namespace_that_is_no_unicode() -> None:
    pool, cache, held = filled()
    with unchanged(pool, cache), pytest.raises(UnicodeEncodeError):
        cache.match(held, namespace="\udc80")


@pytest.mark.parametrize("priority", [1.5, True, "high", None])
def test_a_priority_is_an_int(priority: Any) -> None:
    pool, cache, held = filled()
    with unchanged(pool, cache), pytest.raises(TypeError, match="priority"):
        cache.insert(held, [0, 1, 2], priority=priority)


@pytest.mark.parametrize("block_size", [0, -1, 2**31, 2**64])
def test_a_block_size_out_of_range(block_size: int) -> None:
    with pytest.raises(ValueError, match=str(block_size)):
        PrefixCache(BlockPool(1), block_size)


@pytest.mark.parametrize("block_size", [1.0, True, "1", None])
def test_a_block_size_that_is_no_int(block_size: Any) -> None:
    with pytest.raises(TypeError, match="block_size: expected an int"):
        PrefixCache(BlockPool(1), block_size)


@pytest.mark.parametrize("eviction", ["", "LRU", "mru", "lru "])
def test_an_unknown_policy_names_the_known(eviction: str) -> None:
    with pytest.raises(ValueError, match=f"{eviction}.*lru.*lfu.*slru.*fifo.*priority"):
        PrefixCache(BlockPool(1), 1, eviction=eviction)


@pytest.mark.parametrize("pool", [None, 3, "pool", BlockPool])
def test_a_pool_is_a_block_pool(pool: Any) -> None:
    with pytest.raises(TypeError):
        PrefixCache(pool, 1)


def test_objects_without_init_are_type_errors() -> None:
    with pytest.raises(TypeError, match="__init__"):
        PrefixCache(BlockPool.__new__(BlockPool), 1)
    with pytest.raises(TypeError, match="__init__"):
        PrefixCache.__new__(PrefixCache).evict(1)
    with pytest.raises(TypeError, match="__init__"):
        PrefixMatch.__new__(PrefixMatch).release()
    with pytest.raises(TypeError, match="__init__"):
        repr(InsertResult.__new__(InsertResult))


@pytest.mark.parametrize("cls", [PrefixMatch, InsertResult])
def test_results_are_not_made_by_callers(cls: Any) -> None:
    with pytest.raises(TypeError, match="No constructor"):
        cls()


def test_nothing_is_copied_or_pickled() -> None:
    _, cache, held = filled()
    for thing in (cache, cache.match(held)):
        for refuse in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                refuse(thing)


def test_properties_name_what_it_was_made_of() -> None:
    pool = BlockPool(1)
    cache = PrefixCache(pool, 4, eviction="slru")
    assert cache.pool is pool
    assert (cache.block_size, cache.eviction) == (4, "slru")


def test_allocate_array_gives_what_allocate_gives() -> None:
    _, cache, _ = filled(num_blocks=4)
    ids = cache.allocate_array(2)
    assert ids is not None
    assert (ids.dtype, ids.tolist()) == (np.int32, [2, 3])
    assert cache.allocate_array(3) is None
    with pytest.raises(ValueError, match="-1"):
        cache.allocate_array(-1)


def test_match_many_matches_each_part() -> None:
    pool, cache, held = filled()
    many = np.concatenate([held, held[:2], tokens(9, 9)])
    matches = cache.match_many(many, [0, 6, 8, 10])
    assert [match.block_ids.tolist() for match in matches] == [[0, 1, 2], [0], []]
    assert pool.ref_count(0) == 3
    del matches
    gc.collect()
    assert pool.ref_count(0) == 1
    offsets = np.array([0, 6, 8])
    names = [match.num_tokens for match in cache.match_many(many, offsets, namespace=["x", ""])]
    assert names == [0, 2]
    assert cache.match_many(many, [4]) == []


@pytest.mark.parametrize(
    ("offsets", "namespace", "error", "words"),
    [
        ([], "", ValueError, "offsets is empty"),
        ([0, 7], "", ValueError, r"offsets\[1\] is 7; allowed are 0 to 6"),
        ([4, 2], "", ValueError, r"offsets\[1\] is 2; allowed are 4 to 6"),
        ([-1, 2], "", ValueError, r"offsets\[0\] is -1"),
        ([0.5, 2], "", TypeError, r"offsets\[0\]"),
        ([0, 2], ["a", "b"], ValueError, "2 namespaces for 1 requests"),
        ([0, 2], [b"a"], TypeError, r"namespace\[0\]: expected a str"),
        ([0, 2], 3, TypeError, "namespace: expected a str or a sequence of str"),
    ],
)
def test_what_match_many_refuses(
    offsets: Any, namespace: Any, error: type[Exception], words: str
) -> None:
    pool, cache, held = filled()
    with unchanged(pool, cache), pytest.raises(error, match=words):
        cache.match_many(held, offsets, namespace=namespace)


def test_events_are_arrays_of_what_happened() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 1)
    blocks = cache.allocate(2)
    assert blocks is not None
    cache.insert(tokens(1, 2), blocks)
    pool.release_array(np.array(blocks, dtype=np.int32))
    cache.evict(1)
    events = cache.events()
    assert (len(events), events.num_lost) == (3, 0)
    assert events.is_stored.dtype == np.bool_
    assert events.is_stored.tolist() == [True, True, False]
    assert events.block_ids.tolist() == [0, 1, 1]
    assert events.parent_ids.tolist() == [-1, 0, -1]
    assert repr(events) == "<CacheEvents events=3 lost=0>"
    assert len(cache.events()) == 0


def test_events_that_nobody_fetches_are_counted_and_dropped() -> None:
    pool = BlockPool(8)
    cache = PrefixCache(pool, 1, max_events=3)
    blocks = cache.allocate(5)
    assert blocks is not None
    cache.insert(tokens(1, 2, 3), blocks[:3])
    cache.insert(tokens(9), blocks[3:])
    events = cache.events()
    assert (events.block_ids.tolist(), events.num_lost) == ([3], 3)
    with pytest.raises(ValueError, match="max_events is -1"):
        PrefixCache(pool, 1, max_events=-1)


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 2**70])
def test_a_priority_beyond_int32_is_refused(priority: int) -> None:
    pool, cache, held = filled()
    with unchanged(pool, cache), pytest.raises(ValueError, match="priority"):
        cache.insert(held, [0, 1, 2], priority=priority)
