# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the built-in workload."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servecore_tools.replay import count_distinct_blocks
from servecore_tools.trace import Trace
from servecore_tools.workload import DEFAULT_REQUESTS, make_workload


def contents(trace: Trace) -> list[tuple[float, int, int, list[int]]]:
    return [
        (r.timestamp_ms, r.input_length, r.output_length, r.block_ids.tolist())
        for r in trace.requests
    ]


def test_it_is_the_same_on_every_machine() -> None:
    digest = hashlib.sha256()
    for request in make_workload().requests:
        digest.update(f"{request.input_length} {request.output_length}".encode())
        digest.update(request.block_ids.astype("<i4").tobytes())
    assert digest.hexdigest() == "18b51af970feae77859e62cb48766d127e6137a013a43aea4d0737b60901707d"


def test_the_seed_decides() -> None:
    assert contents(make_workload(50, seed=1)) == contents(make_workload(50, seed=1))
    assert contents(make_workload(50, seed=1)) != contents(make_workload(50, seed=2))


def test_a_shorter_workload_is_the_beginning_of_a_longer_one() -> None:
    assert contents(make_workload(20)) == contents(make_workload(60))[:20]


def test_prefixes_are_shared() -> None:
    trace = make_workload()
    assert len(trace.requests) == DEFAULT_REQUESTS
    published = sum(len(request.block_ids) for request in trace.requests)
    distinct = count_distinct_blocks(trace, expand=False, block_size=trace.block_tokens)
    assert 0.5 < 1 - distinct / published < 0.9


@settings(deadline=None)
@given(st.integers(1, 80), st.integers(0, 2**32))
def test_every_request_keeps_the_form(num_requests: int, seed: int) -> None:
    trace = make_workload(num_requests, seed)
    assert (trace.form, trace.shares_prefixes) == ("built-in", True)
    assert len(trace.requests) == num_requests
    last_ms = 0.0
    for request in trace.requests:
        assert request.input_length > 0
        assert len(request.block_ids) == -(-request.input_length // trace.block_tokens)
        assert len(set(request.block_ids.tolist())) == len(request.block_ids)
        assert 0 <= request.block_ids.min() <= request.block_ids.max() < trace.num_ids
        assert request.timestamp_ms >= last_ms
        last_ms = request.timestamp_ms


@pytest.mark.parametrize("num_requests", [0, -1])
def test_no_requests_are_no_workload(num_requests: int) -> None:
    with pytest.raises(ValueError, match=f"num_requests is {num_requests}; allowed: 1 or more"):
        make_workload(num_requests)
