# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Every op on tensors whose elements lie further apart than 32 bits can say."""

from __future__ import annotations

import pytest
import torch

from op_cases import (
    EPS,
    assert_rounded,
    rmsnorm_reference,
    rotary_reference,
    silu_and_mul_reference,
)
from servecore import ops

# Elements from one row, or from one column, to the next.
FAR_ROWS = (2**32 + 64, 1)
FAR_COLUMNS = (1, 2**31 + 64)

far = pytest.mark.parametrize("strides", [FAR_ROWS, FAR_COLUMNS], ids=["rows", "columns"])


def placed(values: torch.Tensor, strides: tuple[int, int]) -> torch.Tensor:
    """The values in memory of these strides; what lies between is never touched."""
    last = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    memory = torch.empty(last + 1, dtype=values.dtype).as_strided(values.shape, strides)
    return memory.copy_(values)


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(shape).half()


@far
def test_rmsnorm(strides):
    values, weight = halves(2, 4), halves(4)
    x = placed(values, strides)
    expected = rmsnorm_reference(values, weight)
    assert_rounded(ops.rmsnorm(x, weight, EPS), expected, torch.float16)
    out = placed(torch.zeros_like(values), strides)
    ops.rmsnorm_out(values, weight, EPS, out=out)
    assert_rounded(out.contiguous(), expected, torch.float16)


@far
def test_rmsnorm_backward(strides):
    grad, values, weight = halves(2, 4), halves(2, 4), halves(4)
    expected = ops.rmsnorm_backward(grad, values, weight, EPS)
    actual = ops.rmsnorm_backward(placed(grad, strides), placed(values, strides), weight, EPS)
    for ours, wanted in zip(actual, expected, strict=True):
        assert torch.equal(ours, wanted)


@far
def test_fused_add_rmsnorm_(strides):
    values, weight = halves(2, 4), halves(4)
    x = placed(values, strides)
    residual = torch.zeros_like(values)
    ops.fused_add_rmsnorm_(x, residual, weight, EPS)
    assert torch.equal(residual, values)
    assert_rounded(x.contiguous(), rmsnorm_reference(values, weight), torch.float16)


@far
def test_silu_and_mul(strides):
    values = halves(2, 4)
    x = placed(values, strides)
    assert_rounded(ops.silu_and_mul(x), silu_and_mul_reference(values), torch.float16, scale=4.0)
    grad = halves(2, 2)
    assert torch.equal(ops.silu_and_mul_backward(grad, x), ops.silu_and_mul_backward(grad, values))


@far
def test_rotary_embedding_(strides):
    values, table = halves(2, 4), halves(3, 4)
    positions = torch.tensor([2, 1])
    q = placed(values, strides)
    ops.rotary_embedding_(q, None, positions, table, 4)
    expected = rotary_reference(values, positions, table, 4, neox=True)
    assert_rounded(q.contiguous(), expected, torch.float16, scale=4.0)
