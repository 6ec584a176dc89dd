# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of rmsnorm, rmsnorm_out and rmsnorm_backward."""

from __future__ import annotations

from typing import Any

import torch

from servecore._op_rules.transforms import (
    Op,
    as_parameter,
    call,
    call_below_autograd,
    derivative_wanted,
    in_eager_autograd,
    one_by_one,
    redispatch,
    register_autocast,
    register_autograd,
    register_vmap,
    wide_dtype,
)


def formula(
    x: torch.Tensor, weight: torch.Tensor, eps: float, cast_before_weight: bool = False
) -> torch.Tensor:
    """What rmsnorm computes, by torch's ops."""
    wide = wide_dtype(x.dtype)
    values = x.to(wide)
    scaled = values * torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + eps)
    if cast_before_weight:
        scaled = scaled.to(x.dtype).to(wide)
    # The kernel's result is contiguous whatever the strides of x are.
    return (scaled * weight.to(wide)).to(x.dtype).contiguous()


def backward_formula(
    grad_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What rmsnorm_backward computes, by torch's ops."""
    wide = wide_dtype(x.dtype)
    grad, values, factors = grad_out.to(wide), x.to(wide), weight.to(wide)
    scale = torch.rsqrt(values.square().mean(dim=-1, keepdim=True) + eps)
    weighted = grad * factors
    mean = (weighted * values).mean(dim=-1, keepdim=True)
    grad_x = scale * (weighted - values * scale.square() * mean)
    grad_weight = (grad * values * scale).sum_to_size(weight.shape)
    return grad_x.to(x.dtype).contiguous(), grad_weight.to(weight.dtype)


class _RmsNorm(torch.autograd.Function):  # type: ignore[misc]  # torch is not read here
    """Eager autograd, by the kernels."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float, cast_before_weight: bool
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        result: torch.Tensor = call_below_autograd(
            torch.ops.servecore.rmsnorm.default, x, weight, eps, cast_before_weight
        )
        return result

    @staticmethod
    def backward(ctx: Any, grad_out: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        # For a second derivative the op's own autograd kernel sees to it.
        grads: tuple[torch.Tensor, torch.Tensor] = call(
            torch.ops.servecore.rmsnorm_backward.default, (grad_out, x, weight), ctx.eps
        )
        return *grads, None, None


def _cast(x: torch.Tensor, weight: torch.Tensor, *rest: object) -> tuple[object, ...]:
    return x, as_parameter(weight, x), *rest


def register() -> None:
    """Registers the rules."""
    op: Op = torch.ops.servecore.rmsnorm.default
    out_op: Op = torch.ops.servecore.rmsnorm_out.default
    backward_op: Op = torch.ops.servecore.rmsnorm_backward.default

    def autograd(
        keyset: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        cast_before_weight: bool = False,
    ) -> torch.Tensor:
        args = (x, weight, eps, cast_before_weight)
        if derivative_wanted(x, weight):
            if in_eager_autograd(x, weight):
                result: torch.Tensor = _RmsNorm.apply(*args)
                return result
            # For its checks; under torch.compile the unused result is dropped.
            redispatch(op, keyset, *args)
            return formula(*args)
        plain: torch.Tensor = redispatch(op, keyset, *args)
        return plain

    def out_autograd(
        keyset: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        cast_before_weight: bool = False,
        *,
        out: torch.Tensor,
    ) -> None:
        if derivative_wanted(x, weight, out):
            raise RuntimeError(
                "servecore::rmsnorm_out: a gradient is wanted, and functions with out= have none; "
                "use servecore::rmsnorm, or torch.no_grad()"
            )
        redispatch(out_op, keyset, x, weight, eps, cast_before_weight, out=out)
        torch.autograd.graph.increment_version(out)

    def backward_autograd(
        keyset: Any, grad_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> Any:
        result = redispatch(backward_op, keyset, grad_out, x, weight, eps)
        if derivative_wanted(grad_out, x, weight):
            return backward_formula(grad_out, x, weight, eps)
        return result

    def vmap(info: Any, in_dims: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Any:
        x_dim, weight_dim = in_dims[:2]
        if x_dim is not None and weight_dim is None and x.dim() > 1:
            return op(x.movedim(x_dim, 0), weight, *rest), 0
        return torch.stack(one_by_one(op, info, in_dims, (x, weight, *rest))), 0

    def backward_vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        results = one_by_one(backward_op, info, in_dims, args)
        grads_x, grads_weight = zip(*results, strict=True)
        return (torch.stack(grads_x), torch.stack(grads_weight)), (0, 0)

    register_autograd("rmsnorm", autograd)
    register_autograd("rmsnorm_out", out_autograd)
    register_autograd("rmsnorm_backward", backward_autograd)
    register_autocast("rmsnorm", _cast)
    register_autocast("rmsnorm_out", _cast)
    register_vmap("rmsnorm", vmap)
    register_vmap("rmsnorm_backward", backward_vmap)
