# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Every op under every transform of torch: right, or a clear error; never silently wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._dynamo.testing
from torch.autograd import forward_ad

from op_cases import CASES, DTYPES, Case, assert_close, assert_rounded
from servecore import ops

cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def loss(case: Case, *args: torch.Tensor) -> torch.Tensor:
    return case.run(*args).sin().sum()


def reference_loss(case: Case, *args: torch.Tensor) -> torch.Tensor:
    return case.reference(*args).sin().sum()


def reference_gradients(case: Case, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = tuple(arg.detach().double().requires_grad_() for arg in args)
    return torch.autograd.grad(reference_loss(case, *wide), wide)


def wanting_gradients(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(arg.detach().clone().requires_grad_() for arg in args)


@cases
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(case, dtype):
    args = case.inputs(5, dtype)
    before = [arg.clone() for arg in args]
    assert_rounded(case.run(*args), case.reference(*args), dtype, scale=4.0)
    for arg, old in zip(args, before, strict=True):
        assert torch.equal(arg, old)


@cases
def test_backward(case):
    args = wanting_gradients(*case.inputs(5, torch.float32))
    gradients = torch.autograd.grad(loss(case, *args), args)
    for actual, expected in zip(gradients, reference_gradients(case, *args), strict=True):
        assert_close(actual, expected)


@cases
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_backward_in_narrow_dtypes(case, dtype):
    args = wanting_gradients(*case.inputs(5, dtype))
    seed = torch.randn_like(case.run(*args))
    gradients = torch.autograd.grad(case.run(*args), args, seed)
    wide = tuple(arg.detach().double().requires_grad_() for arg in args)
    expected = torch.autograd.grad(case.reference(*wide), wide, seed.double())
    for actual, wanted in zip(gradients, expected, strict=True):
        assert actual.dtype == dtype
        # A few roundings of values as large as the largest.
        bound = 4 * torch.finfo(dtype).eps * max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(actual.double(), wanted, rtol=0.0, atol=bound)


@cases
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_backward_for_one_argument_alone(case, wanted):
    args = list(case.inputs(5, torch.float32))
    if wanted >= len(args):
        pytest.skip("the op has fewer arguments")
    args[wanted].requires_grad_()
    loss(case, *args).backward()
    assert_close(args[wanted].grad, reference_gradients(case, *args)[wanted])
    assert all(arg.grad is None for arg in args if arg is not args[wanted])


@cases
def test_gradcheck_and_gradgradcheck(case):
    args = wanting_gradients(*case.inputs(2, torch.float64))
    assert torch.autograd.gradcheck(case.run, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(case.run, args)


@cases
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_no_gradient_is_kept_where_none_is_wanted(case, context):
    args = wanting_gradients(*case.inputs(5, torch.float32))
    with context():
        result = case.run(*args)
    assert not result.requires_grad
    assert_close(result, case.reference(*(arg.detach() for arg in args)))


@cases
def test_forward_mode(case):
    args = case.inputs(5, torch.float32)
    tangents = tuple(torch.randn_like(arg) for arg in args)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(args, tangents, strict=True)]
        actual = forward_ad.unpack_dual(case.run(*duals)).tangent
    wide = tuple(arg.double() for arg in args), tuple(tangent.double() for tangent in tangents)
    assert actual is not None
    assert_close(actual, torch.func.jvp(case.reference, *wide)[1])


@cases
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_func_grad_is_right_and_never_silently_zero(case, backend):
    torch._dynamo.reset()
    args = case.inputs(5, torch.float32)
    expected = reference_gradients(case, *args)
    for argnum in range(len(args)):

        def gradient(*args: torch.Tensor, _argnum: int = argnum) -> Any:
            return torch.func.grad(lambda *a: loss(case, *a), argnums=_argnum)(*args)

        run = gradient if backend is None else torch.compile(gradient, backend=backend)
        assert expected[argnum].abs().max() > 0
        assert_close(run(*args), expected[argnum])


@cases
def test_jacobians(case):
    args = case.inputs(2, torch.float32)
    wide = tuple(arg.double() for arg in args)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        assert_close(transform(case.run)(*args), transform(case.reference)(*wide))


@cases
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap(case):
    batch = [case.inputs(5, torch.float32) for _ in range(4)]
    stacked = tuple(torch.stack(column) for column in zip(*batch, strict=True))
    expected = torch.stack([case.reference(*args) for args in batch])
    assert_close(torch.vmap(case.run)(*stacked), expected)
    # Batches of which the dimension is another one.
    turned = tuple(column.movedim(0, -1) for column in stacked)
    assert_close(torch.vmap(case.run, in_dims=-1)(*turned), expected)
    # The first argument alone.
    first = stacked[0], *batch[0][1:]
    in_dims = (0, *(None for _ in batch[0][1:]))
    if case.name != "fused_add_rmsnorm_":
        alone = torch.stack([case.reference(x, *batch[0][1:]) for x in stacked[0]])
        assert_close(torch.vmap(case.run, in_dims=in_dims)(*first), alone)
    # And with gradients.
    gradients = torch.vmap(torch.func.grad(lambda *args: loss(case, *args)))(*stacked)
    assert_close(gradients, torch.stack([reference_gradients(case, *args)[0] for args in batch]))


def test_vmap_refuses_to_write_a_batch_into_one_tensor():
    x, weight = torch.randn(3, 8), torch.rand(8)

    def write(value: torch.Tensor) -> torch.Tensor:
        ops.fused_add_rmsnorm_(x, value, weight)
        return value

    with pytest.raises(RuntimeError, match="x is written by each of the batch"):
        torch.vmap(write)(torch.randn(4, 3, 8))
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        torch.vmap(lambda a, out: ops.rmsnorm_out(a, weight, out=out))(
            torch.randn(4, 3, 8), torch.empty(4, 3, 8)
        )


@cases
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_compiles_into_one_graph(case, backend, dynamic, requires_grad):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *args: loss(case, *args), backend=backend, fullgraph=True, dynamic=dynamic
    )
    for rows in (3, 5):
        args = case.inputs(rows, torch.float32)
        if requires_grad:
            args = wanting_gradients(*args)
        value = compiled(*args)
        assert_close(value, reference_loss(case, *args).detach())
        if requires_grad:
            value.backward()
            for arg, expected in zip(args, reference_gradients(case, *args), strict=True):
                assert_close(arg.grad, expected)


@cases
def test_dynamic_shapes_compile_once(case):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(case.run, backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 3, 4, 5):
        args = case.inputs(rows, torch.float32)
        assert_close(compiled(*args), case.reference(*args))
    assert counter.frame_count == 1


@cases
def test_export(case):
    class Module(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return case.run(*args)

    args = case.inputs(5, torch.float32)
    program = torch.export.export(Module(), args)
    targets = {str(node.target) for node in program.graph.nodes}
    assert any("servecore" in target for target in targets) or case.name == "custom_add"
    assert_close(program.module()(*args), case.reference(*args))


def test_autocast_casts_what_would_not_go_together():
    x, weight = torch.randn(3, 8), torch.rand(8).bfloat16()
    with pytest.raises(RuntimeError, match=r"weight has dtype torch\.bfloat16"):
        ops.rmsnorm(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(ops.rmsnorm(x, weight), ops.rmsnorm(x, weight.float()))
        out = torch.empty_like(x)
        ops.rmsnorm_out(x, weight, out=out)
        assert torch.equal(out, ops.rmsnorm(x, weight.float()))
        assert ops.custom_add(x, x.bfloat16()).dtype == torch.float32
        residual = torch.zeros_like(x)
        ops.fused_add_rmsnorm_(x, residual, weight)
        q = torch.randn(3, 8)
        ops.rotary_embedding_(q, None, torch.arange(3), torch.rand(4, 8).bfloat16(), 8)
    with torch.autocast("cpu", torch.bfloat16):
        # What goes together stays as it is, and gradients flow through the casts.
        assert ops.rmsnorm(x.bfloat16(), weight).dtype == torch.bfloat16
        weight.requires_grad_()
        ops.rmsnorm(x, weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.bfloat16
