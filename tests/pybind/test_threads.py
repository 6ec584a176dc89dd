# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Threads: nothing is lost between them, and nobody waits with the GIL held."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kv_support import GilTicker
from servecore import BlockPool, PrefixCache, TokenBuffer, common_prefix, count_eos, vector_add

NUM_THREADS = 8
LONG = 200_000
IDS = np.arange(LONG, dtype=np.int32)
ZEROS = np.zeros(LONG, dtype=np.int64)
ONES = np.ones(LONG, dtype=np.int64)
FLOATS = np.ones(LONG)
# So long that a call which does not do what it should is a failure, not a slow machine.
PATIENCE_S = 60


def run_in_threads(work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... at once, and raises what any of them raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(NUM_THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_block_has_one_owner_at_a_time() -> None:
    pool = BlockPool(64)
    owners = [-1] * pool.num_blocks

    def work(me: int) -> None:
        for round_number in range(300):
            n = (me + round_number) % 12
            if round_number % 2:
                array = pool.allocate_array(n)
                blocks = None if array is None else array.tolist()
            else:
                blocks = pool.allocate(n)
            for block in blocks or []:
                assert owners[block] == -1
                owners[block] = me
            for block in blocks or []:
                pool.retain(block)
                pool.release(block)
                assert owners[block] == me
                owners[block] = -1
            pool.release_array(np.array(blocks or [], dtype=np.int32))

    run_in_threads(work)
    pool.check()
    assert pool.num_free == 64
    assert pool.stats()["total_refs"] == 0


def test_references_are_not_lost_between_threads() -> None:
    pool = BlockPool(4)
    pool.allocate(4)
    ids = np.tile(np.arange(4, dtype=np.int32), 500)

    def work(me: int) -> None:
        for _ in range(20):
            pool.retain_array(ids)
            pool.retain(me % 4)
        for _ in range(20):
            pool.release_array(ids[::-1])

    run_in_threads(work)
    pool.check()
    assert [pool.ref_count(block) for block in range(4)] == [1 + NUM_THREADS // 4 * 20] * 4


POLICIES = ["lru", "lfu", "slru", "fifo", "priority"]


@pytest.mark.parametrize("eviction", POLICIES)
def test_requests_of_many_threads_share_one_cache(eviction: str) -> None:
    pool = BlockPool(96)
    cache = PrefixCache(pool, 2, eviction=eviction)

    def work(me: int) -> None:
        rng = np.random.default_rng(me)
        for _ in range(150):
            tokens = rng.integers(0, 2, size=16, dtype=np.int32)
            with cache.match(tokens) as match:
                own = cache.allocate(8 - len(match.block_ids))
                if own is not None:
                    result = cache.insert(tokens, [*match.block_ids.tolist(), *own])
                    assert set(result.duplicates.tolist()) <= set(own)
                    pool.release_array(np.array(own, dtype=np.int32))

    run_in_threads(work)
    cache.check()
    pool.check()
    assert pool.stats()["num_used"] == cache.stats()["num_cached_blocks"]
    assert pool.stats()["num_idle"] == cache.stats()["num_cached_blocks"]
    assert pool.stats()["total_refs"] == cache.stats()["num_cached_blocks"]
    cache.reset()
    assert pool.num_free == 96


@pytest.mark.parametrize("eviction", POLICIES)
def test_all_operations_of_two_caches_at_once(eviction: str) -> None:
    pool = BlockPool(64)
    caches = [PrefixCache(pool, 1, eviction=each, max_events=100) for each in (eviction, "lru")]

    def serve(cache: PrefixCache, rng: np.random.Generator) -> None:
        tokens = TokenBuffer(rng.integers(0, 3, size=6))
        namespace = "other" if rng.random() < 0.2 else ""
        with cache.match(tokens, namespace=namespace) as match:
            own = cache.allocate_array(6 - len(match.block_ids))
            if own is not None:
                cache.insert(
                    tokens,
                    np.concatenate([match.block_ids, own]),
                    namespace=namespace,
                    priority=int(rng.integers(-3, 4)),
                )
                pool.release_array(own)

    def hold(cache: PrefixCache, rng: np.random.Generator) -> None:
        tokens = rng.integers(0, 3, size=12)
        matches = cache.match_many(tokens, [0, 5, 5, 12], namespace=["", "other", ""])
        held = np.concatenate([match.block_ids for match in matches])
        assert all(pool.ref_count(block) >= 1 for block in held.tolist())
        pool.retain_array(held)
        matches.pop().release()
        del matches
        pool.release_array(held)

    def look(cache: PrefixCache, rng: np.random.Generator) -> None:
        assert len(cache.events()) <= 100
        assert cache.stats()["num_cached_blocks"] <= 64
        assert 0 <= pool.stats()["num_idle"] <= pool.stats()["num_blocks"]
        if rng.random() < 0.3:
            cache.check()
            pool.check()

    def work(me: int) -> None:
        rng = np.random.default_rng(me)
        for _ in range(500):
            cache = caches[int(rng.integers(2))]
            what = rng.random()
            if what < 0.5:
                serve(cache, rng)
            elif what < 0.8:
                hold(cache, rng)
            elif what < 0.9:
                look(cache, rng)
            elif what < 0.99:
                assert 0 <= cache.evict(3) <= 3
            else:
                cache.reset()

    run_in_threads(work)
    gc.collect()
    pool.check()
    cached = 0
    for cache in caches:
        cache.check()
        cached += cache.stats()["num_cached_blocks"]
    assert pool.stats()["total_refs"] == cached
    assert pool.stats()["num_idle"] == cached == pool.stats()["num_used"]
    for cache in caches:
        cache.reset()
    pool.check()
    assert pool.num_free == 64


@pytest.mark.parametrize("num_caches", [1, 2])
def test_readers_do_not_disturb_each_other(num_caches: int) -> None:
    pool = BlockPool(2000)
    caches = [PrefixCache(pool, 4) for _ in range(num_caches)]
    prompt = np.arange(4000, dtype=np.int32)
    for cache in caches:
        own = pool.allocate_array(1000)
        assert own is not None
        cache.insert(prompt, own)
        pool.release_array(own)

    def work(me: int) -> None:
        cache = caches[me % num_caches]
        whole = cache.match(prompt)
        for length in range(me, 4000, 37):
            with cache.match(prompt[:length]) as match:
                assert match.num_tokens == length // 4 * 4
                found = len(match.block_ids)
                assert np.array_equal(match.block_ids, whole.block_ids[:found])
        whole.release()

    run_in_threads(work)
    lookups = 0
    for cache in caches:
        cache.check()
        lookups += cache.stats()["queries"]
        assert cache.stats()["num_cached_blocks"] == 1000
    assert lookups == sum(1 + len(range(me, 4000, 37)) for me in range(NUM_THREADS))
    pool.check()
    assert pool.stats()["total_refs"] == 1000 * num_caches == pool.stats()["num_idle"]


def test_threads_that_end_give_back_what_they_held() -> None:
    pool = BlockPool(64)
    prompt = np.arange(8)

    def work(me: int) -> None:
        cache = PrefixCache(pool, 1)
        own = cache.allocate(8)
        assert own is not None
        cache.insert(prompt, own)
        pool.release_array(np.array(own, dtype=np.int32))
        circle: list[Any] = [cache, cache.match(prompt), TokenBuffer(prompt), me]
        circle.append(circle)

    run_in_threads(work)
    gc.collect()
    pool.check()
    assert pool.num_free == 64
    assert pool.stats()["total_refs"] == 0


def test_one_of_many_threads_releases_a_match() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 1)
    blocks = pool.allocate(4)
    assert blocks is not None
    tokens = np.arange(4)
    cache.insert(tokens, blocks)
    for _ in range(50):
        match = cache.match(tokens)
        released: list[int] = []

        def work(me: int, match: Any = match, released: list[int] = released) -> None:
            try:
                match.release()
            except RuntimeError:
                return
            released.append(me)

        run_in_threads(work)
        assert len(released) == 1
        assert pool.ref_count(0) == 2


@pytest.fixture
def ticker() -> Iterator[GilTicker]:
    with GilTicker() as ticker:
        yield ticker


def test_the_ticker_stands_still_while_the_gil_is_held(ticker: GilTicker) -> None:
    assert ticker.ticks_during(lambda: sum(range(1_000_000))) == 0
    assert ticker.ticks_during(lambda: time.sleep(0.05)) > 0


def free_pool() -> BlockPool:
    return BlockPool(LONG)


def used_pool() -> BlockPool:
    pool = BlockPool(LONG)
    pool.allocate_array(LONG)
    return pool


def empty_cache() -> PrefixCache:
    return PrefixCache(used_pool(), 1)


def full_cache() -> PrefixCache:
    pool = used_pool()
    cache = PrefixCache(pool, 1)
    cache.insert(IDS, IDS)
    pool.release_array(IDS)
    return cache


@pytest.mark.parametrize(
    ("prepare", "call"),
    [
        pytest.param(prepare, call, id=name)
        for name, prepare, call in [
            ("BlockPool", int, lambda _: BlockPool(LONG)),
            ("BlockPool.allocate_array", free_pool, lambda pool: pool.allocate_array(LONG)),
            ("BlockPool.allocate_many", free_pool, lambda pool: pool.allocate_many(ZEROS)),
            ("BlockPool.allocate_many_array", free_pool, lambda p: p.allocate_many_array(ONES)),
            ("BlockPool.retain_array", used_pool, lambda pool: pool.retain_array(IDS)),
            ("BlockPool.release_array", used_pool, lambda pool: pool.release_array(IDS)),
            ("BlockPool.check", used_pool, lambda pool: pool.check()),
            ("PrefixCache.insert", empty_cache, lambda cache: cache.insert(IDS, IDS)),
            ("PrefixCache.match", full_cache, lambda cache: cache.match(IDS)),
            ("PrefixCache.match_many", full_cache, lambda c: c.match_many(IDS, [0, LONG])),
            ("PrefixCache.allocate", full_cache, lambda cache: cache.allocate(LONG)),
            ("PrefixCache.allocate_array", full_cache, lambda c: c.allocate_array(LONG)),
            ("PrefixCache.evict", full_cache, lambda cache: cache.evict(LONG)),
            ("PrefixCache.reset", full_cache, lambda cache: cache.reset()),
            ("PrefixCache.check", full_cache, lambda cache: cache.check()),
            ("PrefixCache, collected", lambda: [full_cache()], lambda caches: caches.clear()),
            ("common_prefix", int, lambda _: common_prefix(IDS, IDS[::-1][::-1])),
            ("count_eos", int, lambda _: count_eos(ZEROS, 0)),
            ("vector_add", int, lambda _: vector_add(FLOATS, FLOATS)),
        ]
    ],
)
def test_a_call_that_may_be_long_gives_up_the_gil(
    ticker: GilTicker, prepare: Callable[[], Any], call: Callable[[Any], Any]
) -> None:
    # The other thread has to be quick enough to notice, so there are several tries.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if ticker.ticks_during(functools.partial(call, prepare())) > 0:
            break
        assert time.monotonic() < deadline, "the call never gave up the GIL"


@pytest.mark.parametrize(
    "call",
    [
        lambda pool: pool.num_free,
        lambda pool: pool.ref_count(0),
        lambda pool: pool.retain(0),
        lambda pool: pool.release(0),
        lambda pool: pool.allocate(0),
        lambda pool: pool.stats(),
        lambda pool: repr(pool),
    ],
)
def test_a_short_call_waits_without_the_gil(
    ticker: GilTicker, call: Callable[[BlockPool], Any]
) -> None:
    pool = BlockPool(LONG)
    pool.allocate(1)
    pool.retain_array(np.zeros(100_000, dtype=np.int32))
    wait_without_the_gil(ticker, pool.check, lambda: call(pool))


def test_a_short_call_of_a_cache_waits_without_the_gil(ticker: GilTicker) -> None:
    cache = full_cache()
    wait_without_the_gil(ticker, cache.check, cache.stats)
    wait_without_the_gil(ticker, cache.check, lambda: repr(cache))


def test_a_match_waits_for_its_release_without_the_gil(ticker: GilTicker) -> None:
    pool = BlockPool(LONG)
    cache = PrefixCache(pool, 1)
    tokens = np.arange(4, dtype=np.int32)
    cache.insert(tokens, pool.allocate(4) or [])
    matches = [cache.match(tokens)]

    def release() -> None:
        matches.pop().release()

    def collect() -> None:
        matches.pop()

    for end in (release, collect):
        wait_without_the_gil(ticker, pool.check, end, lambda: matches.append(cache.match(tokens)))


def wait_without_the_gil(
    ticker: GilTicker,
    keep_locked: Callable[[], Any],
    call: Callable[[], Any],
    prepare_next: Callable[[], Any] = int,
) -> None:
    """Asserts that the call gives up the GIL when it meets another thread inside keep_locked."""
    stop = False

    def hold() -> None:
        while not stop:
            keep_locked()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while ticker.ticks_during(call) == 0:
            assert time.monotonic() < deadline, "the call never gave up the GIL"
            time.sleep(0.001)
            prepare_next()
        prepare_next()
    finally:
        stop = True
        holder.join()
