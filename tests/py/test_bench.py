# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmarks' own arithmetic: medians, ratios, goals, and the workloads."""

from __future__ import annotations

import gc
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from servecore_tools.bench import kv, peers
from servecore_tools.bench.report import look_at_machine
from servecore_tools.bench.timing import (
    Figure,
    Goal,
    LeftOut,
    Spread,
    at_least,
    at_most,
    at_most_more,
    at_most_times,
    collector_off,
    interleaved,
    spread,
    statement,
    times_faster,
)
from servecore_tools.bench.worker import (
    Event,
    MeasureError,
    Setting,
    from_line,
    run_beside_peers,
    to_line,
)
from servecore_tools.bench.workloads import chats, from_trace, shared_documents
from support import mooncake_line, write_lines

FIGURE = Figure(
    "pool", "a name", "ns", [2.0, 4.0, 3.0], "a rival", [20.0, 8.0, 9.0], times_faster(3)
)


def test_spread_is_the_median_and_the_quartiles() -> None:
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([1.0, 2.0]) == Spread(1.5, 1.25, 1.75)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)
    with pytest.raises(ValueError, match="found 0 values"):
        spread([])


def test_a_ratio_is_the_median_of_the_ratios_of_the_repeats() -> None:
    # Not the ratio of the medians, which is 9 / 3 here too; so the repeats are told apart.
    figure = replace(FIGURE, other=[20.0, 4.0, 9.0])
    assert figure.ratios == [10.0, 1.0, 3.0]
    assert figure.ratio == 3.0
    shuffled = replace(FIGURE, other=[4.0, 20.0, 9.0])
    assert shuffled.ratios == [2.0, 5.0, 3.0]
    slower = replace(figure, ours=[40.0, 4.0, 3.0], goal=at_most_times(2))
    assert slower.ratios == [2.0, 1.0, pytest.approx(1 / 3)]
    assert replace(figure, other=[]).ratio is None
    without_goal = replace(slower, goal=None)
    assert without_goal.ratios == [0.5, 1.0, 3.0]
    assert replace(without_goal, against_limit=True).ratios == slower.ratios
    assert replace(slower, goal=at_most_more(1)).ratios == slower.ratios


@pytest.mark.parametrize(
    ("goal", "is_met"),
    [
        (times_faster(3), True),
        (times_faster(3.01), False),
        (at_most_times(0.34), True),
        (at_most_times(0.33), False),
        (at_least(3), True),
        (at_least(3.1), False),
        (at_most(3), True),
        (at_most(2.9), False),
        (at_most_more(-6), True),
        (at_most_more(-6.1), False),
        (None, None),
    ],
)
def test_a_goal_is_met_or_missed(goal: Goal | None, is_met: bool | None) -> None:
    figure = replace(FIGURE, ours=[3.0], other=[9.0], goal=goal)
    assert figure.is_met is is_met


def test_a_goal_without_its_rival_is_neither_met_nor_missed() -> None:
    assert replace(FIGURE, other=[]).is_met is None
    assert replace(FIGURE, other=[], goal=at_least(2)).is_met is True


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (times_faster(50), ">= 50x"),
        (at_most_times(2), "<= 2x"),
        (at_least(130), ">= 130"),
        (at_most(60), "<= 60"),
        (at_most_more(1), "<= +1"),
    ],
)
def test_goals_as_the_table_shows_them(goal: Goal, text: str) -> None:
    assert str(goal) == text


def test_the_record_holds_every_repeat() -> None:
    record = replace(FIGURE, parts={"match": [1.0, 2.0, 3.0]}).to_record()
    assert record == {
        "section": "pool",
        "name": "a name",
        "unit": "ns",
        "ours": {
            "median": 3.0,
            "low": 2.5,
            "high": 3.5,
            "repeats": [2.0, 4.0, 3.0],
            "parts": {"match": [1.0, 2.0, 3.0]},
        },
        "against": "a rival",
        "other": {
            "median": 9.0,
            "low": 8.5,
            "high": 14.5,
            "repeats": [20.0, 8.0, 9.0],
            "parts": {},
        },
        "goal": {"kind": "times_faster", "value": 3},
        "against_limit": False,
        "ratio": 3.0,
        "ratios": [10.0, 2.0, 3.0],
        "met": True,
    }
    assert replace(FIGURE, other=[]).to_record()["other"] is None


def test_sides_run_by_turns_and_take_turns_at_being_first() -> None:
    order: list[str] = []

    def side(name: str) -> int:
        order.append(name)
        return len(order)

    results = interleaved(3, [lambda: side("a"), lambda: side("b")])
    assert "".join(order) == "abbaab"
    assert results == [[1, 4, 5], [2, 3, 6]]


def test_a_statement_is_timed_by_its_executions() -> None:
    calls: list[None] = []
    side = statement("calls.append(None)", {"calls": calls}, 0.002)
    calls.clear()
    assert side() > 0
    once = len(calls)
    assert once >= 1
    side()
    assert len(calls) == 2 * once


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was_afterwards(was_on: bool) -> None:
    assert gc.isenabled()
    try:
        if not was_on:
            gc.disable()
        with collector_off():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        gc.enable()


def hit_ratio(requests: list[np.ndarray]) -> float:
    """The part of the tokens that an endless cache would find."""
    cache = kv.OurCache(requests, 1)
    found = sum(_hits(cache, tokens) for tokens in requests)
    return found / sum(map(len, requests))


