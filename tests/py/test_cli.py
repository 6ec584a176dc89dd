# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the replay tool as its users meet it: options, messages, outputs, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

import servecore
from servecore_tools import cli
from servecore_tools.replay import OPERATIONS, Plan, Result
from support import (
    AZURE_HEADER,
    MOONCAKE_HEAD,
    azure_line,
    mooncake_line,
    replay_command,
    run_replay,
    write_lines,
)


def invoke(*arguments: str | Path) -> Outcome:
    """Runs the tool within this process."""
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def record_of(*arguments: str | Path) -> dict[str, object]:
    """The JSON of a run that must succeed."""
    outcome = invoke(*arguments, "--json", "-", "--quiet")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr == ""
    record: dict[str, object] = json.loads(outcome.stdout)
    return record


@pytest.fixture(autouse=True)
def outside_bazel_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUILD_WORKING_DIRECTORY", raising=False)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    lines = [mooncake_line([1, 2]), mooncake_line([1, 3], 1000), mooncake_line([1, 2])]
    return write_lines(tmp_path / "trace.jsonl", lines)


def test_without_arguments_it_replays_the_workload_and_says_what_next() -> None:
    done = run_replay()
    assert done.returncode == 0
    assert done.stdout.startswith("built-in workload, seed 7\n")
    assert "requests" in done.stdout
    assert all(name in done.stdout for name in OPERATIONS)
    assert "--trace FILE" in done.stdout
    assert done.stderr == ""


