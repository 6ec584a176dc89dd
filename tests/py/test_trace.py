# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the trace readers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servecore_tools.trace import (
    DEFAULT_BLOCK_TOKENS,
    MAX_ERRORS_KEPT,
    MAX_HASH_ID,
    MAX_LINE_BYTES,
    MAX_REQUEST_TOKENS,
    MAX_TIMESTAMP_MS,
    TraceError,
    read_trace,
)
from support import AZURE_HEADER, MOONCAKE_HEAD, azure_line, mooncake_line, write_lines

GOOD = mooncake_line([1, 2])


def record(**changes: object) -> str:
    """A good Mooncake line with some of its fields changed."""
    return json.dumps({**json.loads(GOOD), **changes})


def without(field: str) -> str:
    """A good Mooncake line without one of its fields."""
    fields = json.loads(GOOD)
    del fields[field]
    return json.dumps(fields)


def test_mooncake_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t", [mooncake_line([900, 7, 900 + 2**40], 1025), GOOD])
    trace = read_trace(path)
    assert (trace.form, trace.block_tokens, trace.shares_prefixes) == ("mooncake", 512, True)
    assert (trace.name, trace.num_ids, trace.num_skipped) == (str(path), 5, 0)
    first, second = trace.requests
    assert (first.timestamp_ms, first.input_length, first.output_length) == (27.0, 1025, 5)
    assert first.block_ids.dtype == np.int32
    assert first.block_ids.tolist() == [0, 1, 2]
    assert second.block_ids.tolist() == [3, 4]


def test_equal_ids_become_equal_dense_ids(tmp_path: Path) -> None:
    lines = [mooncake_line([5, 6]), mooncake_line([5, 9]), mooncake_line([MAX_HASH_ID, 6])]
    trace = read_trace(write_lines(tmp_path / "t", lines))
    assert [r.block_ids.tolist() for r in trace.requests] == [[0, 1], [0, 2], [3, 1]]


def test_azure_is_read(tmp_path: Path) -> None:
    rows = [
        AZURE_HEADER,
        "2023-11-16 18:17:03.9799600,33,10",
        "2023-11-16 18:17:04.0319600,0,8",
        "2023-11-16 18:17:05.0319600,16,0",
    ]
    trace = read_trace(write_lines(tmp_path / "t", rows, end="\r\n"))
    assert (trace.form, trace.shares_prefixes) == ("azure", False)
    assert (trace.block_tokens, trace.num_ids) == (DEFAULT_BLOCK_TOKENS, 4)
    assert [r.input_length for r in trace.requests] == [33, 0, 16]
    assert [r.output_length for r in trace.requests] == [10, 8, 0]
    assert [r.timestamp_ms for r in trace.requests] == pytest.approx([0, 52, 1052])
    assert [r.block_ids.tolist() for r in trace.requests] == [[0, 1, 2], [], [3]]


def test_azure_takes_the_block_size_and_mooncake_keeps_its_own(tmp_path: Path) -> None:
    azure = write_lines(tmp_path / "a", [AZURE_HEADER, azure_line(33)])
    assert len(read_trace(azure, block_size=32).requests[0].block_ids) == 2
    mooncake = write_lines(tmp_path / "m", [GOOD])
    assert read_trace(mooncake, block_size=32).block_tokens == 512


def test_azure_columns_are_found_by_name(tmp_path: Path) -> None:
    rows = ["GeneratedTokens,Model,TIMESTAMP,ContextTokens", '7,"a,b",2024-05-10 00:00:00+00:00,40']
    trace = read_trace(write_lines(tmp_path / "t", rows))
    assert (trace.requests[0].input_length, trace.requests[0].output_length) == (40, 7)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t"])
def test_the_form_is_told_from_the_content(tmp_path: Path, name: str) -> None:
    assert read_trace(write_lines(tmp_path / name, [GOOD])).form == "mooncake"
    azure = write_lines(tmp_path / name, [AZURE_HEADER, azure_line(3)])
    assert read_trace(azure).form == "azure"


