# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmark tool as its users meet it: options, messages, outputs, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

import servecore
from servecore_tools.bench import cli, kv, peers
from servecore_tools.bench.timing import Figure, LeftOut, times_faster
from servecore_tools.bench.worker import MeasureError, Setting
from support import AZURE_HEADER, MOONCAKE_HEAD, TOOLS, azure_line, write_lines

PEERS = os.environ.get("PEERS", "")
SETTING = Setting("3.11.0", 1, {"numpy": "2.0"})
FIGURE = Figure("pool", "a [name]", "us", [2.0], "a rival", [9.0], times_faster(3))


def invoke(*arguments: str | Path) -> Outcome:
    """Runs the tool within this process."""
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def run_bench(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the tool as a user starts it."""
    in_bazel = "TEST_SRCDIR" in os.environ
    command = [str(TOOLS / "bench")] if in_bazel else [sys.executable, str(TOOLS / "bench_main.py")]
    return subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(autouse=True)
def without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUILD_WORKING_DIRECTORY", "PEERS", "TRACES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[kv.Plan, bool]]:
    """Measures nothing; gives what would have been measured."""
    calls: list[tuple[kv.Plan, bool]] = []

    def fake(plan: kv.Plan, *, pin: bool) -> Iterator[object]:
        calls.append((plan, pin))
        yield from (SETTING, "a step", FIGURE, LeftOut("MC", "no trace"))

    monkeypatch.setattr(cli, "run", fake)
    monkeypatch.setattr(cli, "run_beside_peers", fake)
    return calls


def figures_of(record: dict[str, Any]) -> dict[str, Any]:
    """The figures of a record by name."""
    return {figure["name"]: figure for figure in record["figures"]}


def test_a_quick_run_measures_ours_and_says_what_it_left_out() -> None:
    done = run_bench("kv", "--quick", "--repeats", "2", "--trace", MOONCAKE_HEAD, "--json", "-")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["tool"], record["schema"], record["command"]) == ("servecore bench", 1, "kv")
    assert record["version"] == servecore.__version__
    assert record["options"]["quick"] is True
    assert record["setting"]["versions"]["numpy"]
    assert record["machine"]["cpu"]
    figures = figures_of(record)
    assert {figure["section"] for figure in figures.values()} == set(kv.SECTIONS) - {"hash"}
    for figure in figures.values():
        assert len(figure["ours"]["repeats"]) == 2
        assert figure["ours"]["median"] > 0
    empty = figures["empty call (getter of num_blocks)"]
    assert empty["goal"] == {"kind": "times_the_limit", "value": 2}
    assert empty["ratio"] > 0
    for page in (16, 1, 512):
        for dtype in ("int32", "int64"):
            assert f"warm match of 32,768 {dtype} tokens, page {page}" in figures
    for workload in ("W1", "MT", "MC"):
        for page in (16, 1):
            flow = figures[f"{workload}, page {page}, int64: match + hold + insert + release"]
            assert set(flow["ours"]["parts"]) == {"match", "insert", "release"}
            assert flow["other"] is None
            assert flow["met"] is None
    assert {item["what"] for item in record["left_out"]} == {
        "vLLM BlockPool",
        "SGLang native tree",
        "vLLM, hash + match + allocate + cache + free",
    }
    assert "left out: SGLang native tree: no folder of rivals" in done.stderr
    assert "met?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not PEERS, reason="PEERS names no folder of the rivals")
def test_the_rivals_are_measured_beside_ours() -> None:
    done = run_bench(
        *("kv", "--quick", "--repeats", "1", "--json", "-", "--quiet"),
        environment={"PEERS": PEERS},
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert {"SGLang native tree", "vLLM"} <= set(record["setting"]["versions"])
    assert {figure["section"] for figure in record["figures"]} == set(kv.SECTIONS)
    for figure in record["figures"]:
        assert (figure["other"] is None) == (figure["unit"] == "M blocks/s"), figure["name"]
    assert [item["what"] for item in record["left_out"]] == ["workload MC"]


def test_the_table_shows_figure_rival_ratio_goal_and_verdict(
    measured: list[tuple[kv.Plan, bool]],
) -> None:
    outcome = invoke("kv")
    assert outcome.exit_code == 0
    (row,) = (line for line in outcome.stdout.splitlines() if "a [name]" in line)
    assert " ".join(row.split()) == "a [name] 2.0 ±0.0 us 9.0 ±0.0 us a rival 4.50x >= 3x yes"
    assert "left out: MC: no trace" in outcome.stdout
    assert "pinned to processor 1" in outcome.stdout


def test_the_options_reach_the_measuring(measured: list[tuple[kv.Plan, bool]]) -> None:
    invoke("kv")
    invoke("kv", "--quick", "--no-pin", "--only", "match, boundary")
    invoke("kv", "--repeats", "4", "--trace", MOONCAKE_HEAD)
    assert measured == [
        (kv.Plan(kv.SECTIONS, False, 7, None, None), True),
        (kv.Plan(("boundary", "match"), True, 3, None, None), False),
        (kv.Plan(kv.SECTIONS, False, 4, None, MOONCAKE_HEAD), True),
    ]


def test_the_environment_names_rivals_and_traces(
    measured: list[tuple[kv.Plan, bool]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = peers.peers_python(tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    trace = write_lines(tmp_path / cli.TRACE_NAME, [MOONCAKE_HEAD.read_text().splitlines()[0]])
    monkeypatch.setenv("PEERS", str(tmp_path))
    monkeypatch.setenv("TRACES", str(tmp_path))
    assert invoke("kv").exit_code == 0
    assert measured == [(kv.Plan(kv.SECTIONS, False, 7, tmp_path, trace), True)]


def test_json_goes_to_a_file_all_or_nothing(
    measured: list[tuple[kv.Plan, bool]], tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    outcome = invoke("kv", "--json", out, "--quiet")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    record = json.loads(out.read_text())
    assert record["figures"] == [FIGURE.to_record()]
    assert record["left_out"] == [{"what": "MC", "why": "no trace"}]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(("load", "warns"), [(0.5, False), (0.6, True)])
def test_a_busy_machine_is_warned_of(
    measured: list[tuple[kv.Plan, bool]], monkeypatch: pytest.MonkeyPatch, load: float, warns: bool
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    outcome = invoke("kv", "--quiet")
    assert outcome.exit_code == 0
    assert ("the machine is busy (load 0.60" in outcome.stderr) == warns


def test_a_missed_goal_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = Figure("pool", "slow", "us", [9.0], "a rival", [9.0], times_faster(3))
    monkeypatch.setattr(cli, "run", lambda plan, *, pin: iter([SETTING, missed]))
    outcome = invoke("kv")
    assert outcome.exit_code == 0
    assert "no" in outcome.stdout.split()


def test_a_failure_to_measure_is_a_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(plan: kv.Plan, *, pin: bool) -> Iterator[object]:
        yield SETTING
        raise MeasureError("the rival is ill")

    monkeypatch.setattr(cli, "run", fails)
    outcome = invoke("kv", "--json", tmp_path / "out.json")
    assert outcome.exit_code == 1
    assert "error: cannot measure: the rival is ill\n" in outcome.stderr
    assert outcome.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_rivals_that_cannot_be_started_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = peers.peers_python(tmp_path)
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setenv("PEERS", str(tmp_path))
    outcome = invoke("kv", "--quick", "--only", "boundary")
    assert outcome.exit_code == 1
    assert "cannot measure: cannot start" in outcome.stderr


def test_an_interrupt_ends_it_with_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(plan: kv.Plan, *, pin: bool) -> Iterator[object]:
        yield SETTING
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupted)
    outcome = invoke("kv", "--json", tmp_path / "out.json")
    assert outcome.exit_code == 130
    assert outcome.stderr.endswith("interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kv", "--only", "pool,all"], "found 'all'; allowed: boundary, pool, match, tree, hash"),
        (["kv", "--only", ""], "found ''"),
        (["kv", "--repeats", "0"], "--repeats"),
        (["kv", "--frobnicate"], "--frobnicate"),
        (["kv", "--trace", "no/such/file"], "cannot read no/such/file: No such file"),
        (["kv", "--json", "."], "cannot write .: it is a folder"),
        (["kv", "--json", "no/such/folder/out"], "there is no folder"),
        (["nothing"], "nothing"),
        (["ops", "--only", "out,pool"], "found 'pool'; allowed: import, call, out, forward"),
        (["ops", "--trace", "a"], "--trace"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert outcome.stdout == ""


def test_a_trace_of_lengths_is_no_workload(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", [AZURE_HEADER, azure_line(40)])
    outcome = invoke("kv", "--trace", path)
    assert outcome.exit_code == 2
    assert "has lengths only; allowed: a Mooncake trace" in outcome.stderr


def test_peers_that_are_not_there_are_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERS", "/no/such/folder")
    outcome = invoke("kv")
    assert outcome.exit_code == 2
    assert "PEERS: there is no /no/such/folder/venv/bin/python" in outcome.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["kv", "--help"], ["ops", "--help"], ["--version"]]
)
def test_help_and_version_need_nothing(arguments: list[str]) -> None:
    done = run_bench(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    if arguments == ["--version"]:
        assert done.stdout == f"servecore bench {servecore.__version__}\n"
    elif arguments == ["kv", "--help"]:
        for text in ("bench kv --quick", "--only", "--json", "--no-pin", "PEERS"):
            assert text in done.stdout
    elif arguments == ["ops", "--help"]:
        for text in ("bench ops --quick", "--only", "--json", "--no-pin", "copy_"):
            assert text in done.stdout
    else:
        assert "kv" in done.stdout
        assert "ops" in done.stdout
