# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules built on `servecore.ops`."""

from __future__ import annotations

from collections.abc import Sequence

from servecore import ops  # first, so that a torch that is missing is explained

import torch  # isort: skip

__all__ = ["RMSNorm"]


class RMSNorm(torch.nn.Module):  # type: ignore[misc]  # torch is not read by the type check
    """Root mean square normalisation over the last dimension, by `servecore.ops.rmsnorm`.

    Takes the arguments and the state dict of `torch.nn.RMSNorm`, and replaces it where one
    dimension is normalised and everything is float32.

    Args:
        normalized_shape: The length of the last dimension, as an int or a sequence of one int.
        eps: Added to the mean of squares; None is the machine epsilon of the input's dtype, as
            in torch.
        elementwise_affine: Whether there is a `weight` to learn. It starts at one.
        device: Where `weight` lives; None is torch's default device.
        dtype: The dtype of `weight`; None is torch's default dtype.

    Attributes:
        weight: Parameter of shape (dim,), or None without `elementwise_affine`.

    Raises:
        ValueError: `normalized_shape` has more or fewer than one dimension.
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool
    weight: torch.nn.Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        if len(shape) != 1:
            raise ValueError(
                f"RMSNorm: normalized_shape {shape} has {len(shape)} dimensions; allowed is 1, "
                "flatten the dimensions to normalise into one"
            )
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets `weight` to ones."""
        if self.weight is not None:
            torch.nn.init.ones_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalises `x`, of shape (..., dim); see `servecore.ops.rmsnorm`."""
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        weight = x.new_ones(self.normalized_shape) if self.weight is None else self.weight
        return ops.rmsnorm(x, weight, eps)

    def extra_repr(self) -> str:
        """The arguments, in the words of `torch.nn.RMSNorm`."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
