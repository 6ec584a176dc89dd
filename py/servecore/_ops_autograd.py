# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of `torch.ops.servecore.rmsnorm`.

The fused kernel has no backward. Where a derivative is asked for, the op is therefore computed
by differentiable torch ops instead, which gives backward, double backward, forward mode and the
torch.func transforms at once, eager and compiled. An autograd.Function would not do: under
`torch.compile(torch.func.grad(f))` torch drops its gradient without a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

# torch leaves these without types.
_unpack_dual: Callable[[torch.Tensor], Any] = forward_ad.unpack_dual
_make_library: Callable[[str, str], Any] = torch.library.Library

# Keeps the registration alive: torch takes it back when the Library is collected.
_libraries: list[Any] = []


def _formula(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    # The fused kernel's result is contiguous whatever the strides of x are.
    return (x * scale * weight).contiguous()


def _derivative_wanted(x: torch.Tensor, weight: torch.Tensor) -> bool:
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return True
    return any(_unpack_dual(tensor).tangent is not None for tensor in (x, weight))


def register() -> None:
    """Registers the derivatives. Call once, before the op is first used.

    torch.compile remembers how an op was dispatched the first time, so a registration after that
    would come too late for it.
    """
    op: Any = torch.ops.servecore.rmsnorm.default
    devices = {
        key.lower()
        for key in ("CPU", "CUDA", "Meta")
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)
    }

    def valid(x: torch.Tensor, weight: torch.Tensor, eps: float) -> bool:
        return (
            x.device == weight.device
            and x.device.type in devices
            and x.layout == weight.layout == torch.strided
            and x.dtype == weight.dtype == torch.float32
            and x.dim() > 0
            and weight.shape == x.shape[-1:]
            and math.isfinite(eps)
            and eps >= 0.0
        )

    def fused(keyset: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        below = keyset & torch._C._after_autograd_keyset
        result: torch.Tensor = op.redispatch(below, x, weight, eps)
        return result

    def rmsnorm(keyset: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        if not _derivative_wanted(x, weight):
            return fused(keyset, x, weight, eps)
        if valid(x, weight, eps):
            return _formula(x, weight, eps)
        # The kernel's own check names what is wrong, in the same words as without a gradient.
        fused(keyset, x, weight, eps)
        raise RuntimeError(
            "servecore::rmsnorm: the kernel accepts arguments that its derivative does not: "
            f"x is {x.dtype} on {x.device}, weight is {weight.dtype} on {weight.device}"
        )

    library = _make_library("servecore", "IMPL")
    library.impl("rmsnorm", rmsnorm, "Autograd", with_keyset=True)
    _libraries.append(library)