def test_blank_lines_and_a_byte_order_mark_are_no_requests(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t", ["\ufeff", "", GOOD, "   ", GOOD, ""])
    assert len(read_trace(path).requests) == 2
    path = write_lines(tmp_path / "t", ["\ufeff" + AZURE_HEADER, azure_line(3)])
    assert len(read_trace(path).requests) == 1


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(GOOD + "\n" + GOOD)
    assert len(read_trace(path).requests) == 2


BROKEN_MOONCAKE = [
    ("{", "line", "'{'"),
    ("[1, 2]", "line", "'[1, 2]'"),
    ("[" * 5000, "line", "..."),
    (without("timestamp"), "timestamp", "no such field"),
    (without("input_length"), "input_length", "no such field"),
    (without("output_length"), "output_length", "no such field"),
    (without("hash_ids"), "hash_ids", "no such field"),
    (record(timestamp="now"), "timestamp", "'now'"),
    (record(timestamp=-1), "timestamp", "-1"),
    (record(timestamp=True), "timestamp", "True"),
    (record(timestamp=float("nan")), "timestamp", "nan"),
    (record(timestamp=10**400), "timestamp", "1000000"),
    (record(timestamp=MAX_TIMESTAMP_MS), "timestamp", str(MAX_TIMESTAMP_MS)),
    (record(input_length=-5), "input_length", "-5"),
    (record(input_length=1024.0), "input_length", "1024.0"),
    (record(input_length=True, hash_ids=[1]), "input_length", "True"),
    (record(input_length=MAX_REQUEST_TOKENS + 1), "input_length", str(MAX_REQUEST_TOKENS + 1)),
    (record(input_length=None), "input_length", "None"),
    (record(output_length="9"), "output_length", "'9'"),
    (record(hash_ids=7), "hash_ids", "7"),
    (record(hash_ids={"1": 2}), "hash_ids", "{'1': 2}"),
    (record(hash_ids=[1, -2]), "hash_ids[1]", "-2"),
    (record(hash_ids=[1.5, 2]), "hash_ids[0]", "1.5"),
    (record(hash_ids=[False, 2]), "hash_ids[0]", "False"),
    (record(hash_ids=[1, MAX_HASH_ID + 1]), "hash_ids[1]", str(MAX_HASH_ID + 1)),
    (record(hash_ids=[1]), "hash_ids", "1 ids"),
    (record(hash_ids=[1, 2, 3]), "hash_ids", "3 ids"),
    (record(hash_ids=[]), "hash_ids", "0 ids"),
]

BROKEN_AZURE = [
    ("2023-11-16 18:17:03,5", "line", "2 columns"),
    ("2023-11-16 18:17:03,5,6,7", "line", "4 columns"),
    ('2023-11-16 18:17:03,"5"x,6', "line", "'2023"),
    ("yesterday,5,6", "TIMESTAMP", "'yesterday'"),
    ("2023-11-16 18:17:03+00:00,5,6", "TIMESTAMP", "+00:00"),
    (",5,6", "TIMESTAMP", "''"),
    ("2023-11-16 18:17:03,,6", "ContextTokens", "''"),
    ("2023-11-16 18:17:03,-5,6", "ContextTokens", "'-5'"),
    ("2023-11-16 18:17:03,5.0,6", "ContextTokens", "'5.0'"),
    ("2023-11-16 18:17:03,\u0665,6", "ContextTokens", "'\u0665'"),
    (f"2023-11-16 18:17:03,{'9' * 5000},6", "ContextTokens", "..."),
    (f"2023-11-16 18:17:03,5,{MAX_REQUEST_TOKENS + 1}", "GeneratedTokens", "16777217"),
]


def check_broken(
    tmp_path: Path, good: list[str], broken: str, field: str, found: str, num_requests: int
) -> None:
    path = write_lines(tmp_path / "t", [*good, "", broken, good[-1]])
    line = len(good) + 2
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), line, field)
    assert found in error.found
    assert len(str(error)) < 400 + len(str(path))
    assert str(error).startswith(f"{path}:{line}: {field}: found {error.found}; allowed: ")

    trace = read_trace(path, skip_bad=True)
    assert len(trace.requests) == num_requests
    assert trace.num_skipped == 1
    assert [str(skipped) for skipped in trace.skipped] == [str(error)]


@pytest.mark.parametrize(("broken", "field", "found"), BROKEN_MOONCAKE)
def test_a_broken_mooncake_line(tmp_path: Path, broken: str, field: str, found: str) -> None:
    check_broken(tmp_path, [GOOD, GOOD], broken, field, found, num_requests=3)


