# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Every op compiled to machine code: by inductor, and ahead of time."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import build_tools

# Read when torch is imported.
os.environ.update(build_tools.environment())
os.environ["TMPDIR"] = os.environ["TEST_TMPDIR"]
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
# Debian's Python.h names one of its headers from here.
os.environ["CPATH"] = str(Path(sysconfig.get_path("include")).parent)

import pytest
import torch
import torch._inductor

from op_cases import CASES, Case, assert_close, assert_rounded


def inputs_of_all(rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(arg for case in CASES for arg in case.inputs(rows, dtype))


def of_each(args: tuple[torch.Tensor, ...]) -> Iterator[tuple[Case, tuple[torch.Tensor, ...]]]:
    """The cases with their own arguments, out of those of all."""
    begin = 0
    for case in CASES:
        end = begin + len(case.inputs(1, torch.float32))
        yield case, args[begin:end]
        begin = end


class All(torch.nn.Module):
    """Every op in one program: to compile one takes seconds, of which most are the compiler's."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = [len(case.inputs(1, torch.float32)) for case in CASES]

    def forward(self, *args: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for case, count in zip(CASES, self.counts, strict=True):
            results.append(case.run(*args[:count]))
            args = args[count:]
        return results


@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor_forward_and_backward(dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(All(), backend="inductor", fullgraph=True, dynamic=dynamic)
    for rows in (3, 5) if dynamic else (3,):
        args = inputs_of_all(rows, torch.float32)
        for (case, own), result in zip(of_each(args), compiled(*args), strict=True):
            assert_rounded(result, case.reference(*own), torch.float32, scale=4.0)

        wanting = tuple(arg.clone().requires_grad_() for arg in args)
        sum(result.sin().sum() for result in compiled(*wanting)).backward()
        for case, own in of_each(wanting):
            wide = tuple(arg.detach().double().requires_grad_() for arg in own)
            expected = torch.autograd.grad(case.reference(*wide).sin().sum(), wide)
            for arg, gradient in zip(own, expected, strict=True):
                assert_close(arg.grad, gradient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_aot_inductor_round_trip(dtype, tmp_path):
    program = torch.export.export(All(), inputs_of_all(5, dtype))
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "ops.pt2")
    )
    loaded = torch._inductor.aoti_load_package(package)
    args = inputs_of_all(5, dtype)
    for (case, own), result in zip(of_each(args), loaded(*args), strict=True):
        assert_rounded(result, case.reference(*own), dtype, scale=4.0)
