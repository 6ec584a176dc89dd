# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensor ops: the functions of `torch.ops.servecore`, typed and documented.

Importing this module imports torch and loads the op library; `import servecore` alone does not.
Raises ImportError, naming the version found and the version needed, when torch is missing or
older than 2.13 or when the library cannot be loaded.

Every failed check raises RuntimeError, names the values found and the values allowed, and leaves
all tensors as they were.
"""

from __future__ import annotations

from servecore import _ops_loader

_ops_loader.check_torch()

import torch  # noqa: E402 - after the check, so that a torch that is missing is explained

_ops_loader.load()

__all__ = ["custom_add", "rmsnorm"]


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Divides each row of `x` by its root mean square and scales it by `weight`.

    Computes ``x / sqrt(mean(x**2, dim=-1) + eps) * weight`` over the last dimension.

    The result is within 1e-5 of a float64 reference. Where a derivative is asked for (`x` or
    `weight` requires grad, or carries a tangent), it is computed by torch's own ops, which are
    differentiable any number of times and agree with the kernel to float32 rounding; otherwise by
    one fused kernel.

    Args:
        x: float32, shape (..., dim) with at least one dimension, any strides, on the CPU, a CUDA
            device where servecore was built for CUDA, or meta. No rows (0, dim) and rows of no
            elements (n, 0) are valid.
        weight: float32, shape (dim,), on `x`'s device.
        eps: Added to the mean of squares; finite and not negative.

    Returns:
        A new contiguous float32 tensor of `x`'s shape on `x`'s device.

    Raises:
        RuntimeError: A device, dtype, shape or `eps` that is not as above, or a device without a
            kernel in this build.

    Ownership: the result owns its memory; it never aliases `x` or `weight`.
    Lifetime: `x` and `weight` are held until the result is computed, and longer only by autograd.
    Copies: `x` is read by its strides; `weight` is copied once if it is not contiguous.
    GIL: held as torch holds it; the kernel needs none, and splits rows over torch's threads.
    Stream: on CUDA, torch's current stream of `x`'s device.
    Thread safety: safe to call from any thread; concurrent writes to the arguments are not.
    Complexity: O(x.numel()): two reads and one write of each row.
    """
    result: torch.Tensor = torch.ops.servecore.rmsnorm.default(x, weight, eps)
    return result


def custom_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Adds two tensors that agree in device, dtype and shape.

    Unlike ``a + b`` it never broadcasts, promotes or mixes devices: a disagreement is an error
    that names both values. It is a composite of torch's own ops, so it is differentiable any
    number of times and works under every torch transform, on every device.

    Args:
        a: Any dtype, shape and strides.
        b: `a`'s device, dtype and shape; strides of its own.

    Returns:
        A new tensor, equal to ``a + b`` in every bit. Its strides are those of ``a + b`` for
        floating-point and complex dtypes; integer and boolean results are contiguous.

    Raises:
        RuntimeError: `a` and `b` differ in device, dtype or shape.

    Ownership: the result owns its memory.
    Lifetime: `a` and `b` are only read; neither is kept.
    Copies: none for floating-point and complex dtypes; integers and booleans are copied once more.
    GIL: as torch's own add.
    Stream: on CUDA, torch's current stream of the tensors' device.
    Thread safety: safe to call from any thread; concurrent writes to the arguments are not.
    Complexity: O(a.numel()).
    """
    result: torch.Tensor = torch.ops.servecore.custom_add.default(a, b)
    return result
