# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""fused_add_rmsnorm_: values in every layout and dtype, and refusals."""

from __future__ import annotations

import pytest
import torch

from op_cases import DTYPES, WRITABLE_LAYOUTS, assert_rounded, make_input, rmsnorm_reference
from servecore import ops


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 37, 512])
@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
def test_adds_and_normalises_in_place(layout, dim, dtype):
    x, residual = make_input(layout, dim, dtype), make_input(layout, dim, dtype)
    weight = torch.rand(x.shape[-1]).to(dtype)
    total = (x.double() + residual.double()).to(dtype)
    strides = x.stride(), residual.stride()

    assert ops.fused_add_rmsnorm_(x, residual, weight) is None

    # The bits of an addition, and of a rmsnorm of what was stored.
    assert torch.equal(residual, total)
    assert torch.equal(x, ops.rmsnorm(total, weight))
    assert_rounded(x, rmsnorm_reference(total, weight), dtype)
    assert (x.stride(), residual.stride()) == strides


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_options_are_those_of_rmsnorm(dtype):
    x, residual = make_input("contiguous", 64, dtype), make_input("contiguous", 64, dtype)
    weight = torch.rand(64)
    total = x + residual
    ops.fused_add_rmsnorm_(x, residual, weight, 1e-3, cast_before_weight=True)
    assert torch.equal(x, ops.rmsnorm(total, weight, 1e-3, cast_before_weight=True))


def test_what_does_not_go_together_is_refused_and_nothing_written():
    x, weight = torch.randn(3, 8), torch.rand(8)
    before = x.clone()
    for residual, words in (
        (torch.randn(3, 7), "residual has shape"),
        (torch.randn(3, 8).double(), "residual has dtype torch.float64"),
        (torch.randn(3, 8, device="meta"), "residual is on meta"),
    ):
        with pytest.raises(RuntimeError, match=words):
            ops.fused_add_rmsnorm_(x, residual, weight)
    with pytest.raises(RuntimeError, match="weight has shape"):
        ops.fused_add_rmsnorm_(x, torch.randn(3, 8), torch.rand(7))
    with pytest.raises(RuntimeError, match="eps is -1"):
        ops.fused_add_rmsnorm_(x, torch.randn(3, 8), weight, -1.0)
    assert torch.equal(x, before)
