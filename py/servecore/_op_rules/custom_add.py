# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of custom_add. It is a composite of torch's ops, which have rules of their own."""

from __future__ import annotations

import torch

from servecore._op_rules.transforms import register_autocast


def _cast(a: torch.Tensor, b: torch.Tensor) -> tuple[object, ...]:
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def register() -> None:
    """Registers the rules."""
    register_autocast("custom_add", _cast)
