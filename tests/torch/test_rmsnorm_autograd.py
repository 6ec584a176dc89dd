# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of rmsnorm: equal to the reference under every transform, never lost."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from rmsnorm_reference import LAYOUTS, assert_close, make_input, reference
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


@pytest.mark.parametrize("wanted", ["x", "weight"])
def test_backward_for_one_argument_alone(wanted):
    x, weight = torch.randn(3, 8), torch.rand(8)
    tensor = {"x": x, "weight": weight}[wanted].requires_grad_()
    loss(x, weight).backward()
    expected = reference_gradients(x, weight)[0 if wanted == "x" else 1]
    assert tensor.grad is not None
    assert_close(tensor.grad, expected)


def test_double_backward_equals_the_reference():
    x, weight = torch.randn(3, 8), torch.rand(8)

    def second(function, x, weight):
        x, weight = x.requires_grad_(), weight.requires_grad_()
        first = torch.autograd.grad(function(x, weight), (x, weight), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), (x, weight))

    actual = second(loss, x.clone(), weight.clone())
    expected = second(reference_loss, x.double(), weight.double())
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_results_with_and_without_a_gradient_agree():
    x, weight = torch.randn(3, 5, 64).transpose(0, 1), torch.rand(64)
    plain = ops.rmsnorm(x, weight)
    tracked = ops.rmsnorm(x.clone().requires_grad_(), weight)
    torch.testing.assert_close(tracked.detach(), plain, rtol=1e-6, atol=1e-6)
    assert tracked.stride() == plain.stride()


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_kept_where_none_is_wanted(context):
    x, weight = torch.randn(3, 8, requires_grad=True), torch.rand(8)
    with context():
        result = ops.rmsnorm(x, weight)
    assert not result.requires_grad
    assert_close(result, reference(x, weight, EPS).detach())


def test_forward_mode_equals_the_reference():
    x, weight, tangent = torch.randn(3, 8), torch.rand(8), torch.randn(3, 8)
    with forward_ad.dual_level():
        actual = forward_ad.unpack_dual(
            ops.rmsnorm(forward_ad.make_dual(x, tangent), weight, EPS)
        ).tangent
    expected = torch.func.jvp(
        lambda value: reference(value, weight, EPS), (x.double(),), (tangent.double(),)
    )[1]
    assert actual is not None
    assert_close(actual, expected)


@pytest.mark.parametrize("argnums", [0, 1])
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_func_grad_is_right_and_never_silently_zero(argnums, backend):
    torch._dynamo.reset()
    x, weight = torch.randn(3, 8), torch.rand(8)
    gradient = torch.func.grad(loss, argnums=argnums)
    if backend is not None:
        gradient = torch.compile(gradient, backend=backend)
    assert_close(gradient(x, weight), reference_gradients(x, weight)[argnums])


def test_func_jvp_and_jacobians():
    x, weight, tangent = torch.randn(8), torch.rand(8), torch.randn(8)

    def row(value):
        return ops.rmsnorm(value, weight, EPS)

    expected = torch.func.jacrev(lambda value: reference(value, weight, EPS))(x.double())
    assert_close(torch.func.jacrev(row)(x), expected)
    assert_close(torch.func.jvp(row, (x,), (tangent,))[1], expected @ tangent.double())


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_equals_a_loop_with_and_without_gradients():
    x, weights = torch.randn(4, 3, 8), torch.rand(4, 8)
    assert_close(
        torch.vmap(lambda a, b: ops.rmsnorm(a, b, EPS))(x, weights),
        torch.stack([reference(a, b, EPS) for a, b in zip(x, weights, strict=True)]),
    )
    assert_close(
        torch.vmap(torch.func.grad(loss))(x, weights),
        torch.stack([reference_gradients(a, b)[0] for a, b in zip(x, weights, strict=True)]),
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_compiles_into_one_graph(backend, dynamic, requires_grad):
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=backend, fullgraph=True, dynamic=dynamic)
    weight = torch.rand(8)
    for rows in (3, 5):
        x = torch.randn(rows, 8, requires_grad=requires_grad)
        value = compiled(x, weight)
        assert_close(value, reference_loss(x, weight).detach())
        if requires_grad:
            value.backward()
            assert x.grad is not None
            assert_close(x.grad, reference_gradients(x, weight)[0])


def test_dynamic_shapes_compile_once():
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(
        lambda x, w: ops.rmsnorm(x, w, EPS), backend=counter, fullgraph=True, dynamic=True
    )
    for rows in (3, 5, 7, 9):
        compiled(torch.randn(rows, 8), torch.rand(8))
    assert counter.frame_count == 1
