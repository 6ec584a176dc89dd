# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""silu_and_mul: values in every layout and dtype, extremes, and refusals."""

from __future__ import annotations

import re

import pytest
import torch

from op_cases import (
    DTYPES,
    LAYOUTS,
    assert_rounded,
    make_input,
    poisoned_like,
    silu_and_mul_reference,
)
from servecore import ops


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [1, 19, 512])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equals_the_reference_in_every_layout(layout, dim, dtype):
    x = make_input(layout, 2 * dim, dtype)
    result = ops.silu_and_mul(x)
    out = poisoned_like(result)
    assert ops.silu_and_mul_out(x, out=out) is out

    assert_rounded(result, silu_and_mul_reference(x), dtype, scale=4.0)
    assert torch.equal(out, result)
    assert result.is_contiguous()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_in_every_layout(layout, dtype):
    x = make_input(layout, 38, dtype)
    grad_out = make_input(layout, 19, dtype)
    wide = x.double().requires_grad_()
    (expected,) = torch.autograd.grad(silu_and_mul_reference(wide), wide, grad_out.double())
    result = ops.silu_and_mul_backward(grad_out, x)
    assert_rounded(result, expected, dtype, scale=4.0)
    assert result.is_contiguous()


def test_extreme_gates():
    gate = torch.tensor([-torch.inf, -1e4, -200.0, -0.0, 0.0, 200.0, 1e4, torch.inf, torch.nan])
    result = ops.silu_and_mul(torch.cat([gate, torch.ones(9)]))
    expected = torch.nn.functional.silu(gate)
    # -inf / (1 + exp(inf)): torch says nan as well.
    torch.testing.assert_close(result, expected, equal_nan=True)


def test_meta_has_the_strides_and_shape_of_the_real_result():
    x = torch.randn(6, 4, 10).transpose(0, 1)
    real, meta = ops.silu_and_mul(x), ops.silu_and_mul(x.to("meta"))
    assert (meta.shape, meta.stride(), meta.dtype) == (real.shape, real.stride(), real.dtype)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("shape", [(3, 7), (1,), ()])
def test_rows_without_two_halves(device, shape):
    with pytest.raises(RuntimeError, match=re.escape(f"x has shape {shape}")):
        ops.silu_and_mul(torch.ones(shape, device=device))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_does_not_fit(device):
    x = torch.randn(3, 8, device=device)
    for out, words in (
        (torch.empty(3, 8, device=device), "out has shape (3, 8)"),
        (torch.empty(4, device=device), "out has shape (4,)"),
        (torch.empty(3, 4, dtype=torch.float16, device=device), "out has dtype torch.float16"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(words)):
            ops.silu_and_mul_out(x, out=out)
    with pytest.raises(RuntimeError, match=re.escape("grad_out has shape (3, 8)")):
        ops.silu_and_mul_backward(x, x)
    with pytest.raises(RuntimeError, match=r"x has dtype torch\.int64; allowed are"):
        ops.silu_and_mul(torch.ones(3, 8, dtype=torch.int64, device=device))
