# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The backward kernel of rmsnorm, in every layout and dtype; test_transforms.py has the rest."""

from __future__ import annotations

import pytest
import torch

from op_cases import DTYPES, LAYOUTS, assert_close, make_input
from op_cases import rmsnorm_reference as reference
from servecore import ops

EPS = 1e-6


def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return ops.rmsnorm(x, weight, EPS).sin().sum()


def reference_loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return reference(x, weight, EPS).sin().sum()


def reference_gradients(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wanted = x.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    return torch.autograd.grad(reference_loss(*wanted), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_backward_equals_the_reference(layout):
    x = make_input(layout).requires_grad_()
    weight = torch.rand(x.shape[-1], requires_grad=True)

    value = loss(x, weight)
    gradients = torch.autograd.grad(value, (x, weight))

    assert_close(value, reference_loss(x, weight).detach())
    for actual, expected in zip(gradients, reference_gradients(x, weight), strict=True):
        assert_close(actual, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_itself(layout, dtype):
    x = make_input(layout, 67, dtype)
    weight = torch.rand(x.shape[-1]).to(dtype)
    grad_out = make_input(layout, 67, dtype)

    grad_x, grad_weight = ops.rmsnorm_backward(grad_out, x, weight, EPS)

    wide = x.double().requires_grad_(), weight.double().requires_grad_()
    expected = torch.autograd.grad(reference(*wide, EPS), wide, grad_out.double())
    for actual, wanted, like in zip((grad_x, grad_weight), expected, (x, weight), strict=True):
        assert actual.is_contiguous()
        assert (actual.dtype, actual.shape) == (dtype, like.shape)
        largest = wanted.abs().max().item() if wanted.numel() else 0.0
        own = 1e-12 if dtype == torch.float64 else 2e-6
        half_unit = torch.finfo(dtype).eps if dtype in (torch.bfloat16, torch.float16) else 0.0
        torch.testing.assert_close(
            actual.double(), wanted, rtol=half_unit + own, atol=own * max(1.0, largest)
        )


def test_gradients_do_not_depend_on_the_number_of_threads():
    x, weight, grad_out = torch.randn(1031, 257), torch.rand(257), torch.randn(1031, 257)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = ops.rmsnorm_backward(grad_out, x, weight)
        torch.set_num_threads(3)
        together = ops.rmsnorm_backward(grad_out, x, weight)
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


def test_results_with_and_without_a_gradient_agree():
    x, weight = torch.randn(3, 5, 64).transpose(0, 1), torch.rand(64)
    plain = ops.rmsnorm(x, weight)
    tracked = ops.rmsnorm(x.clone().requires_grad_(), weight)
    assert torch.equal(tracked.detach(), plain)
    assert tracked.stride() == plain.stride()


def test_grad_out_that_does_not_fit():
    x, weight = torch.randn(3, 8), torch.rand(8)
    for grad_out, words in (
        (torch.randn(3, 7), "grad_out has shape"),
        (torch.randn(3, 8).double(), "grad_out has dtype torch.float64"),
        (torch.randn(3, 8, device="meta"), "grad_out is on meta"),
    ):
        with pytest.raises(RuntimeError, match=words):
            ops.rmsnorm_backward(grad_out, x, weight)
