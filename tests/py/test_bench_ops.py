# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmark of the tensor ops: all is measured, and both sides compute the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from servecore_tools.bench import ops
from servecore_tools.bench.timing import Figure
from servecore_tools.bench.worker import MeasureError, run_ops
from support import TOOLS


def run_bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the tool as a user starts it."""
    in_bazel = "TEST_SRCDIR" in os.environ
    command = [str(TOOLS / "bench")] if in_bazel else [sys.executable, str(TOOLS / "bench_main.py")]
    return subprocess.run(
        [*command, "ops", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_quick_run_measures_everything() -> None:
    done = run_bench("--quick", "--repeats", "2", "--json", "-")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["tool"], record["schema"], record["command"]) == ("servecore bench", 1, "ops")
    assert record["options"] == {
        "only": list(ops.SECTIONS),
        "quick": True,
        "repeats": 2,
        "pin": True,
    }
    assert record["setting"]["versions"]["torch"].startswith("2.")
    figures: dict[str, Any] = {figure["name"]: figure for figure in record["figures"]}
    assert len(figures) == len(record["figures"])
    assert {figure["section"] for figure in figures.values()} == set(ops.SECTIONS)
    for figure in figures.values():
        assert len(figure["ours"]["repeats"]) == 2
        assert figure["ours"]["median"] > 0
        assert (figure["other"] is None) == (figure["section"] == "import")
    for dtype in ops.DTYPES:
        assert figures[f"rmsnorm_out, L2, {dtype} (32, 4096)"]["against_limit"] is True
        assert figures[f"rmsnorm, L2, {dtype} (32, 4096)"]["against_limit"] is False
        assert f"gradients of rmsnorm, L2, {dtype} (32, 4096)" in figures
    assert figures["rmsnorm_out, bfloat16 (1, 4096)"]["goal"] == {
        "kind": "more_than_the_limit",
        "value": 1.0,
    }
    assert "limit: copy_ of x" in done.stderr
    assert "Traceback" not in done.stderr


def test_steps_are_counted_and_threads_are_as_they_were() -> None:
    before = torch.get_num_threads()
    affinity = os.sched_getaffinity(0)
    plan = ops.Plan(("import", "call", "out"), True, 1)
    events = list(run_ops(plan, pin=True))
    assert sum(isinstance(event, str) for event in events) == ops.count_steps(plan)
    assert sum(isinstance(event, Figure) for event in events) == 1 + 2 + len(ops.DTYPES)
    assert torch.get_num_threads() == before
    assert os.sched_getaffinity(0) == affinity


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("index", range(3))
def test_what_stands_beside_a_fused_op_computes_the_same(dtype: str, index: int) -> None:
    _, code, _, other, _ = ops._fused_cases()[index]
    results = []
    for statement in (code, other):
        names: dict[str, Any] = ops._fused_operands(dtype, 5)
        for name in ("x", "weight"):
            torch.manual_seed(1)
            names[name].normal_()
        exec(statement, names)
        results.append([names[name].double() for name in ("x", "residual", "out")])
    for ours, theirs in zip(*results, strict=True):
        # torch rounds between its ops.
        tolerance = 0.05 if dtype == "bfloat16" else 1e-5
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Iterator[object]:
        raise ImportError("servecore's tensor ops need torch 2.13 or newer, and found none")

    monkeypatch.setattr(ops, "versions", missing)
    with pytest.raises(MeasureError, match="need torch"):
        list(run_ops(ops.Plan(("call",), True, 1), pin=False))
