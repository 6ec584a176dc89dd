# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Modules built on `servecore.ops`."""

from __future__ import annotations

from collections.abc import Sequence

from servecore import ops  # first, so that a torch that is missing is explained
from servecore._op_rules.transforms import wide_dtype

import torch  # isort: skip

__all__ = ["RMSNorm"]


class RMSNorm(torch.nn.Module):  # type: ignore[misc]  # torch is not read by the type check
    """Root mean square normalisation over the last dimensions, by `servecore.ops.rmsnorm`.

    Takes the arguments and the state dict of `torch.nn.RMSNorm`, and replaces it.

    Args:
        normalized_shape: The last dimensions of the input, which are normalised together: an int
            for one, or a sequence.
        eps: Added to the mean of squares; None is the machine epsilon of what is computed in,
            float32 for the narrower dtypes, as torch does (its documentation says otherwise).
        elementwise_affine: Whether there is a `weight` to learn. It starts at one.
        device: Where `weight` lives; None is torch's default device.
        dtype: The dtype of `weight`; None is torch's default dtype.
        cast_before_weight: As in `servecore.ops.rmsnorm`.

    Attributes:
        weight: Parameter of shape `normalized_shape`, or None without `elementwise_affine`.

    Raises:
        ValueError: `normalized_shape` is empty.
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool
    cast_before_weight: bool
    weight: torch.nn.Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        cast_before_weight: bool = False,
    ) -> None:
        super().__init__()
        shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        if not shape:
            raise ValueError(
                "RMSNorm: normalized_shape is (); it must name 1 dimension or more, those to "
                "normalise over"
            )
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.cast_before_weight = cast_before_weight
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
        """Normalises `x`, of shape (..., *normalized_shape); see `servecore.ops.rmsnorm`.

        Raises:
            RuntimeError: As `servecore.ops.rmsnorm`, or the last dimensions are others.
        """
        eps = self.eps
        if eps is None:
            eps = torch.finfo(wide_dtype(x.dtype)).eps
        weight = x.new_ones(self.normalized_shape) if self.weight is None else self.weight
        if len(self.normalized_shape) == 1:
            return ops.rmsnorm(x, weight, eps, cast_before_weight=self.cast_before_weight)
        num_dims = len(self.normalized_shape)
        if x.shape[-num_dims:] != self.normalized_shape:
            raise RuntimeError(
                f"RMSNorm: x has shape {tuple(x.shape)}; its last dimensions must be "
                f"{self.normalized_shape}"
            )
        rows = x.flatten(-num_dims)
        result = ops.rmsnorm(
            rows, weight.flatten(), eps, cast_before_weight=self.cast_before_weight
        )
        return result.unflatten(-1, self.normalized_shape)

    def extra_repr(self) -> str:
        """The arguments, in the words of `torch.nn.RMSNorm`."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )
