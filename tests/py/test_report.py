# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the report: tables, JSON, and how a file is written."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from servecore_tools.output import to_json, write_atomically
from servecore_tools.replay import OPERATIONS, OperationTimes, Plan, Result
from servecore_tools.report import print_report, to_record
from servecore_tools.trace import Request, Trace, TraceError

TRACE = Trace("a[b].jsonl", "mooncake", 512, 1, True, [Request(0, 5, 1, np.zeros(1, np.int32))])
PLAN = Plan(TRACE, False, 512, 1, 40)
RESULT = Result(
    requests=9,
    rejected_requests=0,
    rejected_tokens=0,
    tokens=1000,
    hit_tokens=250,
    blocks=60,
    hit_blocks=45,
    pool_blocks=40,
    evicted_blocks=6,
    peak_blocks=10,
    seconds=1.5,
    operations={name: OperationTimes(3, 2.0, 1.0, 4.0, 0.25) for name in OPERATIONS},
)


def printed(plan: Plan, result: Result) -> str:
    stream = io.StringIO()
    print_report(plan, result, stream)
    return stream.getvalue()


def row(text: str, title: str) -> str:
    """The line of the table that has this title, its spaces squeezed."""
    (line,) = (line for line in text.splitlines() if line.strip().startswith(title))
    return " ".join(line.split())


def test_the_tables_say_what_was_found() -> None:
    text = printed(PLAN, RESULT)
    assert text.startswith(
        "a[b].jsonl\nmooncake form, ids as published; a pool of 40 blocks of 512"
    )
    assert row(text, "requests") == "requests 9"
    assert row(text, "prompt tokens") == "prompt tokens 1,000"
    assert row(text, "hit rate by tokens") == "hit rate by tokens 25.00%"
    assert row(text, "hit rate by blocks") == "hit rate by blocks 75.00% 45 of 60"
    assert row(text, "blocks evicted") == "blocks evicted 6"
    assert row(text, "peak blocks") == "peak blocks in use 10 25.0% of the pool"
    assert row(text, "seconds") == "seconds 1.50 1.00 in the core"
    for name in OPERATIONS:
        assert row(text, name) == f"{name} 3 2.00 1.00 4.00 0.250"
    assert "rejected" not in text
    assert "skipped" not in text


def test_the_tables_tell_of_what_was_left_out() -> None:
    error = TraceError("t", 3, "line", "x", "y")
    trace = replace(TRACE, shares_prefixes=False, num_skipped=12, skipped=[error])
    text = printed(replace(PLAN, trace=trace, expand=True), replace(RESULT, rejected_requests=4))
    assert "lengths only, expanded to tokens" in text
    assert row(text, "broken lines skipped") == "broken lines skipped 12"
    assert row(text, "requests rejected").startswith("requests rejected 4 each needs more blocks")
    assert "no prefix can be known to be shared" in " ".join(text.split())


def test_the_json_holds_everything() -> None:
    record = json.loads(to_json(to_record(PLAN, RESULT, version="1.2", options={"blocks": 40})))
    assert record["operations"]["match"] == {
        "count": 3,
        "mean_us": 2.0,
        "p50_us": 1.0,
        "p99_us": 4.0,
        "total_seconds": 0.25,
    }
    del record["operations"]
    assert record == {
        "tool": "servecore replay",
        "version": "1.2",
        "trace": "a[b].jsonl",
        "form": "mooncake",
        "options": {"blocks": 40},
        "skipped_lines": 0,
        "requests": 9,
        "rejected_requests": 0,
        "rejected_tokens": 0,
        "tokens": 1000,
        "hit_tokens": 250,
        "hit_rate_tokens": 0.25,
        "blocks": 60,
        "hit_blocks": 45,
        "hit_rate_blocks": 0.75,
        "pool_blocks": 40,
        "evicted_blocks": 6,
        "peak_blocks": 10,
        "seconds": 1.5,
        "core_seconds": 1.0,
    }


def test_a_file_is_written_with_the_usual_rights(tmp_path: Path) -> None:
    path = tmp_path / "out"
    old = os.umask(0o027)
    try:
        write_atomically(path, "new")
    finally:
        os.umask(old)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_is_replaced_keeps_its_rights_and_its_link(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_and_stays_a_device() -> None:
    write_atomically(Path("/dev/null"), "new")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