def test_json_to_the_standard_output_is_alone_there(trace: Path) -> None:
    done = run_replay("--trace", trace, "--blocks", "inf", "--json", "-")
    assert done.returncode == 0
    record = json.loads(done.stdout)
    assert record["tool"] == "servecore replay"
    assert record["version"] == servecore.__version__
    assert record["trace"] == str(trace)
    assert record["form"] == "mooncake"
    assert record["options"] == {
        "blocks": "inf",
        "expand": False,
        "block_size": 512,
        "policy": "lru",
        "limit": None,
        "skip_bad": False,
    }
    assert record["requests"] == 3
    assert record["hit_rate_tokens"] == (512 + 1024) / (1024 + 1000 + 1024)
    assert record["hit_rate_blocks"] == 3 / 6
    assert (record["pool_blocks"], record["peak_blocks"], record["evicted_blocks"]) == (3, 3, 0)
    assert 0 < record["core_seconds"] < record["seconds"]
    assert set(record["operations"]) == set(OPERATIONS)
    assert "hit rate by tokens" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_to_a_file_leaves_the_tables_where_they_were(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("old")
    outcome = invoke("--trace", trace, "--json", out)
    assert outcome.exit_code == 0
    assert json.loads(out.read_text())["requests"] == 3
    assert "hit rate by tokens" in outcome.stdout
    assert sorted(tmp_path.iterdir()) == [out, trace]


def test_quiet_prints_nothing(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    outcome = invoke("--trace", trace, "--json", out, "-q")
    assert (outcome.exit_code, outcome.output) == (0, "")
    assert out.exists()


def test_the_options_reach_the_replay(trace: Path) -> None:
    assert record_of("--trace", trace)["pool_blocks"] == 10_000
    assert record_of("--trace", trace, "--blocks", "2")["evicted_blocks"] == 2
    assert record_of("--trace", trace, "--limit", "2")["requests"] == 2
    expanded = record_of("--trace", trace, "--expand", "--block-size", "16", "--blocks", "inf")
    assert expanded["blocks"] == 64 + 62 + 64
    assert expanded["pool_blocks"] == 64 + 30
    assert record_of("--trace", trace, "--expand", "--block-size", "2000")["blocks"] == 0
    rejected = record_of("--trace", trace, "--blocks", "1")
    assert (rejected["rejected_requests"], rejected["requests"], rejected["tokens"]) == (3, 3, 0)
    assert record_of("--limit", "7")["requests"] == 7


def test_the_published_excerpt() -> None:
    record = record_of("--trace", MOONCAKE_HEAD, "--blocks", "inf")
    assert record["hit_rate_tokens"] == 164_864 / 2_782_179
    assert record["hit_rate_blocks"] == 322 / 5_537


def test_a_trace_of_lengths_says_that_nothing_is_shared(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.csv", [AZURE_HEADER, azure_line(40), azure_line(40)])
    assert record_of("--trace", path, "--blocks", "inf")["pool_blocks"] == 6
    record = record_of("--trace", path, "--block-size", "20", "--blocks", "3")
    assert (record["hit_rate_tokens"], record["blocks"], record["evicted_blocks"]) == (0.0, 4, 1)
    outcome = invoke("--trace", path)
    assert "lengths only" in outcome.stdout
    assert "no prefix can be known to be shared" in " ".join(outcome.stdout.split())


def test_a_broken_line_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t", [mooncake_line([1]), mooncake_line([1, 2], 5)])
    done = run_replay("--trace", path, "--json", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {path}:2: hash_ids: found 2 ids; allowed: 1 ids" in done.stderr
    assert "--skip-bad" in done.stderr
    assert "Traceback" not in done.stderr


def test_skip_bad_leaves_broken_lines_out_and_says_so(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t", [mooncake_line([1]), *["{"] * 12, mooncake_line([1])])
    outcome = invoke("--trace", path, "--skip-bad")
    assert outcome.exit_code == 0
    assert f"skipped: {path}:2: line: found '{{'" in outcome.stderr
    assert "skipped: 2 more broken lines" in outcome.stderr
    assert "broken lines skipped" in outcome.stdout
    record = record_of("--trace", path, "--skip-bad")
    assert (record["skipped_lines"], record["requests"]) == (12, 2)


def test_no_hint_of_skip_bad_where_it_would_not_help(tmp_path: Path) -> None:
    outcome = invoke("--trace", write_lines(tmp_path / "t", []))
    assert outcome.exit_code == 2
    assert "t: requests: found none" in outcome.stderr
    assert "--skip-bad" not in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--blocks", "0"], "found '0'; allowed: inf, or an integer from 1 to 2147483647"),
        (["--blocks", "-1"], "found '-1'"),
        (["--blocks", "2147483648"], "found '2147483648'"),
        (["--blocks", "1" * 5000], "found '1111"),
        (["--blocks", "many"], "found 'many'"),
        (["--block-size", "0"], "--block-size"),
        (["--block-size", "32"], "block size is 32; allowed: 16"),
        (["--limit", "0"], "--limit"),
        (["--policy", "mru"], "'lru'"),
        (["--frobnicate"], "--frobnicate"),
        (["stray"], "stray"),
        (["--trace"], "--trace"),
        (["--trace", "no/such/file"], "cannot read no/such/file: No such file"),
        (["--trace", "."], "cannot read .: Is a directory"),
        (["--json", "."], "cannot write .: it is a folder"),
        (["--json", "no/such/folder/out"], "there is no folder"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert outcome.stdout == ""


def test_a_block_size_that_needs_expand_says_so(trace: Path) -> None:
    outcome = invoke("--trace", trace, "--block-size", "16")
    assert outcome.exit_code == 2
    assert "allowed: 512" in outcome.stderr
    assert "--expand" in outcome.stderr


def test_a_target_that_cannot_be_written_is_found_before_the_work(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "replay", None)
    assert invoke("--trace", trace, "--json", "no/such/folder/out").exit_code == 2


def test_a_full_disk_is_an_error_of_its_own(trace: Path) -> None:
    done = run_replay("--trace", trace, "--json", "/dev/full", "-q")
    assert done.returncode == 1
    assert done.stderr == "error: cannot write to /dev/full: No space left on device\n"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_need_nothing(option: str) -> None:
    done = run_replay(option, "--trace", "no/such/file")
    assert (done.returncode, done.stderr) == (0, "")
    if option == "--version":
        assert done.stdout == f"servecore replay {servecore.__version__}\n"
    else:
        assert (
            "Examples:\n    replay\n    replay --trace conversation.jsonl --blocks" in done.stdout
        )
        for name in ("--blocks", "--expand", "--block-size", "--policy", "--json", "--skip-bad"):
            assert name in done.stdout


def test_paths_are_taken_from_where_the_user_stands(trace: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run_replay(
        *("--trace", trace.name, "--json", "out.json", "-q"),
        environment={"BUILD_WORKING_DIRECTORY": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "out.json").read_text())["requests"] == 3
    done = run_replay(
        *("--trace", trace, "--json", tmp_path / "absolute.json", "-q"),
        environment={"BUILD_WORKING_DIRECTORY": str(elsewhere)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "absolute.json").exists()


def test_without_bazel_paths_are_taken_from_the_current_folder(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    assert record_of("--trace", trace.name)["trace"] == trace.name


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / os.fsdecode(b"tr\xe9.jsonl"), [mooncake_line([1])])
    done = run_replay("--trace", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tr\\udce9.jsonl" in done.stdout.replace("\n", "")


def closed_pipe(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Runs the tool with an output whose reader is already gone."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as output:
        return subprocess.run(
            [*replay_command(), *arguments], stdout=output, stderr=subprocess.PIPE, check=False
        )


@pytest.mark.parametrize(
    "arguments", [["--limit", "9"], ["--limit", "9", "--json", "-"], ["--help"]]
)
def test_a_closed_pipe_ends_it_silently(arguments: list[str]) -> None:
    done = closed_pipe(arguments)
    assert done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE)
    assert done.stderr == b""


def test_a_closed_pipe_takes_no_file_away(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = closed_pipe(["--limit", "9", "--json", str(out)])
    assert done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE)
    assert json.loads(out.read_text())["requests"] == 9


def test_an_interrupt_ends_it_with_a_line(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*replay_command(), "--trace", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Opening waits until the tool has opened the other end, and so is past its start.
    with process, fifo.open("w"):
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    assert (process.returncode, stdout, stderr) == (130, "", "interrupted\n")


def test_an_interrupted_replay_says_how_far_it_came(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(
        plan: Plan, pool: object, cache: object, on_request: Callable[[], None]
    ) -> Result:
        on_request()
        on_request()
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "replay", interrupted)
    out = tmp_path / "out.json"
    outcome = invoke("--trace", trace, "--json", out)
    assert outcome.exit_code == 130
    assert outcome.stdout == ""
    assert outcome.stderr == "stopped after 2 of 3 requests; nothing was written\ninterrupted\n"
    assert not out.exists()


def test_a_pool_beyond_the_memory_is_bad_input(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(num_blocks: int) -> None:
        raise MemoryError

    monkeypatch.setattr(servecore, "BlockPool", no_memory)
    outcome = invoke("--trace", trace, "--blocks", "2147483647")
    assert outcome.exit_code == 2
    assert "no memory for a pool of 2147483647 blocks; take a smaller --blocks" in outcome.stderr


def test_the_bar_is_drawn_on_a_terminal_only(trace: Path) -> None:
    try:
        leader, follower = os.openpty()
    except OSError as error:
        # A sandbox may mount no devpts; then nothing here can be a terminal.
        pytest.skip(f"this machine gives no pseudo-terminal: {error}")
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        for arguments in ([], ["--quiet"]):
            done = subprocess.run(
                [*replay_command(), "--trace", str(trace), *arguments],
                stdout=subprocess.PIPE,
                stderr=follower,
                env={**os.environ, "TERM": "xterm"},
                check=False,
            )
            assert done.returncode == 0
            os.write(follower, b"end\n")
            drawn = b""
            while b"end" not in drawn:
                drawn += terminal.read(4096)
            assert (b"replaying" in drawn) == (not arguments)
            assert b"replaying" not in done.stdout
    os.close(follower)
