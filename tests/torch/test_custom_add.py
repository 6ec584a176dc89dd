# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.servecore.custom_add: exact, strict and differentiable."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from servecore import ops

FRACTIONAL = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype in WHOLE:
        info = torch.iinfo(dtype)
        return torch.randint(info.min, info.max, shape, dtype=dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return (torch.randn(shape, dtype=wide) * 50).to(dtype)


@pytest.mark.parametrize("dtype", FRACTIONAL + WHOLE, ids=str)
@pytest.mark.parametrize("shape", [(), (7,), (33, 65), (0, 3)], ids=str)
def test_equals_plus_in_every_bit(dtype, shape):
    a, b = values(dtype, *shape), values(dtype, *shape)
    result = ops.custom_add(a, b)
    assert result.dtype == dtype
    assert torch.equal(result, a + b)


@pytest.mark.parametrize("dtype", FRACTIONAL, ids=str)
def test_strides_are_those_of_plus(dtype):
    a, b = values(dtype, 5, 9).t(), values(dtype, 5, 9).t()
    assert ops.custom_add(a, b).stride() == (a + b).stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_mixed_layouts(dtype):
    a, b = values(dtype, 6, 9).t(), values(dtype, 1, 6).expand(9, 6)
    assert torch.equal(ops.custom_add(a, b), a + b)


def test_signed_zeros_infinities_and_nan():
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45])
    a, b = special.repeat_interleave(6), special.repeat(6)
    result, expected = ops.custom_add(a, b), a + b
    assert torch.equal(result.isnan(), expected.isnan())
    whole = ~expected.isnan()
    assert torch.equal(result[whole].view(torch.int32), expected[whole].view(torch.int32))


def test_gradients_flow_to_both():
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 4, dtype=torch.float64)
    (ops.custom_add(a, b) * weights).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert torch.equal(a.grad, weights)
    assert torch.equal(b.grad, weights)


def test_gradcheck_and_gradgradcheck():
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ops.custom_add, (a, b), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x, y: ops.custom_add(x * x, x * y), (a, b))


def test_forward_mode():
    a, b, tangent = torch.randn(4), torch.randn(4), torch.randn(4)
    with forward_ad.dual_level():
        result = ops.custom_add(forward_ad.make_dual(a, tangent), b)
        assert torch.equal(forward_ad.unpack_dual(result).tangent, tangent)


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_func_grad(backend):
    torch._dynamo.reset()
    gradient = torch.func.grad(lambda a, b: (ops.custom_add(a, b) * b).sum())
    if backend is not None:
        gradient = torch.compile(gradient, backend=backend)
    a, b = torch.randn(4), torch.randn(4)
    assert torch.equal(gradient(a, b), b)


def test_vmap():
    a, b = torch.randn(3, 4), torch.randn(4)
    assert torch.equal(torch.vmap(ops.custom_add, in_dims=(0, None))(a, b), a + b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_compiles_into_one_graph(backend, dynamic, dtype):
    torch._dynamo.reset()
    compiled = torch.compile(ops.custom_add, backend=backend, fullgraph=True, dynamic=dynamic)
    for size in (3, 5):
        a, b = values(dtype, size, 4), values(dtype, size, 4)
        assert torch.equal(compiled(a, b), a + b)


def test_runs_on_meta():
    result = ops.custom_add(torch.empty(3, 4, device="meta"), torch.empty(3, 4, device="meta"))
    assert result.device.type == "meta"
    assert result.shape == (3, 4)


@pytest.mark.parametrize(
    ("a", "b", "found", "allowed"),
    [
        (
            torch.ones(2),
            torch.ones(2, device="meta"),
            "a is on cpu, b is on meta",
            "both must be on one device",
        ),
        (
            torch.ones(2),
            torch.ones(2, dtype=torch.float64),
            "a has dtype torch.float32, b has dtype torch.float64",
            "both must have one dtype",
        ),
        (
            torch.ones(2, dtype=torch.int32),
            torch.ones(2, dtype=torch.int64),
            "a has dtype torch.int32, b has dtype torch.int64",
            "both must have one dtype",
        ),
        (
            torch.ones(2, 3),
            torch.ones(3),
            "a has shape (2, 3), b has shape (3,)",
            "both must have one shape",
        ),
        (
            torch.ones(2, 3),
            torch.ones(2, 1),
            "a has shape (2, 3), b has shape (2, 1)",
            "both must have one shape",
        ),
        (
            torch.ones(()),
            torch.ones(1),
            "a has shape (), b has shape (1,)",
            "both must have one shape",
        ),
        (
            torch.ones(0, device="meta"),
            torch.ones(1, device="meta"),
            "a has shape (0,), b has shape (1,)",
            "both must have one shape",
        ),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_refusals_name_both_values(a, b, found, allowed, requires_grad):
    if requires_grad and a.dtype.is_floating_point:
        a = a.clone().requires_grad_()
    with pytest.raises(RuntimeError) as caught:
        ops.custom_add(a, b)
    assert found in str(caught.value)
    assert allowed in str(caught.value)
