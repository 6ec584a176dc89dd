# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The replay engine: drives a block pool and a prefix cache with the requests of a trace.

Each request ends before the next begins, as an engine would serve it alone: match the prompt's
prefix, allocate the blocks that are missing (evicting what must go), insert the prompt, release
everything. The match holds its blocks throughout, so nothing of the running request is evicted.

How a prompt becomes tokens is settled by the plan:

* As published: one id is one token of a cache whose block size is 1, so each published block is
  one block, the last, partial one too. It counts for as many tokens as it really holds.
* Expanded: id `i` stands for the tokens `i * block_tokens + 0, 1, 2, ...`, so that equal ids give
  equal tokens and different ids have none in common. The prompt is cut at its real length, and
  whole blocks of the cache's size are kept; the rest of the prompt holds no block.

A request that needs more blocks than the pool has can never run. It is rejected before anything
is touched, and counted; the rates are over the requests that ran.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from servecore_tools.trace import Request, Trace

OPERATIONS = ("match", "allocate", "insert", "release")

Tokens = NDArray[np.int32] | NDArray[np.int64]
Blocks = Sequence[int] | NDArray[np.int32]


class Pool(Protocol):
    """What the replay asks of servecore.BlockPool."""

    @property
    def num_blocks(self) -> int:
        """Blocks in all."""

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds."""

    def release_array(self, ids: NDArray[np.int32], /) -> None:
        """Gives one reference of each block back."""

    def check(self) -> None:
        """Raises RuntimeError where an invariant is broken."""


class Match(Protocol):
    """What the replay asks of servecore.PrefixMatch."""

    @property
    def num_tokens(self) -> int:
        """Tokens of the prefix found."""

    @property
    def block_ids(self) -> Blocks:
        """Its blocks, held until released."""

    def release(self) -> None:
        """Lets go of the blocks."""


class Cache(Protocol):
    """What the replay asks of servecore.PrefixCache."""

    def match(self, tokens: Tokens, /) -> Match:
        """Finds and holds the longest cached prefix."""

    def allocate(self, n: int, /) -> Blocks | None:
        """Takes n blocks, evicting what it must; None where even that is not enough."""

    def insert(self, tokens: Tokens, block_ids: NDArray[np.int32], /) -> object:
        """Keeps the whole blocks of a prompt."""

    def stats(self) -> Mapping[str, int]:
        """Counters; `evicted_blocks` is the one asked for."""

    def check(self) -> None:
        """Raises RuntimeError where an invariant is broken."""


@dataclass(frozen=True)
class Plan:
    """A trace, and how it is to be replayed.

    Attributes:
        trace: The trace.
        expand: Whether ids are expanded to tokens.
        block_size: Tokens of a block, as reported.
        cache_block_size: Block size that the PrefixCache must have.
        pool_blocks: Blocks that the BlockPool must have.
    """

    trace: Trace
    expand: bool
    block_size: int
    cache_block_size: int
    pool_blocks: int

    def num_blocks(self, request: Request) -> int:
        """Blocks that the request needs."""
        if self.expand:
            return request.input_length // self.block_size
        return len(request.block_ids)

    def tokens(self, request: Request) -> Tokens:
        """The request's prompt as the cache sees it. Copies: made anew when expanded."""
        if not self.expand:
            return request.block_ids
        size = self.trace.block_tokens
        fits = self.trace.num_ids * size <= np.iinfo(np.int32).max
        dtype: type[np.int32] | type[np.int64] = np.int32 if fits else np.int64
        firsts = np.multiply(request.block_ids, size, dtype=dtype)
        tokens: Tokens = np.add.outer(firsts, np.arange(size, dtype=dtype))
        return tokens.reshape(-1)[: request.input_length]

    def hit_tokens(self, request: Request, hit_blocks: int) -> int:
        """Tokens of the prompt that its first `hit_blocks` blocks hold."""
        return min(hit_blocks * self.block_size, request.input_length)


