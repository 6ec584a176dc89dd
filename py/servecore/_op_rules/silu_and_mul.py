# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of silu_and_mul, silu_and_mul_out and silu_and_mul_backward."""

from __future__ import annotations

from typing import Any

import torch

from servecore._op_rules.transforms import (
    Op,
    batch_first,
    call,
    call_below_autograd,
    derivative_wanted,
    in_eager_autograd,
    one_by_one,
    redispatch,
    register_autograd,
    register_vmap,
    wide_dtype,
)


def formula(x: torch.Tensor) -> torch.Tensor:
    """What silu_and_mul computes, by torch's ops."""
    gate, factor = x.to(wide_dtype(x.dtype)).chunk(2, dim=-1)
    return (gate * torch.sigmoid(gate) * factor).to(x.dtype).contiguous()


def backward_formula(grad_out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What silu_and_mul_backward computes, by torch's ops."""
    wide = wide_dtype(x.dtype)
    gate, factor = x.to(wide).chunk(2, dim=-1)
    grad, sigmoid = grad_out.to(wide), torch.sigmoid(gate)
    grad_gate = grad * factor * sigmoid * (1 + gate * (1 - sigmoid))
    return torch.cat([grad_gate, grad * gate * sigmoid], dim=-1).to(x.dtype)


class _SiluAndMul(torch.autograd.Function):  # type: ignore[misc]  # torch is not read here
    """Eager autograd, by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        result: torch.Tensor = call_below_autograd(torch.ops.servecore.silu_and_mul.default, x)
        return result

    @staticmethod
    def backward(ctx: Any, grad_out: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        # For a second derivative the op's own autograd kernel sees to it.
        grad_x: torch.Tensor = call(
            torch.ops.servecore.silu_and_mul_backward.default, (grad_out, x)
        )
        return grad_x


def register() -> None:
    """Registers the rules."""
    op: Op = torch.ops.servecore.silu_and_mul.default
    out_op: Op = torch.ops.servecore.silu_and_mul_out.default
    backward_op: Op = torch.ops.servecore.silu_and_mul_backward.default

    def autograd(keyset: Any, x: torch.Tensor) -> torch.Tensor:
        if derivative_wanted(x):
            if in_eager_autograd(x):
                result: torch.Tensor = _SiluAndMul.apply(x)
                return result
            # For its checks; under torch.compile the unused result is dropped.
            redispatch(op, keyset, x)
            return formula(x)
        plain: torch.Tensor = redispatch(op, keyset, x)
        return plain

    def out_autograd(keyset: Any, x: torch.Tensor, *, out: torch.Tensor) -> None:
        if derivative_wanted(x, out):
            raise RuntimeError(
                "servecore::silu_and_mul_out: a gradient is wanted, and functions with out= have "
                "none; use servecore::silu_and_mul, or torch.no_grad()"
            )
        redispatch(out_op, keyset, x, out=out)
        torch.autograd.graph.increment_version(out)

    def backward_autograd(keyset: Any, grad_out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = redispatch(backward_op, keyset, grad_out, x)
        return backward_formula(grad_out, x) if derivative_wanted(grad_out, x) else result

    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        if x.dim() == 1:
            return torch.stack(one_by_one(op, info, in_dims, (x,))), 0
        return op(x.movedim(in_dims[0], 0)), 0

    def backward_vmap(info: Any, in_dims: Any, *args: torch.Tensor) -> Any:
        grad_out, x = (
            batch_first(arg, dim, info.batch_size) for arg, dim in zip(args, in_dims, strict=True)
        )
        return backward_op(grad_out, x), 0

    register_autograd("silu_and_mul", autograd)
    register_autograd("silu_and_mul_out", out_autograd)
    register_autograd("silu_and_mul_backward", backward_autograd)
    register_vmap("silu_and_mul", vmap)
    register_vmap("silu_and_mul_backward", backward_vmap)
