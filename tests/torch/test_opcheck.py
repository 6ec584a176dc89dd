# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""torch's own checks of op registrations: schema, autograd, fake tensors, AOT dispatch."""

from __future__ import annotations

import pytest
import torch

from op_cases import LAYOUTS, WRITABLE_LAYOUTS, make_input
from servecore import ops  # noqa: F401 - loads the library

CHECKS = {
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
}


def opcheck(op: torch._ops.OpOverload, *args: object, **kwargs: object) -> None:
    assert torch.library.opcheck(op, args, kwargs) == dict.fromkeys(CHECKS, "SUCCESS")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rmsnorm(layout, requires_grad):
    x = make_input(layout).requires_grad_(requires_grad)
    weight = torch.rand(x.shape[-1], requires_grad=requires_grad)
    opcheck(torch.ops.servecore.rmsnorm.default, x, weight, 1e-6)


@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
def test_rmsnorm_out(layout):
    x = make_input(layout)
    weight = torch.rand(x.shape[-1])
    op = torch.ops.servecore.rmsnorm_out.default
    opcheck(op, x, weight, 1e-6, out=make_input(layout))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rmsnorm_backward(layout, requires_grad):
    x = make_input(layout).requires_grad_(requires_grad)
    weight = torch.rand(x.shape[-1], requires_grad=requires_grad)
    opcheck(torch.ops.servecore.rmsnorm_backward.default, make_input(layout), x, weight, 1e-6)


@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
def test_fused_add_rmsnorm_(layout):
    x, residual = make_input(layout), make_input(layout)
    weight = torch.rand(x.shape[-1])
    opcheck(torch.ops.servecore.fused_add_rmsnorm_.default, x, residual, weight, 1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_silu_and_mul(layout, requires_grad):
    x = make_input(layout, 38).requires_grad_(requires_grad)
    half = make_input(layout, 19)
    opcheck(torch.ops.servecore.silu_and_mul.default, x)
    opcheck(torch.ops.servecore.silu_and_mul_backward.default, half, x)
    if layout in WRITABLE_LAYOUTS and not requires_grad:
        opcheck(torch.ops.servecore.silu_and_mul_out.default, x, out=half)


@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize("with_k", [False, True])
def test_rotary_embedding_(layout, neox, with_k):
    q = make_input(layout, 32)
    head_dim = 8 if q.shape[-1] else 1
    k = make_input(layout, 32) if with_k else None
    positions = torch.randint(0, 9, q.shape[:-1])
    cache = torch.randn(9, 6 if head_dim == 8 else 0)
    op = torch.ops.servecore.rotary_embedding_.default
    opcheck(op, q, k, positions, cache, head_dim, neox)


@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
def test_custom_add_out(layout):
    op = torch.ops.servecore.custom_add_out.default
    opcheck(op, make_input(layout), make_input(layout), out=make_input(layout))


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_custom_add(layout, requires_grad):
    a = make_input(layout).requires_grad_(requires_grad)
    b = make_input(layout).requires_grad_(requires_grad)
    opcheck(torch.ops.servecore.custom_add.default, a, b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_custom_add_in_other_dtypes(dtype):
    opcheck(
        torch.ops.servecore.custom_add.default,
        torch.ones(3, 4, dtype=dtype),
        torch.ones(3, 4, dtype=dtype),
    )


def test_the_library_has_these_ops_and_no_other():
    schemas = {
        str(schema)
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("servecore::")
    }
    assert schemas == {
        (
            "servecore::rmsnorm(Tensor x, Tensor weight, float eps, "
            "bool cast_before_weight=False) -> Tensor"
        ),
        (
            "servecore::rmsnorm_out(Tensor x, Tensor weight, float eps, "
            "bool cast_before_weight=False, *, Tensor(a!) out) -> ()"
        ),
        (
            "servecore::rmsnorm_backward(Tensor grad_out, Tensor x, Tensor weight, float eps) "
            "-> (Tensor, Tensor)"
        ),
        (
            "servecore::fused_add_rmsnorm_(Tensor(a!) x, Tensor(b!) residual, Tensor weight, "
            "float eps, bool cast_before_weight=False) -> ()"
        ),
        "servecore::silu_and_mul(Tensor x) -> Tensor",
        "servecore::silu_and_mul_out(Tensor x, *, Tensor(a!) out) -> ()",
        "servecore::silu_and_mul_backward(Tensor grad_out, Tensor x) -> Tensor",
        (
            "servecore::rotary_embedding_(Tensor(a!) q, Tensor(b!)? k, Tensor positions, "
            "Tensor cos_sin_cache, int head_dim, bool neox) -> ()"
        ),
        "servecore::custom_add(Tensor a, Tensor b) -> Tensor",
        "servecore::custom_add_out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()",
    }