def make_plan(
    trace: Trace,
    *,
    blocks: int | None,
    expand: bool = False,
    block_size: int | None = None,
) -> Plan:
    """Settles how a trace is replayed.

    Args:
        trace: The trace.
        blocks: Blocks of the pool; None takes as many as the trace has distinct blocks, which
            is what an unlimited pool would come to hold.
        expand: Expand ids to tokens.
        block_size: Tokens of a block; the default is the trace's own. Without `expand` only
            that is possible.

    Raises:
        ValueError: A block size that the trace cannot be replayed with.
    """
    size = trace.block_tokens if block_size is None else block_size
    if size < 1:
        raise ValueError(f"block size is {size}; allowed: 1 or more")
    if not expand and size != trace.block_tokens:
        raise ValueError(
            f"block size is {size}; allowed: {trace.block_tokens}, because without expanding each "
            f"block of the trace is one of {trace.block_tokens} tokens"
        )
    if blocks is None:
        # An empty pool could not tell "nothing to keep" from "rejected".
        blocks = max(1, count_distinct_blocks(trace, expand=expand, block_size=size))
    return Plan(
        trace=trace,
        expand=expand,
        block_size=size,
        cache_block_size=size if expand else 1,
        pool_blocks=blocks,
    )


def count_distinct_blocks(trace: Trace, *, expand: bool, block_size: int) -> int:
    """Number of blocks that a cache which never evicts comes to hold.

    Walks the tree of id prefixes, one step for each published id of the trace.
    """
    if not trace.shares_prefixes:
        if expand:
            return sum(request.input_length // block_size for request in trace.requests)
        return trace.num_ids
    children: dict[tuple[int, int], int] = {}
    starts: list[int] = []
    ends: list[int] = []
    for request in trace.requests:
        node = -1
        start = 0
        for block_id in request.block_ids.tolist():
            end = min(start + trace.block_tokens, request.input_length)
            child = children.setdefault((node, block_id), len(starts))
            if child == len(starts):
                starts.append(start)
                ends.append(end)
            elif ends[child] < end:
                ends[child] = end
            node = child
            start = end
    if not expand:
        return len(starts)
    # A whole block of the cache belongs to the id in which it ends.
    return sum(
        end // block_size - start // block_size for start, end in zip(starts, ends, strict=True)
    )


@dataclass(frozen=True)
class OperationTimes:
    """Times of one kind of call, in microseconds; all 0 where there was no call."""

    count: int
    mean_us: float
    p50_us: float
    p99_us: float
    total_seconds: float


@dataclass(frozen=True)
class Result:
    """What a replay found.

    Attributes:
        requests: Requests of the trace, rejected ones included.
        rejected_requests: Requests that need more blocks than the pool has.
        rejected_tokens: Their tokens, which are in none of the counts below.
        tokens: Prompt tokens of the requests that ran.
        hit_tokens: Those whose block was found in the cache.
        blocks: Blocks that these requests needed.
        hit_blocks: Those that were found in the cache.
        pool_blocks: Blocks of the pool.
        evicted_blocks: Blocks evicted to make room.
        peak_blocks: Most blocks in use at any time, by the cache and the running request.
        seconds: Wall time of the whole replay, the making of tokens included.
        operations: Times by the names of OPERATIONS.
    """

    requests: int
    rejected_requests: int
    rejected_tokens: int
    tokens: int
    hit_tokens: int
    blocks: int
    hit_blocks: int
    pool_blocks: int
    evicted_blocks: int
    peak_blocks: int
    seconds: float
    operations: dict[str, OperationTimes]

    @property
    def hit_rate_tokens(self) -> float:
        """Fraction of the tokens found in the cache; 0 where there were none."""
        return self.hit_tokens / self.tokens if self.tokens else 0.0

    @property
    def hit_rate_blocks(self) -> float:
        """Fraction of the blocks found in the cache; 0 where there were none."""
        return self.hit_blocks / self.blocks if self.blocks else 0.0

    @property
    def core_seconds(self) -> float:
        """Time spent in the pool and the cache."""
        return sum(times.total_seconds for times in self.operations.values())


def replay(
    plan: Plan,
    pool: Pool,
    cache: Cache,
    on_request: Callable[[], None] = lambda: None,
) -> Result:
    """Replays the plan's trace, and checks every invariant of the pool and the cache at the end.

    Args:
        plan: The trace and how to replay it.
        pool: An unused pool of `plan.pool_blocks` blocks.
        cache: An unused cache on that pool, of block size `plan.cache_block_size`.
        on_request: Called after each request.

    Returns:
        Counts and times.

    Raises:
        RuntimeError: The pool or the cache broke one of its promises.
    """
    clock = time.perf_counter_ns
    times = {name: array("q") for name in OPERATIONS}
    match_ns, allocate_ns, insert_ns, release_ns = (times[name].append for name in OPERATIONS)
    rejected = rejected_tokens = tokens_seen = hit_tokens = blocks_seen = hit_blocks = peak = 0
    begin = clock()
    for request in plan.trace.requests:
        needed = plan.num_blocks(request)
        if needed > plan.pool_blocks:
            rejected += 1
            rejected_tokens += request.input_length
            on_request()
            continue
        tokens = plan.tokens(request)

        start = clock()
        match = cache.match(tokens)
        match_ns(clock() - start)
        held = np.asarray(match.block_ids, dtype=np.int32)
        hits = len(held)
        if match.num_tokens != hits * plan.cache_block_size:
            raise RuntimeError(
                f"a match of {hits} blocks of {plan.cache_block_size} tokens says it has "
                f"{match.num_tokens} tokens"
            )

        own = np.empty(0, dtype=np.int32)
        if needed > hits:
            start = clock()
            allocated = cache.allocate(needed - hits)
            allocate_ns(clock() - start)
            if allocated is None:
                raise RuntimeError(
                    f"{needed - hits} blocks were refused although only the running request's "
                    f"{hits} of {plan.pool_blocks} are held"
                )
            own = np.asarray(allocated, dtype=np.int32)
        peak = max(peak, pool.num_blocks - pool.num_free)
        block_ids = np.concatenate((held, own))

        start = clock()
        cache.insert(tokens, block_ids)
        insert_ns(clock() - start)

        start = clock()
        match.release()
        pool.release_array(own)
        release_ns(clock() - start)

        tokens_seen += request.input_length
        hit_tokens += plan.hit_tokens(request, hits)
        blocks_seen += needed
        hit_blocks += hits
        on_request()
    seconds = (clock() - begin) / 1e9
    pool.check()
    cache.check()
    return Result(
        requests=len(plan.trace.requests),
        rejected_requests=rejected,
        rejected_tokens=rejected_tokens,
        tokens=tokens_seen,
        hit_tokens=hit_tokens,
        blocks=blocks_seen,
        hit_blocks=hit_blocks,
        pool_blocks=plan.pool_blocks,
        evicted_blocks=cache.stats()["evicted_blocks"],
        peak_blocks=peak,
        seconds=seconds,
        operations={name: _summarise(times[name]) for name in OPERATIONS},
    )


def _summarise(nanoseconds: array[int]) -> OperationTimes:
    if not nanoseconds:
        return OperationTimes(0, 0.0, 0.0, 0.0, 0.0)
    values = np.frombuffer(nanoseconds, dtype=np.int64)
    p50, p99 = np.percentile(values, (50, 99))
    return OperationTimes(
        count=len(values),
        mean_us=float(values.mean()) / 1e3,
        p50_us=float(p50) / 1e3,
        p99_us=float(p99) / 1e3,
        total_seconds=float(values.sum()) / 1e9,
    )
