# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What several tests of rmsnorm share: the reference, and inputs in every layout."""

from __future__ import annotations

import torch

LAYOUTS = [
    "contiguous",
    "vector",
    "transposed",
    "permuted",
    "column_major",
    "sliced_rows",
    "sliced_columns",
    "every_other_column",
    "expanded_rows",
    "one_value_per_row",
    "misaligned",
    "no_rows",
    "empty_rows",
]


def make_input(layout: str, dim: int = 37) -> torch.Tensor:
    """Random float32 values in a layout of `LAYOUTS`, without a gradient."""
    match layout:
        case "contiguous":
            return torch.randn(3, 5, dim)
        case "vector":
            return torch.randn(dim)
        case "transposed":
            return torch.randn(3, 5, dim).transpose(0, 1)
        case "permuted":
            return torch.randn(2, 3, 4, dim).permute(2, 0, 1, 3)
        case "column_major":
            return torch.randn(dim, 6).t()
        case "sliced_rows":
            return torch.randn(4, 6, dim)[1:, ::2]
        case "sliced_columns":
            return torch.randn(4, 6, dim + 9)[..., 4 : 4 + dim]
        case "every_other_column":
            return torch.randn(4, 2 * dim)[:, ::2]
        case "expanded_rows":
            return torch.randn(1, dim).expand(5, dim)
        case "one_value_per_row":
            return torch.randn(5, 1).expand(5, dim)
        case "misaligned":
            return torch.randn(3 * dim + 1)[1:].view(3, dim)
        case "no_rows":
            return torch.randn(0, dim)
        case "empty_rows":
            return torch.randn(3, 0)
    raise AssertionError(layout)


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Rmsnorm in float64, by torch's own differentiable ops."""
    x, weight = x.double(), weight.double()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within 1e-5 of a float64 value: 100 float32 roundings, of which a row needs a few."""
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)
