# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the KV core: the boundary, the block pool, the prefix cache."""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import servecore
from servecore_tools.bench import peers
from servecore_tools.bench.timing import (
    DEFAULT_REPEATS,
    QUICK_REPEATS,
    Figure,
    LeftOut,
    at_least,
    at_most_times,
    collector_off,
    interleaved,
    statement,
    times_faster,
)
from servecore_tools.bench.workloads import Tokens, make_workloads

SECTIONS = ("boundary", "pool", "match", "tree", "hash")
PAGES = (16, 1)
HASH_PAGE = 16
BATCH = 512
MATCH_TOKENS = 32_768
EVICT_TOKENS = 8192

_POOL_BLOCKS = 65_536
_NO_OP = "Python no-op call"


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        sections: Which of SECTIONS.
        quick: Small workloads and short runs, whose figures mean little.
        repeats: Runs of each side.
        peers: The folder of the rivals, if there is one.
        trace: The trace of the workload MC, if there is one.
    """

    sections: tuple[str, ...]
    quick: bool
    repeats: int
    peers: Path | None
    trace: Path | None

    @property
    def seconds(self) -> float:
        """About how long one run of a small statement takes."""
        return 0.005 if self.quick else 0.1


def default_repeats(*, quick: bool) -> int:
    """The number of repeats where none is given."""
    return QUICK_REPEATS if quick else DEFAULT_REPEATS


def count_steps(plan: Plan) -> int:
    """How many times `measure` will say that a step begins."""
    num_workloads = 2 + (plan.trace is not None)
    weight = {"tree": num_workloads * len(PAGES), "hash": num_workloads}
    return sum(weight.get(section, 1) for section in plan.sections)


def measure(plan: Plan) -> Iterator[str | Figure | LeftOut]:
    """Measures what the plan says.

    Yields:
        The name of each step as it begins, each figure as it is taken, and what is left out.
    """
    steps: dict[str, Callable[[Plan], Iterator[str | Figure | LeftOut]]] = {
        "boundary": _boundary,
        "pool": _pool,
        "match": _warm_match,
        "tree": _tree,
        "hash": _hash,
    }
    for section in SECTIONS:
        if section in plan.sections:
            yield from steps[section](plan)
    if plan.trace is None and {"tree", "hash"} & set(plan.sections):
        yield LeftOut("workload MC", "no trace is given: --trace FILE, or TRACES=FOLDER")


def _boundary(plan: Plan) -> Iterator[str | Figure]:
    yield "calls across the boundary"
    pool = servecore.BlockPool(_POOL_BLOCKS)

    def no_op() -> None:
        pass

    # The least that a bound function does: it gives a number that it has.
    names: dict[str, object] = {
        "empty_call": vars(servecore.BlockPool)["num_blocks"].fget,
        "pool": pool,
        "allocate": pool.allocate,
        "release": pool.release,
        "no_op": no_op,
    }
    codes = ("empty_call(pool)", "release(allocate(1)[0])", "no_op()")
    sides = [statement(code, names, plan.seconds) for code in codes]
    with collector_off():
        empty, pair, limit = interleaved(plan.repeats, sides)
    name = "empty call (getter of num_blocks)"
    yield Figure("boundary", name, "ns", empty, _NO_OP, limit, at_most_times(2))
    yield Figure(
        "boundary", "allocate(1) + release(1)", "ns", pair, _NO_OP, limit, at_most_times(8)
    )


def _pool(plan: Plan) -> Iterator[str | Figure | LeftOut]:
    yield f"batches of {BATCH} blocks"
    pool = servecore.BlockPool(_POOL_BLOCKS)
    names: dict[str, object] = {"allocate": pool.allocate_array, "release": pool.release_array}
    sides = [statement(f"release(allocate({BATCH}))", names, plan.seconds)]
    if plan.peers is not None:
        rival = peers.VllmPool(plan.peers, _POOL_BLOCKS, HASH_PAGE).pool
        theirs = {"get": rival.get_new_blocks, "free": rival.free_blocks}
        sides.append(statement(f"free(reversed(get({BATCH})))", theirs, plan.seconds))
    with collector_off():
        ours, *others = interleaved(plan.repeats, sides)
    name = f"allocate_array({BATCH}) + release_array"
    if others:
        against = f"{peers.VLLM} BlockPool"
        yield Figure("pool", name, "ns", ours, against, others[0], times_faster(50))
    rate = [BATCH / nanoseconds * 1e3 for nanoseconds in ours]
    yield Figure("pool", f"{name}, rate", "M blocks/s", rate, goal=at_least(130))
    if plan.peers is None:
        yield LeftOut(f"{peers.VLLM} BlockPool", _NO_PEERS)


def _warm_match(plan: Plan) -> Iterator[str | Figure]:
    yield f"match of {MATCH_TOKENS} cached tokens"
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    for dtype in (np.int32, np.int64):
        tokens = np.random.default_rng(5).integers(0, 128_000, MATCH_TOKENS).astype(dtype)
        same = tokens.copy()
        limit: dict[str, object] = {
            "compare": compare,
            "a": ctypes.c_void_p(tokens.ctypes.data),
            "b": ctypes.c_void_p(same.ctypes.data),
            "n": ctypes.c_size_t(tokens.nbytes),
        }
        for page in (*PAGES, 512):
            pool = servecore.BlockPool(MATCH_TOKENS)
            cache = servecore.PrefixCache(pool, page)
            blocks = pool.allocate_array(MATCH_TOKENS // page)
            assert blocks is not None
            cache.insert(tokens, blocks)
            pool.release_array(blocks)
            names: dict[str, object] = {"match": cache.match, "tokens": same}
            sides = [
                statement("match(tokens).release()", names, plan.seconds),
                statement("compare(a, b, n)", limit, plan.seconds),
            ]
            with collector_off():
                ours, other = (
                    [nanoseconds / 1e3 for nanoseconds in run]
                    for run in interleaved(plan.repeats, sides)
                )
            name = f"warm match of {MATCH_TOKENS:,} {tokens.dtype} tokens, page {page}"
            yield Figure("match", name, "us", ours, "memcmp of its bytes", other, at_most_times(3))


class OurCache:
    """Our pool and cache, with the requests of a workload.

    Args:
        requests: The tokens of each request.
        page: Tokens of a block.
    """

    def __init__(self, requests: Sequence[NDArray[Any]], page: int) -> None:
        self.pool = servecore.BlockPool(sum(len(tokens) // page for tokens in requests) + 1)
        # No events, as the rivals record none here.
        self.cache = servecore.PrefixCache(self.pool, page, max_events=0)
        self._page = page

    def request(self, tokens: NDArray[Any], times: dict[str, float]) -> None:
        """One request: match and read its blocks, insert, let go; its times are added.

        Taking the fresh blocks is outside of them, as it is outside of the rival's.
        """
        pool, cache = self.pool, self.cache
        start = perf_counter()
        match = cache.match(tokens)
        found = match.block_ids
        matched = perf_counter()
        fresh = _taken(pool, len(tokens) // self._page - len(found))
        blocks = np.concatenate([found, fresh])
        ready = perf_counter()
        cache.insert(tokens, blocks)
        inserted = perf_counter()
        match.release()
        end = perf_counter()
        pool.release_array(fresh)
        times["match"] += matched - start
        times["insert"] += inserted - ready
        times["release"] += end - inserted

    def whole_request(self, tokens: NDArray[Any], times: dict[str, float]) -> None:
        """One request with everything in its time: match, allocate, insert, release."""
        pool, cache = self.pool, self.cache
        start = perf_counter()
        match = cache.match(tokens)
        found = match.block_ids
        matched = perf_counter()
        fresh = _taken(pool, len(tokens) // self._page - len(found))
        blocks = np.concatenate([found, fresh])
        taken = perf_counter()
        cache.insert(tokens, blocks)
        inserted = perf_counter()
        match.release()
        pool.release_array(fresh)
        end = perf_counter()
        times["match"] += matched - start
        times["allocate"] += taken - matched
        times["insert"] += inserted - taken
        times["release"] += end - inserted

    def match(self, tokens: NDArray[Any]) -> None:
        """A match, let go at once."""
        self.cache.match(tokens).release()

    def evict(self, num_tokens: int) -> int:
        """Frees at least that many tokens where there are so many, and gives the number freed."""
        return self.cache.evict(-(-num_tokens // self._page)) * self._page

    @property
    def num_tokens(self) -> int:
        """Tokens in the cache."""
        return self.cache.stats()["num_cached_blocks"] * self._page


def _taken(pool: servecore.BlockPool, count: int) -> NDArray[np.int32]:
    blocks = pool.allocate_array(count)
    if blocks is None:
        raise RuntimeError(f"the pool has {pool.num_free} free blocks; needed: {count}")
    return blocks


@dataclass(frozen=True)
class _Pass:
    """Microseconds a request, or a call, of one pass over a workload."""

    parts: dict[str, float]
    rematch: float = 0.0
    evict: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def _run_requests(request: Callable[..., None], *inputs: Sequence[Any]) -> _Pass:
    times: dict[str, float] = defaultdict(float)
    with collector_off():
        for arguments in zip(*inputs, strict=True):
            request(*arguments, times)
    return _Pass({name: taken / len(inputs[0]) * 1e6 for name, taken in times.items()})


def _run_all(side: Any, *inputs: Sequence[Any]) -> _Pass:
    first = _run_requests(side.request, *inputs)
    with collector_off():
        start = perf_counter()
        for key in inputs[0]:
            side.match(key)
        rematch = (perf_counter() - start) / len(inputs[0]) * 1e6
        target = side.num_tokens * 0.9
        freed = calls = 0
        start = perf_counter()
        while freed < target:
            step = side.evict(EVICT_TOKENS)
            if step == 0:
                break
            freed += step
            calls += 1
        evict = (perf_counter() - start) / max(calls, 1) * 1e6
    return _Pass(first.parts, rematch, evict)


def _tree(plan: Plan) -> Iterator[str | Figure | LeftOut]:
    for name, make in make_workloads(quick=plan.quick, trace=plan.trace):
        requests = make().requests
        narrow = [tokens.astype(np.int32) for tokens in requests]
        inputs = peers.sglang_inputs(requests) if plan.peers is not None else None
        for page in PAGES:
            yield f"{name}, page {page}"
            yield from _tree_figures(plan, f"{name}, page {page}", requests, narrow, page, inputs)
    if plan.peers is None:
        yield LeftOut(peers.SGLANG, _NO_PEERS)


def _tree_figures(
    plan: Plan,
    label: str,
    requests: Sequence[Tokens],
    narrow: Sequence[NDArray[np.int32]],
    page: int,
    inputs: tuple[Sequence[Any], Sequence[Any]] | None,
) -> Iterator[Figure]:
    def ours(tokens: Sequence[NDArray[Any]]) -> _Pass:
        return _run_all(OurCache(tokens, page), tokens)

    def whole() -> _Pass:
        return _run_requests(OurCache(requests, page).whole_request, requests)

    sides: list[Callable[[], _Pass]] = [partial(ours, requests), partial(ours, narrow), whole]
    if inputs is not None:
        folder, given = plan.peers, inputs
        assert folder is not None

        def theirs() -> _Pass:
            return _run_all(peers.SglangTree(folder, page), *given)

        # Right after the run that it is compared with.
        sides.insert(1, theirs)
    runs = interleaved(plan.repeats, sides)
    rival = runs.pop(1) if inputs is not None else []
    against = peers.SGLANG if rival else ""
    flow = "match + hold + insert + release"
    for title, passes, goal in (
        (f"{label}, int64: {flow}", runs[0], times_faster(4)),
        (f"{label}, int32: {flow}", runs[1], times_faster(4)),
        (f"{label}, int64: whole request, blocks taken and freed", runs[2], None),
    ):
        yield Figure(
            "tree",
            title,
            "us",
            [run.total for run in passes],
            against,
            [run.total for run in rival],
            goal,
            _parts(passes),
            _parts(rival),
        )
    for title, field in (("match of everything again", "rematch"), ("evict 8,192 tokens", "evict")):
        yield Figure(
            "tree",
            f"{label}, int64: {title}",
            "us",
            [getattr(run, field) for run in runs[0]],
            against,
            [getattr(run, field) for run in rival],
        )


def _hash(plan: Plan) -> Iterator[str | Figure | LeftOut]:
    if plan.peers is None:
        yield LeftOut(f"{peers.VLLM}, hash + match + allocate + cache + free", _NO_PEERS)
        return
    for name, make in make_workloads(quick=plan.quick, trace=plan.trace):
        yield f"{name} beside {peers.VLLM}"
        requests = make().requests
        lists = peers.vllm_inputs(requests)
        runs = interleaved(
            # A pass of the rival takes seconds.
            min(plan.repeats, QUICK_REPEATS),
            [partial(_whole, requests), partial(_vllm, plan.peers, lists)],
        )
        yield Figure(
            "hash",
            f"{name}, page {HASH_PAGE}, int64: whole request",
            "us",
            [run.total for run in runs[0]],
            f"{peers.VLLM}, hash to free",
            [run.total for run in runs[1]],
            times_faster(50),
            _parts(runs[0]),
            _parts(runs[1]),
        )


def _whole(requests: Sequence[Tokens]) -> _Pass:
    return _run_requests(OurCache(requests, HASH_PAGE).whole_request, requests)


def _vllm(folder: Path, lists: Sequence[list[int]]) -> _Pass:
    num_blocks = sum(-(-len(tokens) // HASH_PAGE) for tokens in lists) + 2
    return _run_requests(peers.VllmPool(folder, num_blocks, HASH_PAGE).request, lists)


def _parts(passes: Sequence[_Pass]) -> dict[str, list[float]]:
    return {
        name: [run.parts[name] for run in passes] for name in (passes[0].parts if passes else ())
    }


def peer_versions(folder: Path | None) -> dict[str, str]:
    """Versions of what is measured beside ours, by name."""
    versions = {"numpy": np.__version__}
    if folder is not None:
        versions |= peers.find_versions(folder)
        # Without importing it, so that only the sections that need it run with it loaded.
        with suppress(importlib.metadata.PackageNotFoundError):
            versions["torch"] = importlib.metadata.version("torch")
    return versions


_NO_PEERS = "no folder of rivals is given: PEERS=FOLDER"
