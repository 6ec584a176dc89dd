# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the replay engine, on the models and on the real core."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models
import servecore
from servecore_tools.replay import (
    OPERATIONS,
    Plan,
    Result,
    Tokens,
    count_distinct_blocks,
    make_plan,
    replay,
)
from servecore_tools.trace import Request, Trace, read_trace
from servecore_tools.workload import make_workload
from support import MOONCAKE_HEAD

POLICIES = st.sampled_from(sorted(models.RANKS))
CORES = pytest.mark.parametrize("core", [models, servecore], ids=["model", "servecore"])


def make_trace(prompts: Sequence[tuple[Sequence[int], int]], block_tokens: int) -> Trace:
    """A trace of (block ids, tokens in the last block)."""
    requests = [
        Request(
            0.0,
            max(0, len(ids) - 1) * block_tokens + (last if ids else 0),
            0,
            np.array(ids, dtype=np.int32),
        )
        for ids, last in prompts
    ]
    num_ids = 1 + max((int(block) for ids, _ in prompts for block in ids), default=-1)
    return Trace("made", "made", block_tokens, num_ids, True, requests)


def run(core: ModuleType, plan: Plan, eviction: str = "lru") -> Result:
    pool = core.BlockPool(plan.pool_blocks)
    return replay(plan, pool, core.PrefixCache(pool, plan.cache_block_size, eviction=eviction))


