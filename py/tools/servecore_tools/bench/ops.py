# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the tensor ops, on one thread, beside torch's own and beside copies.

Only measuring imports torch.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from servecore_tools.bench.timing import (
    DEFAULT_REPEATS,
    QUICK_REPEATS,
    Figure,
    Goal,
    LeftOut,
    at_most,
    at_most_more,
    at_most_times,
    collector_off,
    interleaved,
    statement,
    times_faster,
)

SECTIONS = ("import", "call", "out", "forward", "backward", "fused")
DTYPES = ("bfloat16", "float32", "float16", "float64")
DIM = 4096
HEAD_DIM = 128
EPS = 1e-6

_COPY = "copy_ of x"
_TORCH = "F.rms_norm"

# What DESIGN's numbers ask of rmsnorm_out beside copy_, by dtype and size.
_OUT_GOALS = {
    ("bfloat16", "L2"): 2.5,
    ("bfloat16", "DRAM"): 1.3,
    ("float32", "L2"): 1.6,
    ("float32", "DRAM"): 1.5,
}
_FORWARD_GOALS = {"L2": 4.0, "DRAM": 10.0}
_BACKWARD_GOAL = 5.0
_IMPORT_MS = 60.0
_CALL_US = 1.0

_IMPORT = """
import time
import torch
start = time.perf_counter()
from servecore import ops
ops.rmsnorm(torch.ones(1, 8), torch.ones(8))
print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        sections: Which of SECTIONS.
        quick: Small tensors and short runs, whose figures mean little.
        repeats: Runs of each side.
    """

    sections: tuple[str, ...]
    quick: bool
    repeats: int

    @property
    def seconds(self) -> float:
        """About how long one run of a small statement takes."""
        return 0.002 if self.quick else 0.1

    @property
    def rows(self) -> dict[str, int]:
        """Rows of DIM elements that fit into a core's own cache, and that do not fit into any."""
        return {"L2": 32} if self.quick else {"L2": 32, "DRAM": 8192}


def default_repeats(*, quick: bool) -> int:
    """The number of repeats where none is given."""
    return QUICK_REPEATS if quick else DEFAULT_REPEATS


def count_steps(plan: Plan) -> int:
    """How many times `measure` will say that a step begins."""
    num_shapes = len(plan.rows) * len(DTYPES)
    weight = dict.fromkeys(("out", "forward", "backward"), num_shapes)
    return sum(weight.get(section, 1) for section in plan.sections)


def versions() -> dict[str, str]:
    """Versions of what is measured beside ours.

    Raises:
        ImportError: torch is missing or too old.
    """
    from servecore import _ops_loader

    return {"torch": _ops_loader.check_torch()}


def measure(plan: Plan) -> Iterator[str | Figure | LeftOut]:
    """Measures what the plan says, with one of torch's threads.

    Yields:
        The name of each step as it begins, and each figure as it is taken.

    Raises:
        ImportError: torch or the op library cannot be loaded.
    """
    import torch

    steps: dict[str, Callable[[Plan], Iterator[str | Figure | LeftOut]]] = {
        "import": _import,
        "call": _call,
        "out": _out,
        "forward": _forward,
        "backward": _backward,
        "fused": _fused,
    }
    _keep_memory()
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for section in SECTIONS:
            if section in plan.sections:
                yield from steps[section](plan)
    finally:
        torch.set_num_threads(num_threads)


def _keep_memory() -> None:
    """Makes this process keep what it frees, as the allocators do that engines run with.

    Otherwise new tensors come from the system, and the page faults of both sides are most of what
    is measured: of some sizes, and in some orders of calls.
    """
    trim_threshold, mmap_max = -1, -4
    with suppress(AttributeError, OSError):
        options = ctypes.CDLL(None).mallopt
        options(mmap_max, 0)
        options(trim_threshold, 2**31 - 1)


def _timed(plan: Plan, names: dict[str, object], codes: Sequence[str]) -> list[list[float]]:
    """Microseconds of each run of each statement."""
    sides = [statement(code, names, plan.seconds) for code in codes]
    with collector_off():
        runs = interleaved(plan.repeats, sides)
    return [[nanoseconds / 1e3 for nanoseconds in run] for run in runs]


def _tensor(dtype: str, *shape: int) -> Any:
    import torch

    # Normally distributed values of every dtype, the same every time.
    generator = torch.Generator().manual_seed(7)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def _operands(dtype: str, rows: int) -> dict[str, object]:
    import torch.nn.functional as functional

    from servecore import ops

    x = _tensor(dtype, rows, DIM)
    return {
        "ops": ops,
        "functional": functional,
        "x": x,
        "weight": _tensor(dtype, DIM),
        "out": x.clone(),
        "eps": EPS,
        "shape": (DIM,),
    }


