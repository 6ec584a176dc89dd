# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Misuse of the KV core: an error at the faulty call that names what it found, and no change."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kv_support import unchanged
from servecore import BlockPool, PrefixCache, TokenBuffer

# So long that a call which does not do what it should is a failure, not a slow machine.
PATIENCE_S = 60


def ids(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


class House:
    """A pool of 12 blocks in every state, with two caches on it.

    0 to 2 are the path 1 2, 3 4, 5 6 of the cache; 0 and 1 are matched; 2 has a loose reference.
    3 is the path 1 2 of the other cache, and idle. 4 and 5 are only allocated, 5 twice. The rest
    is free.
    """

    def __init__(self) -> None:
        self.pool = BlockPool(12)
        self.cache = PrefixCache(self.pool, 2, eviction="lfu")
        self.other = PrefixCache(self.pool, 2)
        self.pool.allocate(6)
        self.cache.insert(ids(1, 2, 3, 4, 5, 6), [0, 1, 2])
        self.other.insert(ids(1, 2), [3], namespace="adapter")
        self.pool.release_array(ids(0, 1, 3))
        self.pool.retain(5)
        self.match = self.cache.match(ids(1, 2, 3, 4))
        self.gone = self.cache.match(ids(1, 2))
        self.gone.release()

    def exit_twice(self) -> None:
        with self.gone:
            pass


Misuse = Callable[[House], Any]
FLOAT: Any = 1.0
FLOATS = np.array([1.0, 2.0])
CASES: list[tuple[str, Misuse, type[Exception], str]] = [
    ("release of a free block", lambda h: h.pool.release(6), RuntimeError, "block 6"),
    ("release twice", lambda h: h.pool.release_array(ids(4, 4)), RuntimeError, "block 4"),
    ("release thrice", lambda h: h.pool.release_array(ids(5, 5, 5)), RuntimeError, "block 5"),
    ("release of a cache's", lambda h: h.pool.release(3), RuntimeError, "block 3"),
    ("release of a match's", lambda h: h.pool.release(0), RuntimeError, "block 0"),
    ("release of too many", lambda h: h.pool.release_array(ids(2, 2)), RuntimeError, "block 2"),
    (
        "good ones before a bad one",
        lambda h: h.pool.release_array(ids(4, 5, 11)),
        RuntimeError,
        "11",
    ),
    ("retain of a free block", lambda h: h.pool.retain(6), RuntimeError, "block 6"),
    ("retain, one is free", lambda h: h.pool.retain_array(ids(0, 6)), RuntimeError, "block 6"),
    ("foreign id", lambda h: h.pool.retain(12), IndexError, "12"),
    ("foreign id, negative", lambda h: h.pool.release(-1), IndexError, "-1"),
    ("foreign id, huge", lambda h: h.pool.release(2**32), IndexError, str(2**32)),
    ("foreign id in an array", lambda h: h.pool.release_array(ids(4, 12)), IndexError, "12"),
    ("foreign id asked for", lambda h: h.pool.ref_count(12), IndexError, "12"),
    ("foreign id inserted", lambda h: h.cache.insert(ids(8, 8), [12]), IndexError, r"\[0\] is 12"),
    ("match released twice", lambda h: h.gone.release(), RuntimeError, "released before"),
    ("match entered after its end", lambda h: h.exit_twice(), RuntimeError, "released before"),
    ("negative count", lambda h: h.cache.allocate(-1), ValueError, "-1"),
    ("count over int32", lambda h: h.cache.allocate(2**31), ValueError, str(2**31)),
    ("count over int64", lambda h: h.cache.allocate_array(2**64), ValueError, "n is"),
    ("negative eviction", lambda h: h.cache.evict(-2), ValueError, "-2"),
    ("negative of many", lambda h: h.pool.allocate_many([1, -4]), ValueError, "-4"),
    (
        "sum over int32",
        lambda h: h.pool.allocate_many([2**31 - 1, 1]),
        ValueError,
        str(2**31 - 1),
    ),
    ("count that is no int", lambda h: h.cache.evict(FLOAT), TypeError, "float 1.0"),
    ("too few blocks", lambda h: h.cache.insert(ids(8, 8, 9, 9), [4]), ValueError, "has 1 .*2"),
    ("free block inserted", lambda h: h.cache.insert(ids(8, 8), [6]), RuntimeError, "block 6"),
    (
        "block named twice",
        lambda h: h.cache.insert(ids(8, 8, 9, 9), [4, 4]),
        ValueError,
        r"\[1\] is block 4",
    ),
    ("block cached elsewhere", lambda h: h.cache.insert(ids(8, 8), [1]), ValueError, "block 1"),
    (
        "block cached elsewhere, as a duplicate",
        lambda h: h.cache.insert(ids(1, 2, 8, 8), [1, 4]),
        ValueError,
        "block 1",
    ),
    ("float tokens", lambda h: h.cache.insert(FLOATS, [4]), TypeError, "tokens: .*float64"),
    ("float tokens looked up", lambda h: h.cache.match(FLOATS), TypeError, "tokens: .*float64"),
    ("float ids", lambda h: h.cache.insert(ids(8, 8), FLOATS), TypeError, "block_ids: .*float64"),
    ("float ids released", lambda h: h.pool.release_array(FLOATS), TypeError, "ids: .*float64"),
    ("float appended", lambda h: TokenBuffer([1]).append(FLOATS), TypeError, "tokens: .*float64"),
    (
        "uint64 tokens",
        lambda h: h.cache.match(np.array([1, 2], dtype=np.uint64)),
        TypeError,
        "tokens: .*uint64",
    ),
    (
        "offsets beyond the tokens",
        lambda h: h.cache.match_many(ids(1, 2, 3), [0, 2, 4]),
        ValueError,
        r"offsets\[2\] is 4; allowed are 2 to 3",
    ),
    (
        "priority over int32",
        lambda h: h.cache.insert(ids(8, 8), [4], priority=2**31),
        ValueError,
        f"priority is {2**31}",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [pytest.param(call, error, words, id=name) for name, call, error, words in CASES],
)
def test_misuse(call: Misuse, error: type[Exception], words: str) -> None:
    house = House()
    with unchanged(house.pool, house.cache, house.other), pytest.raises(error, match=words):
        call(house)
    # What stood there stands, in the order it had.
    assert house.cache.allocate(7) is None
    assert house.cache.allocate(6) == [6, 7, 8, 9, 10, 11]
    house.match.release()
    assert house.cache.match(ids(1, 2, 3, 4, 5, 6)).block_ids.tolist() == [0, 1, 2]


def test_a_match_outlives_a_reset_and_is_released_once() -> None:
    house = House()
    house.cache.reset()
    assert [house.pool.ref_count(block) for block in range(3)] == [1, 1, 1]
    with unchanged(house.pool, house.cache), pytest.raises(RuntimeError, match="block 0"):
        house.pool.release(0)
    house.match.release()
    with unchanged(house.pool, house.cache), pytest.raises(RuntimeError, match="released before"):
        house.match.release()
    assert [house.pool.ref_count(block) for block in range(3)] == [0, 0, 1]


class Flipper:
    """A thread that keeps writing to an array, from the values that it has to those and back."""

    def __init__(self, array: Any, others: Any) -> None:
        self._array = array
        self._values = (others, array.copy())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for values in itertools.cycle(self._values):
            if self._stop.is_set():
                return
            # Of big arrays numpy gives up the GIL, as whatever writes without it would.
            np.copyto(self._array, values)


LENGTH = 100_000


def insert_until_an_error(pool: BlockPool, cache: PrefixCache, tokens: Any, block_ids: Any) -> None:
    """Asserts that each insert succeeds as a whole or raises and changes nothing, until one does.

    The cache holds nothing before and after each.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        before = cache.stats(), pool.stats()
        error = ""
        try:
            cache.insert(tokens, block_ids)
        except RuntimeError as raised:
            error = str(raised)
        cache.check()
        pool.check()
        if error:
            assert "changed while insert read" in error
            assert (cache.stats(), pool.stats()) == before
            return
        assert cache.stats()["num_cached_blocks"] == LENGTH
        cache.reset()
        assert time.monotonic() < deadline, "no write was ever noticed"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tokens_that_change_during_an_insert(dtype: Any) -> None:
    pool = BlockPool(LENGTH)
    block_ids = pool.allocate_array(LENGTH)
    cache = PrefixCache(pool, 1)
    tokens = np.zeros(LENGTH, dtype=dtype)
    with Flipper(tokens, np.ones(LENGTH, dtype=dtype)):
        insert_until_an_error(pool, cache, tokens, block_ids)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_block_ids_that_change_during_an_insert(dtype: Any) -> None:
    pool = BlockPool(2 * LENGTH)
    pool.allocate_array(2 * LENGTH)
    cache = PrefixCache(pool, 1)
    block_ids = np.arange(LENGTH, dtype=dtype)
    with Flipper(block_ids, np.arange(LENGTH, 2 * LENGTH, dtype=dtype)):
        insert_until_an_error(pool, cache, np.arange(LENGTH, dtype=np.int32), block_ids)


def test_tokens_that_change_during_a_match_end_it_somewhere() -> None:
    pool = BlockPool(LENGTH)
    block_ids = pool.allocate_array(LENGTH)
    assert block_ids is not None
    cache = PrefixCache(pool, 1)
    tokens = np.zeros(LENGTH, dtype=np.int32)
    cache.insert(tokens, block_ids)
    with Flipper(tokens, np.ones(LENGTH, dtype=np.int32)):
        for _ in range(50):
            with cache.match(tokens) as match:
                assert match.block_ids.tolist() == list(range(match.num_tokens))
    cache.check()
    pool.check()
    assert pool.stats()["total_refs"] == 2 * LENGTH