@pytest.mark.parametrize(("broken", "field", "found"), BROKEN_AZURE)
def test_a_broken_azure_line(tmp_path: Path, broken: str, field: str, found: str) -> None:
    check_broken(tmp_path, [AZURE_HEADER, azure_line(5)], broken, field, found, num_requests=2)


def test_many_broken_lines_are_all_counted_and_the_first_kept(tmp_path: Path) -> None:
    lines = [GOOD] + ["{"] * (MAX_ERRORS_KEPT + 5)
    trace = read_trace(write_lines(tmp_path / "t", lines), skip_bad=True)
    assert trace.num_skipped == MAX_ERRORS_KEPT + 5
    assert [error.line for error in trace.skipped] == list(range(2, MAX_ERRORS_KEPT + 2))


def test_a_skipped_line_leaves_no_trace_in_the_ids(tmp_path: Path) -> None:
    lines = [mooncake_line([8]), record(hash_ids=[77, 78, 79]), mooncake_line([9])]
    trace = read_trace(write_lines(tmp_path / "t", lines), skip_bad=True)
    assert trace.num_ids == 2
    rows = [AZURE_HEADER, azure_line(5), "2023-11-16 18:17:03,5,x", azure_line(5)]
    assert read_trace(write_lines(tmp_path / "t", rows), skip_bad=True).num_ids == 2


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(GOOD.encode() + b"\n" + b"ab\xff\n" + GOOD.encode() + b"\n")
    with pytest.raises(TraceError, match=r":2: line: found byte 0xff at column 3; .*UTF-8"):
        read_trace(path)
    trace = read_trace(path, skip_bad=True)
    assert (len(trace.requests), trace.num_skipped) == (2, 1)


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with path.open("wb") as file:
        file.write(GOOD.encode() + b"\n")
        file.truncate(MAX_LINE_BYTES * 3)
    with pytest.raises(TraceError, match=":2: line: found no line end"):
        read_trace(path, skip_bad=True)


@pytest.mark.parametrize("lines", [[], [""], [AZURE_HEADER]])
def test_a_file_without_requests(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(TraceError, match=r"t: requests: found none; allowed: at least one"):
        read_trace(write_lines(tmp_path / "t", lines))


def test_a_file_of_neither_form(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t", ["a,b,c", "1,2,3"])
    with pytest.raises(TraceError, match=r":1: line: found 'a,b,c'; .*Mooncake.*Azure"):
        read_trace(path)
    with pytest.raises(TraceError, match="requests: found none, but 2 broken lines"):
        read_trace(path, skip_bad=True)


def test_a_broken_first_line_hides_no_form(tmp_path: Path) -> None:
    mooncake = write_lines(tmp_path / "m", ["garbage", GOOD])
    trace = read_trace(mooncake, skip_bad=True)
    assert (trace.form, len(trace.requests), trace.skipped[0].line) == ("mooncake", 1, 1)
    azure = write_lines(tmp_path / "a", ["garbage", AZURE_HEADER, azure_line(5)])
    assert read_trace(azure, skip_bad=True).form == "azure"


def test_limit_stops_before_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes((GOOD + "\n" + GOOD + "\n").encode() + b"\xff\n{\n")
    assert len(read_trace(path, limit=2).requests) == 2
    assert len(read_trace(path, limit=1).requests) == 1
    with pytest.raises(TraceError):
        read_trace(path, limit=3)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_trace(tmp_path)


def test_the_published_excerpt() -> None:
    trace = read_trace(MOONCAKE_HEAD)
    assert len(trace.requests) == 200
    assert sum(request.input_length for request in trace.requests) == 2_782_179
    assert trace.num_ids == 5_215


@given(st.lists(st.lists(st.integers(0, MAX_HASH_ID), max_size=6), min_size=1, max_size=8))
def test_dense_ids_keep_what_is_equal(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("dense") / "t"
    trace = read_trace(write_lines(path, map(mooncake_line, prompts)))
    dense = [block for request in trace.requests for block in request.block_ids.tolist()]
    published = [value for prompt in prompts for value in prompt]
    pairs = set(zip(published, dense, strict=True))
    assert len(pairs) == len(set(published)) == len(set(dense)) == trace.num_ids
    assert set(dense) == set(range(trace.num_ids))