def _import(plan: Plan) -> Iterator[str | Figure]:
    yield "import servecore.ops"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    taken = []
    for _ in range(plan.repeats):
        child = subprocess.run(
            [sys.executable, "-c", _IMPORT],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if child.returncode:
            raise ImportError(f"servecore.ops: {child.stderr.strip().splitlines()[-1]}")
        taken.append(float(child.stdout) * 1e3)
    name = "import servecore.ops after torch, to the end of the first op"
    yield Figure("import", name, "ms", taken, goal=at_most(_IMPORT_MS))


def _call(plan: Plan) -> Iterator[str | Figure]:
    import torch

    yield "calls of one row"
    names = _operands("bfloat16", 1)
    # An op that looks at its tensors and does no work.
    names["call"] = torch.ops.aten.is_same_size.default
    against = "a dispatcher call (is_same_size)"
    for name, code in (
        ("rmsnorm_out", "ops.rmsnorm_out(x, weight, eps, out=out)"),
        ("rmsnorm", "ops.rmsnorm(x, weight, eps)"),
    ):
        ours, other = _timed(plan, names, [code, "call(x, out)"])
        goal = at_most_more(_CALL_US) if name == "rmsnorm_out" else None
        name = f"{name}, bfloat16 (1, {DIM})"
        yield Figure("call", name, "us", ours, against, other, goal, against_limit=True)


def _out(plan: Plan) -> Iterator[str | Figure]:
    for size, rows in plan.rows.items():
        for dtype in DTYPES:
            name = f"rmsnorm_out, {size}, {dtype} ({rows}, {DIM})"
            yield name
            ours, copy = _timed(
                plan,
                _operands(dtype, rows),
                ["ops.rmsnorm_out(x, weight, eps, out=out)", "out.copy_(x)"],
            )
            times = _OUT_GOALS.get((dtype, size))
            goal = None if times is None else at_most_times(times)
            yield Figure("out", name, "us", ours, _COPY, copy, goal, against_limit=True)


def _forward(plan: Plan) -> Iterator[str | Figure]:
    for size, rows in plan.rows.items():
        for dtype in DTYPES:
            name = f"rmsnorm, {size}, {dtype} ({rows}, {DIM})"
            yield name
            ours, theirs, clone = _timed(
                plan,
                _operands(dtype, rows),
                [
                    "ops.rmsnorm(x, weight, eps)",
                    "functional.rms_norm(x, shape, weight, eps)",
                    "x.clone()",
                ],
            )
            goal = times_faster(_FORWARD_GOALS[size])
            yield Figure("forward", name, "us", ours, _TORCH, theirs, goal)
            # What no function that gives a new tensor can beat.
            name = f"{name}, beside clone"
            yield Figure("forward", name, "us", ours, "x.clone()", clone, against_limit=True)


def _backward(plan: Plan) -> Iterator[str | Figure]:
    import torch

    for size, rows in plan.rows.items():
        for dtype in DTYPES:
            name = f"gradients of rmsnorm, {size}, {dtype} ({rows}, {DIM})"
            yield name
            names = _operands(dtype, rows)
            x: Any = names["x"]
            weight: Any = names["weight"]
            inputs = (x.requires_grad_(), weight.requires_grad_())
            ops: Any = names["ops"]
            functional: Any = names["functional"]
            names.update(
                grad=torch.autograd.grad,
                inputs=inputs,
                seed=_tensor(dtype, rows, DIM),
                ours=ops.rmsnorm(*inputs, EPS),
                theirs=functional.rms_norm(x, (DIM,), weight, EPS),
            )
            ours, theirs = _timed(
                plan,
                names,
                [
                    "grad(ours, inputs, seed, retain_graph=True)",
                    "grad(theirs, inputs, seed, retain_graph=True)",
                ],
            )
            goal = times_faster(_BACKWARD_GOAL)
            yield Figure("backward", name, "us", ours, _TORCH, theirs, goal)


def _fused(plan: Plan) -> Iterator[str | Figure]:
    yield "fused ops"
    for size, rows in plan.rows.items():
        for dtype in ("bfloat16", "float32"):
            for name, code, against, other, goal in _fused_cases():
                ours, theirs = _timed(plan, _fused_operands(dtype, rows), [code, other])
                name = f"{name}, {size}, {dtype}, {rows} rows"
                yield Figure("fused", name, "us", ours, against, theirs, goal)


def _fused_cases() -> list[tuple[str, str, str, str, Goal | None]]:
    """Names, our statement, what it stands beside, that statement, and a goal."""
    return [
        (
            f"fused_add_rmsnorm_, {DIM} columns",
            "ops.fused_add_rmsnorm_(x, residual, weight, eps)",
            "torch, three ops",
            "residual.add_(x); x.copy_(functional.rms_norm(residual, shape, weight, eps))",
            None,
        ),
        (
            f"silu_and_mul, 2 x {DIM} columns",
            "ops.silu_and_mul_out(both, out=out)",
            "torch, two ops",
            "torch.mul(functional.silu(gate), up, out=out)",
            None,
        ),
        (
            f"rotary_embedding_, {DIM // HEAD_DIM} heads of {HEAD_DIM}",
            "ops.rotary_embedding_(x, None, positions, table, head_dim)",
            "torch, in its own ops",
            "rotate(x, positions, table)",
            None,
        ),
    ]


def _fused_operands(dtype: str, rows: int) -> dict[str, object]:
    import torch

    names = _operands(dtype, rows)
    both = _tensor(dtype, rows, 2 * DIM)
    # Zeros, so that what is added or turned again and again stays what it is.
    names.update(
        torch=torch,
        x=torch.zeros(rows, DIM, dtype=getattr(torch, dtype)),
        weight=torch.zeros(DIM, dtype=getattr(torch, dtype)),
        residual=_tensor(dtype, rows, DIM),
        both=both,
        gate=both[:, :DIM],
        up=both[:, DIM:],
        positions=torch.arange(rows),
        table=_tensor("float32", rows, HEAD_DIM),
        head_dim=HEAD_DIM,
        rotate=_rotate,
    )
    return names


def _rotate(x: Any, positions: Any, table: Any) -> None:
    """`rotary_embedding_` of whole heads, as modelling code has it, in torch's ops."""
    import torch

    heads = x.view(x.shape[0], -1, HEAD_DIM)
    first, second = heads.float().chunk(2, dim=-1)
    cos, sin = table[positions].unsqueeze(1).chunk(2, dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    heads.copy_(turned)