def counts(result: Result) -> dict[str, int]:
    return {name: value for name, value in vars(result).items() if isinstance(value, int)}


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Small traces whose few ids collide often, also behind different prefixes."""
    block_tokens = draw(st.integers(1, 6))
    prompt = st.tuples(st.lists(st.integers(0, 3), max_size=7), st.integers(1, block_tokens))
    return make_trace(draw(st.lists(prompt, min_size=1, max_size=25)), block_tokens)


def prefixes_found(trace: Trace, plan: Plan) -> tuple[int, int, int]:
    """Hit blocks, hit tokens and distinct blocks, by remembering every prefix ever seen."""
    seen: set[bytes] = set()
    hit_blocks = hit_tokens = 0
    for request in trace.requests:
        tokens = plan.tokens(request)
        whole = len(tokens) // plan.cache_block_size
        prefixes = [tokens[: n * plan.cache_block_size].tobytes() for n in range(1, whole + 1)]
        hits = sum(1 for _ in itertools.takewhile(seen.__contains__, prefixes))
        hit_blocks += hits
        hit_tokens += min(hits * plan.block_size, request.input_length)
        seen.update(prefixes)
    return hit_blocks, hit_tokens, len(seen)


@CORES
@settings(deadline=None)
@given(trace=traces(), expand=st.booleans(), block_size=st.integers(1, 9))
def test_an_unlimited_cache_finds_every_prefix(
    core: ModuleType, trace: Trace, expand: bool, block_size: int
) -> None:
    plan = make_plan(trace, blocks=None, expand=expand, block_size=block_size if expand else None)
    result = run(core, plan)
    hit_blocks, hit_tokens, distinct = prefixes_found(trace, plan)
    assert (result.hit_blocks, result.hit_tokens) == (hit_blocks, hit_tokens)
    assert plan.pool_blocks == max(1, distinct)
    assert (result.peak_blocks, result.evicted_blocks) == (distinct, 0)
    assert result.rejected_requests == 0


@settings(deadline=None, max_examples=300)
@given(
    trace=traces(),
    blocks=st.integers(1, 20),
    expand=st.booleans(),
    block_size=st.integers(1, 9),
    eviction=POLICIES,
)
def test_the_real_core_does_as_the_model(
    trace: Trace, blocks: int, expand: bool, block_size: int, eviction: str
) -> None:
    plan = make_plan(trace, blocks=blocks, expand=expand, block_size=block_size if expand else None)
    assert counts(run(servecore, plan, eviction)) == counts(run(models, plan, eviction))


@pytest.mark.parametrize("eviction", sorted(models.RANKS))
@pytest.mark.parametrize("blocks", [300, 1000, 10_000, None])
@pytest.mark.parametrize(("expand", "block_size"), [(False, None), (True, 16), (True, 100)])
def test_the_real_core_does_as_the_model_on_the_workload(
    blocks: int | None, expand: bool, block_size: int | None, eviction: str
) -> None:
    plan = make_plan(make_workload(150), blocks=blocks, expand=expand, block_size=block_size)
    assert counts(run(servecore, plan, eviction)) == counts(run(models, plan, eviction))


@pytest.mark.parametrize("eviction", sorted(models.RANKS))
@pytest.mark.parametrize("blocks", [300, 1000])
def test_the_real_core_does_as_the_model_on_the_excerpt(blocks: int, eviction: str) -> None:
    plan = make_plan(read_trace(MOONCAKE_HEAD), blocks=blocks)
    ends = []
    for core in (servecore, models):
        pool = core.BlockPool(plan.pool_blocks)
        cache = core.PrefixCache(pool, plan.cache_block_size, eviction=eviction)
        result = replay(plan, pool, cache)
        cached = cache.stats()["num_cached_blocks"]
        # What is left, in the order in which the policy lets it go.
        left = [[pool.num_free, *(cache.allocate(50 + pool.num_free) or [])] for _ in range(4)]
        ends.append((counts(result), cached, left))
    assert ends[0] == ends[1]
    assert ends[0][0]["evicted_blocks"] > 1000


def test_policies_differ_where_blocks_are_few() -> None:
    prompts = [0, 0, 1, 0, 5, 3, 5, 1, 1, 3, 5]
    plan = make_plan(make_trace([([prompt], 1) for prompt in prompts], 1), blocks=3)
    hits = {eviction: run(servecore, plan, eviction).hit_blocks for eviction in models.RANKS}
    # Prompts of a trace have one priority.
    assert hits == {"lru": 6, "lfu": 4, "slru": 5, "fifo": 7, "priority": 6}


@CORES
@pytest.mark.parametrize(
    ("blocks", "expand", "hit_tokens", "hit_blocks", "evicted"),
    [
        (None, False, 164_864, 322, 0),
        (None, True, 164_864, 322, 0),
        (1000, False, 101_888, 199, 4_338),
        (1000, True, 101_888, 199, 4_138),
        (300, False, 101_888, 199, 5_038),
        (300, True, 101_888, 199, 4_838),
    ],
)
def test_the_published_excerpt(
    core: ModuleType,
    blocks: int | None,
    expand: bool,
    hit_tokens: int,
    hit_blocks: int,
    evicted: int,
) -> None:
    result = run(core, make_plan(read_trace(MOONCAKE_HEAD), blocks=blocks, expand=expand))
    assert result.requests == 200
    assert result.tokens == 2_782_179
    assert result.blocks == (5_337 if expand else 5_537)
    assert (result.hit_tokens, result.hit_blocks) == (hit_tokens, hit_blocks)
    assert result.evicted_blocks == evicted


@CORES
def test_a_partial_block_counts_what_it_holds(core: ModuleType) -> None:
    trace = make_trace([([0, 1], 3), ([0, 1], 3), ([0, 2], 10)], block_tokens=10)
    result = run(core, make_plan(trace, blocks=None))
    assert (result.tokens, result.hit_tokens) == (46, 13 + 10)
    assert (result.blocks, result.hit_blocks) == (6, 3)
    assert result.hit_rate_tokens == 23 / 46
    assert result.hit_rate_blocks == 3 / 6


@CORES
def test_expanded_a_partial_block_holds_no_block(core: ModuleType) -> None:
    trace = make_trace([([0, 1], 3), ([0, 1], 3), ([0, 2], 10)], block_tokens=10)
    result = run(core, make_plan(trace, blocks=None, expand=True))
    assert (result.tokens, result.hit_tokens) == (46, 20)
    assert (result.blocks, result.hit_blocks) == (4, 2)


@CORES
def test_the_least_recently_used_goes_first(core: ModuleType) -> None:
    a, b, c = ([0], 1), ([1], 1), ([2], 1)
    result = run(core, make_plan(make_trace([a, b, a, c, a, b], 1), blocks=2))
    assert (result.hit_blocks, result.evicted_blocks, result.peak_blocks) == (2, 2, 2)


@CORES
def test_leaves_go_before_their_parents(core: ModuleType) -> None:
    trace = make_trace([([0, 1, 2], 1), ([3], 1), ([0, 1, 2], 1)], 1)
    result = run(core, make_plan(trace, blocks=3))
    assert (result.hit_blocks, result.evicted_blocks) == (2, 2)


@CORES
def test_nothing_of_the_running_request_is_evicted(core: ModuleType) -> None:
    # The second request needs all four blocks, so its own prefix is all that could be evicted.
    trace = make_trace([([0, 1], 1), ([0, 1, 2, 3], 1)], 1)
    result = run(core, make_plan(trace, blocks=4))
    assert (result.hit_blocks, result.evicted_blocks, result.peak_blocks) == (2, 0, 4)


@CORES
def test_a_request_beyond_the_pool_is_rejected_and_touches_nothing(core: ModuleType) -> None:
    small, big = ([0, 1], 2), ([0, 1, 2, 3], 2)
    result = run(core, make_plan(make_trace([small, big, small], 2), blocks=3))
    assert (result.requests, result.rejected_requests, result.rejected_tokens) == (3, 1, 8)
    assert (result.tokens, result.blocks, result.hit_blocks) == (8, 4, 2)
    assert (result.evicted_blocks, result.peak_blocks) == (0, 2)


@CORES
def test_requests_without_tokens(core: ModuleType) -> None:
    plan = make_plan(make_trace([([], 0), ([], 0)], 4), blocks=None)
    result = run(core, plan)
    assert (plan.pool_blocks, result.requests, result.tokens, result.peak_blocks) == (1, 2, 0, 0)
    assert (result.hit_rate_tokens, result.hit_rate_blocks) == (0.0, 0.0)
    assert result.operations["allocate"].count == 0
    assert result.operations["allocate"].p99_us == 0.0


@CORES
def test_every_operation_is_timed(core: ModuleType) -> None:
    trace = make_trace([([0, 1], 1), ([0, 1], 1), ([0, 2], 1), ([0, 1, 2, 3], 1)], 1)
    result = run(core, make_plan(trace, blocks=3))
    times = result.operations
    assert tuple(times) == OPERATIONS
    assert {name: times[name].count for name in times} == {
        "match": 3,
        "allocate": 2,
        "insert": 3,
        "release": 3,
    }
    for each in times.values():
        assert 0 < each.p50_us <= each.p99_us
        assert each.total_seconds == pytest.approx(each.mean_us * each.count / 1e6)
    assert 0 < result.core_seconds < result.seconds


@CORES
def test_progress_is_told_of_every_request(core: ModuleType) -> None:
    plan = make_plan(make_trace([([0], 1), ([0, 1, 2], 1), ([1], 1)], 1), blocks=2)
    pool = core.BlockPool(plan.pool_blocks)
    calls: list[None] = []
    replay(plan, pool, core.PrefixCache(pool, 1), lambda: calls.append(None))
    assert len(calls) == 3


@CORES
def test_nothing_stays_held(core: ModuleType) -> None:
    plan = make_plan(make_workload(60), blocks=1500)
    pool = core.BlockPool(plan.pool_blocks)
    cache = core.PrefixCache(pool, plan.cache_block_size)
    replay(plan, pool, cache)
    cached = cache.stats()["num_cached_blocks"]
    assert pool.num_blocks - pool.num_free == cached > 0
    assert cache.evict(cached + 1) == cached
    assert pool.num_free == pool.num_blocks


@given(
    st.lists(st.integers(0, 2**31 - 1), max_size=5),
    st.integers(1, 5),
    st.integers(1, 600),
)
def test_tokens_are_equal_where_the_ids_are(ids: list[int], last: int, block_tokens: int) -> None:
    trace = make_trace([(ids, min(last, block_tokens))], block_tokens)
    plan = make_plan(trace, blocks=1, expand=True)
    (request,) = trace.requests
    tokens = plan.tokens(request)
    assert tokens.shape == (request.input_length,)
    wanted = [block * block_tokens + offset for block in ids for offset in range(block_tokens)]
    assert tokens.tolist() == wanted[: request.input_length]
    is_small = trace.num_ids * block_tokens < 2**31
    assert tokens.dtype == (np.int32 if is_small else np.int64)


def test_lengths_only_share_nothing() -> None:
    requests = [Request(0.0, 5, 0, np.array([0, 1], np.int32)) for _ in range(2)]
    trace = Trace("made", "azure", 4, 4, False, requests)
    assert count_distinct_blocks(trace, expand=False, block_size=4) == 4
    assert count_distinct_blocks(trace, expand=True, block_size=2) == 4


@pytest.mark.parametrize(
    ("block_size", "expand", "message"),
    [
        (0, True, "block size is 0; allowed: 1 or more"),
        (-3, False, "block size is -3; allowed: 1 or more"),
        (8, False, "block size is 8; allowed: 4, because without expanding"),
    ],
)
def test_a_block_size_that_cannot_be(block_size: int, expand: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_plan(make_trace([([0], 1)], 4), blocks=5, expand=expand, block_size=block_size)


class StingyCache(models.PrefixCache):
    """Refuses every block."""

    def allocate(self, n: int, /) -> None:
        return None


class BoastfulCache(models.PrefixCache):
    """Says that its matches are longer than they are."""

    def match(self, tokens: Tokens, /) -> models.PrefixMatch:
        match = super().match(tokens)
        match.num_tokens += 1
        return match


class LeakyPool(models.BlockPool):
    """Loses a block that is released."""

    def release_array(self, ids: NDArray[np.int32], /) -> None:
        super().release_array(ids)
        if self._free:
            self._free.pop()


@pytest.mark.parametrize(
    ("pool_class", "cache_class", "message"),
    [
        (models.BlockPool, StingyCache, "2 blocks were refused although only .* 0 of 4 are held"),
        (models.BlockPool, BoastfulCache, "a match of 0 blocks of 1 tokens says it has 1 tokens"),
        (LeakyPool, models.PrefixCache, "the free list is not the blocks without references"),
    ],
)
def test_a_core_that_breaks_its_word_is_found_out(
    pool_class: type[models.BlockPool], cache_class: type[models.PrefixCache], message: str
) -> None:
    plan = make_plan(make_trace([([0, 1], 1)], 1), blocks=4)
    pool = pool_class(4)
    with pytest.raises(RuntimeError, match=message):
        replay(plan, pool, cache_class(pool, 1))