def _hits(cache: kv.OurCache, tokens: np.ndarray) -> int:
    with cache.cache.match(tokens) as match:
        found = match.num_tokens
    cache.whole_request(tokens, dict.fromkeys(("match", "allocate", "insert", "release"), 0.0))
    return found


def test_documents_are_shared_and_the_same_every_time() -> None:
    requests = shared_documents(60, num_documents=3, shortest=64, longest=1024)
    again = shared_documents(60, num_documents=3, shortest=64, longest=1024)
    assert all(np.array_equal(a, b) for a, b in zip(requests, again, strict=True))
    assert len(requests) == 60
    assert all(64 <= len(tokens) <= 1024 and tokens.dtype == np.int64 for tokens in requests)
    assert len({tokens[:57].tobytes() for tokens in requests}) == 3
    assert 0.3 < hit_ratio(requests) < 0.8


def test_chats_send_their_history_again() -> None:
    requests = chats(3, num_turns=4, system=8, first=20, turn=10)
    assert [len(tokens) for tokens in requests] == [20] * 3 + [30] * 3 + [40] * 3 + [50] * 3
    assert all(np.array_equal(tokens[:8], requests[0][:8]) for tokens in requests)
    for before, after in zip(requests, requests[3:], strict=False):
        assert np.array_equal(before, after[: len(before)])
    found = 2 * 8 + 3 * (20 + 30 + 40)
    assert hit_ratio(requests) == found / (3 * (20 + 30 + 40 + 50))


def test_a_trace_is_expanded_to_tokens(tmp_path: Path) -> None:
    lines = [mooncake_line([7, 8]), mooncake_line([7, 9], 600), mooncake_line([])]
    requests = from_trace(write_lines(tmp_path / "t", [*lines, mooncake_line([7])]), 3)
    assert [len(tokens) for tokens in requests] == [1024, 600]
    assert np.array_equal(requests[0][:512], requests[1][:512])
    assert requests[0][512] != requests[1][512]
    assert hit_ratio(requests) == 512 / 1624


@pytest.mark.parametrize("page", [1, 16])
def test_what_is_timed_leaves_the_cache_whole(page: int) -> None:
    requests = chats(3, num_turns=4, system=32, first=64, turn=40)
    times = dict.fromkeys(("match", "allocate", "insert", "release"), 0.0)
    for name in ("request", "whole_request"):
        ours = kv.OurCache(requests, page)
        for tokens in requests:
            getattr(ours, name)(tokens, times)
        ours.cache.check()
        cached = ours.cache.stats()["num_cached_blocks"]
        # Every block is the cache's alone, so that nothing was leaked to be measured again.
        assert ours.pool.num_free == ours.pool.num_blocks - cached
        assert ours.num_tokens == cached * page
        assert ours.evict(2 * page) == 2 * page
        while ours.evict(kv.EVICT_TOKENS):
            pass
        assert ours.pool.num_free == ours.pool.num_blocks
    assert all(taken > 0 for taken in times.values())


def test_events_pass_through_a_line_unchanged() -> None:
    events: list[Event] = [
        "a step",
        FIGURE,
        replace(FIGURE, goal=None, other=[]),
        LeftOut("what", "why"),
        Setting("3.11.0", None, {"numpy": "2"}),
    ]
    assert [from_line(to_line(event)) for event in events] == events


@pytest.mark.parametrize("line", ["", "{", "1", "{}", '{"Other": 1}', '{"LeftOut": {"a": 1}}'])
def test_a_line_of_another_kind_is_an_error(line: str) -> None:
    with pytest.raises(MeasureError, match="not an event"):
        from_line(line)


def _fake_peers(folder: Path, script: str) -> kv.Plan:
    program = peers.peers_python(folder)
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return kv.Plan(("boundary",), True, 1, folder, None)


def test_a_child_that_fails_is_told_with_its_last_line(tmp_path: Path) -> None:
    plan = _fake_peers(tmp_path, "echo first >&2; echo 'no such rival' >&2; exit 3")
    with pytest.raises(MeasureError, match="ended with 3: no such rival"):
        list(run_beside_peers(plan, pin=False))


def test_a_child_that_says_nothing_is_told_so(tmp_path: Path) -> None:
    plan = _fake_peers(tmp_path, "exit 1")
    with pytest.raises(MeasureError, match="ended with 1: it said nothing"):
        list(run_beside_peers(plan, pin=False))


def test_versions_of_the_rivals_are_read_from_their_folders(tmp_path: Path) -> None:
    assert peers.find_versions(tmp_path) == {}
    (tmp_path / "sglang_whl" / "sglang-1.2.3.dist-info").mkdir(parents=True)
    (tmp_path / "vllm-4.5").mkdir()
    (tmp_path / "vllm-4.5.tar.gz").touch()
    assert peers.find_versions(tmp_path) == {peers.SGLANG: "1.2.3", peers.VLLM: "4.5"}


def test_the_machine_is_named_by_its_model(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: A Processor @ 2: 3\nmodel name\t: B\n")
    machine = look_at_machine(info)
    assert machine.cpu == "A Processor @ 2: 3"
    assert machine.num_processors >= 1
    assert replace(machine, load=0.5).is_busy is False
    assert replace(machine, load=0.6).is_busy is True
    assert look_at_machine(tmp_path / "none").cpu
    assert set(asdict(machine)) == {"cpu", "num_processors", "load"}
