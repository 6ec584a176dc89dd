# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The acceptance runs that the tensor ops were first specified by."""

from __future__ import annotations

import pytest
import torch

from servecore import ops


@pytest.fixture
def activations():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 7, 4096, generator=generator)
    return x, torch.rand(4096, generator=generator)


def float32_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@pytest.mark.parametrize("call", [ops.rmsnorm, torch.ops.servecore.rmsnorm], ids=["function", "op"])
def test_rmsnorm_equals_the_reference(activations, call):
    x, weight = activations
    torch.testing.assert_close(
        call(x, weight, 1e-6), float32_reference(x, weight), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("call", [ops.rmsnorm, torch.ops.servecore.rmsnorm], ids=["function", "op"])
def test_rmsnorm_of_a_transpose_equals_the_reference(activations, call):
    x, weight = activations
    transposed = x.transpose(0, 1)
    assert not transposed.is_contiguous()
    torch.testing.assert_close(
        call(transposed, weight, 1e-6),
        float32_reference(transposed, weight),
        rtol=1e-5,
        atol=1e-5,
    )


def test_rmsnorm_refuses_float64(activations):
    x, weight = activations
    with pytest.raises(RuntimeError, match=r"torch\.float64.*torch\.float32"):
        ops.rmsnorm(x.double(), weight)


def test_custom_add_of_two_small_vectors():
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
    assert ops.custom_add(a, b).tolist() == [11.0, 22.0, 33.0]


def test_custom_add_is_exact():
    generator = torch.Generator().manual_seed(42)
    a, b = torch.randn(1024, generator=generator), torch.randn(1024, generator=generator)
    torch.testing.assert_close(ops.custom_add(a, b), torch.add(a, b), rtol=0, atol=0)


def test_custom_add_is_differentiable():
    a = torch.randn(16, dtype=torch.float64, requires_grad=True)
    b = torch.randn(16, dtype=torch.float64, requires_grad=True)
    ops.custom_add(a, b).sum().backward()
    assert torch.equal(a.grad, torch.ones_like(a))
    assert torch.equal(b.grad, torch.ones_like(b))
    assert torch.autograd.gradcheck(ops.custom_add, (a, b))


@pytest.mark.parametrize(
    ("b", "both"),
    [
        (torch.ones(3), r"\(2, 3\).*\(3,\)"),
        (torch.ones(2, 3, dtype=torch.float64), r"torch\.float32.*torch\.float64"),
        (torch.ones(2, 3, device="meta"), "cpu.*meta"),
    ],
    ids=["shape", "dtype", "device"],
)
def test_custom_add_names_both_values(b, both):
    with pytest.raises(RuntimeError, match=both):
        ops.custom_add(torch.ones(2, 3), b)
