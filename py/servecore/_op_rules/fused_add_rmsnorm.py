# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of fused_add_rmsnorm_."""

from __future__ import annotations

from typing import Any

import torch

from servecore._op_rules import rmsnorm
from servecore._op_rules.transforms import (
    Op,
    as_parameter,
    derivative_wanted,
    one_by_one,
    redispatch,
    refuse_unbatched,
    register_autocast,
    register_autograd,
    register_vmap,
)


def formula_(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    cast_before_weight: bool = False,
) -> None:
    """What fused_add_rmsnorm_ does, by torch's ops."""
    residual.add_(x)
    x.copy_(rmsnorm.formula(residual, weight, eps, cast_before_weight))


def _cast(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *rest: object
) -> tuple[object, ...]:
    return x, residual, as_parameter(weight, x), *rest


def register() -> None:
    """Registers the rules."""
    op: Op = torch.ops.servecore.fused_add_rmsnorm_.default

    def autograd(
        keyset: Any,
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        eps: float,
        cast_before_weight: bool = False,
    ) -> None:
        if derivative_wanted(x, residual, weight):
            # The kernel's checks, on copies that may be written.
            copies = (x.detach().clone(), residual.detach().clone(), weight.detach())
            redispatch(op, keyset, *copies, eps, cast_before_weight)
            formula_(x, residual, weight, eps, cast_before_weight)
            return
        redispatch(op, keyset, x, residual, weight, eps, cast_before_weight)
        torch.autograd.graph.increment_version((x, residual))

    def vmap(
        info: Any,
        in_dims: Any,
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        *rest: Any,
    ) -> Any:
        refuse_unbatched("fused_add_rmsnorm_", "x", in_dims[0])
        refuse_unbatched("fused_add_rmsnorm_", "residual", in_dims[1])
        if in_dims[2] is None and x.dim() > 1:
            op(x.movedim(in_dims[0], 0), residual.movedim(in_dims[1], 0), weight, *rest)
        else:
            one_by_one(op, info, in_dims, (x, residual, weight, *rest))
        return None, None

    register_autograd("fused_add_rmsnorm_", autograd)
    register_autocast("fused_add_rmsnorm_", _cast)
    register_vmap("fused_add_rmsnorm_", vmap)
