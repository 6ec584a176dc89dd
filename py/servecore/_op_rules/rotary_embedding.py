# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of rotary_embedding_."""

from __future__ import annotations

from typing import Any

import torch

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
    wide_dtype,
)


def rotated(
    heads: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    head_dim: int,
    neox: bool,
) -> torch.Tensor:
    """What rotary_embedding_ writes into q or k, by torch's ops."""
    wide = wide_dtype(heads.dtype)
    shape = (*positions.shape, -1, head_dim)
    # One head a row, of the first elements as many as are rotated.
    rows = heads.reshape(shape) if heads.numel() else heads.reshape(*positions.shape, 0, head_dim)
    rot_dim = cos_sin_cache.shape[1]
    turned, kept = rows[..., :rot_dim].to(wide), rows[..., rot_dim:]
    cos, sin = cos_sin_cache[positions].to(wide).unsqueeze(-2).chunk(2, dim=-1)
    if neox:
        a, b = turned.chunk(2, dim=-1)
        result = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    else:
        a, b = turned[..., 0::2], turned[..., 1::2]
        result = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    return torch.cat([result.to(heads.dtype), kept], dim=-1).reshape(heads.shape)


def _cast(
    q: torch.Tensor,
    k: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    *rest: object,
) -> tuple[object, ...]:
    return q, k, positions, as_parameter(cos_sin_cache, q), *rest


def register() -> None:
    """Registers the rules."""
    op: Op = torch.ops.servecore.rotary_embedding_.default

    def autograd(
        keyset: Any,
        q: torch.Tensor,
        k: torch.Tensor | None,
        positions: torch.Tensor,
        cos_sin_cache: torch.Tensor,
        head_dim: int,
        neox: bool,
    ) -> None:
        written = (q,) if k is None else (q, k)
        rest = (positions, cos_sin_cache, head_dim, neox)
        if derivative_wanted(*written, cos_sin_cache):
            # The kernel's checks, on copies that may be written.
            copies = [tensor.detach().clone() for tensor in written]
            redispatch(
                op,
                keyset,
                copies[0],
                None if k is None else copies[1],
                positions,
                cos_sin_cache.detach(),
                head_dim,
                neox,
            )
            for tensor in written:
                # Of a copy, which the derivative for the table saves and nobody writes.
                tensor.copy_(rotated(tensor.clone(), *rest))
            return
        redispatch(op, keyset, q, k, *rest)
        torch.autograd.graph.increment_version(written)

    def vmap(info: Any, in_dims: Any, q: torch.Tensor, k: torch.Tensor | None, *rest: Any) -> Any:
        refuse_unbatched("rotary_embedding_", "q", in_dims[0])
        if k is not None:
            refuse_unbatched("rotary_embedding_", "k", in_dims[1])
        one_by_one(op, info, in_dims, (q, k, *rest))
        return None, None

    register_autograd("rotary_embedding_", autograd)
    register_autocast("rotary_embedding_", _cast)
    register_vmap("rotary_embedding_", vmap)
