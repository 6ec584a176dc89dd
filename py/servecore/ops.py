# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensor ops: the functions of `torch.ops.servecore`, typed and documented.

Importing this module imports torch and loads the op library; `import servecore` alone does not.
Raises ImportError, naming the version found and the version needed, when torch is missing or
older than 2.13 or when the library cannot be loaded.

What holds for all of them:

Dtypes are float32, bfloat16, float16, and float64 on the CPU. Kernels compute in float32 (float64
for float64) and round once, to the dtype of the result. A weight or table has the dtype of the
tensor it goes with, or float32 beside a narrower one. Tensors may have any strides, any storage
offset, any number of leading dimensions, and no elements at all.

Every failed check raises RuntimeError, names the values found and the values allowed, and leaves
all tensors as they were. What is written must have memory of its own for each element, apart from
what is read.

The functions work under autograd, torch.compile, torch.export, torch.func, forward mode, autocast
(which casts weights and tables where the dtypes would not go together) and vmap.

Ownership: a result owns its memory; it never aliases an argument.
Lifetime: arguments are held until the result is computed, and longer only by autograd.
Copies: tensors are read and written by their strides.
GIL: held as torch holds it; the kernels need none, and split rows over torch's threads.
Stream: on CUDA, torch's current stream of the tensors' device.
Thread safety: safe to call from any thread; concurrent writes to the arguments are not.
"""

from __future__ import annotations

from typing import Any

from servecore import _ops_loader

_ops_loader.check_torch()

import torch  # noqa: E402 - after the check, so that a torch that is missing is explained

_ops_loader.load()

from servecore._op_rules.transforms import (  # noqa: E402
    call_below_autograd,
    increment_version,
    skips_autograd,
)

__all__ = [
    "custom_add",
    "custom_add_out",
    "fused_add_rmsnorm_",
    "rmsnorm",
    "rmsnorm_backward",
    "rmsnorm_out",
    "rotary_embedding_",
    "silu_and_mul",
    "silu_and_mul_backward",
    "silu_and_mul_out",
]

_custom_add: Any = torch.ops.servecore.custom_add.default
_custom_add_out: Any = torch.ops.servecore.custom_add_out.default
_fused_add_rmsnorm_: Any = torch.ops.servecore.fused_add_rmsnorm_.default
_rmsnorm: Any = torch.ops.servecore.rmsnorm.default
_rmsnorm_backward: Any = torch.ops.servecore.rmsnorm_backward.default
_rmsnorm_out: Any = torch.ops.servecore.rmsnorm_out.default
_rotary_embedding_: Any = torch.ops.servecore.rotary_embedding_.default
_silu_and_mul: Any = torch.ops.servecore.silu_and_mul.default
_silu_and_mul_backward: Any = torch.ops.servecore.silu_and_mul_backward.default
_silu_and_mul_out: Any = torch.ops.servecore.silu_and_mul_out.default


def rmsnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    cast_before_weight: bool = False,
) -> torch.Tensor:
    """Divides each row of `x` by its root mean square and scales it by `weight`.

    Computes ``x / sqrt(mean(x**2, dim=-1) + eps) * weight`` over the last dimension.

    float32 results are within 1e-6 of a float64 reference, relative to the element; bfloat16 and
    float16 ones are its correct rounding in all but one of 10,000 elements, as torch's rms_norm
    rounds. Squares of narrow dtypes cannot overflow.

    Args:
        x: Shape (..., dim) with at least one dimension, on the CPU, meta, or a CUDA device where
            servecore was built for CUDA. No rows (0, dim) and empty rows (n, 0) are valid.
        weight: Shape (dim,), on `x`'s device.
        eps: Added to the mean of squares; finite and not negative.
        cast_before_weight: Rounds to `x`'s dtype before the weight multiply, and once more after
            it, as the modelling code of the Llama family does. It changes a quarter of bfloat16
            results by one unit in the last place; models trained with it want it.

    Returns:
        A new contiguous tensor of `x`'s shape, dtype and device.

    Raises:
        RuntimeError: A device, dtype, shape or `eps` that is not as above, or a device without a
            kernel in this build.

    Complexity: O(x.numel()): two reads, the second from cache, and one write of each row.
    """
    result: torch.Tensor
    if skips_autograd(x, weight):
        result = call_below_autograd(_rmsnorm, x, weight, eps, cast_before_weight)
    else:
        result = _rmsnorm(x, weight, eps, cast_before_weight)
    return result


def rmsnorm_out(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    cast_before_weight: bool = False,
    out: torch.Tensor,
) -> torch.Tensor:
    """`rmsnorm` into `out`, which is of `x`'s shape and dtype, and may be `x` itself.

    Returns:
        `out`.

    Raises:
        RuntimeError: As `rmsnorm`; `out` has another shape, dtype or device, shares memory with
            `weight` or with a part of `x`, or has elements that share memory; a gradient is
            wanted, which functions with an `out` have none of.
    """
    if skips_autograd(x, weight, out):
        call_below_autograd(_rmsnorm_out, x, weight, eps, cast_before_weight, out=out)
        increment_version((out,))
    else:
        _rmsnorm_out(x, weight, eps, cast_before_weight, out=out)
    return out


def rmsnorm_backward(
    grad_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of a value with respect to `x` and `weight`, given that of `rmsnorm`'s result.

    It is the derivative of the function without roundings, so it serves `cast_before_weight` too.
    The results do not depend on the number of threads.

    Args:
        grad_out: The gradient of the result, of `x`'s shape and dtype.
        x: As in `rmsnorm`.
        weight: As in `rmsnorm`.
        eps: As in `rmsnorm`.

    Returns:
        New contiguous tensors, of the shapes and dtypes of `x` and `weight`.

    Raises:
        RuntimeError: As `rmsnorm`, or a `grad_out` that is not like `x`.

    Complexity: O(x.numel()): two reads of `grad_out` and `x`, and one write.
    """
    result: tuple[torch.Tensor, torch.Tensor]
    if skips_autograd(grad_out, x, weight):
        result = call_below_autograd(_rmsnorm_backward, grad_out, x, weight, eps)
    else:
        result = _rmsnorm_backward(grad_out, x, weight, eps)
    return result


def fused_add_rmsnorm_(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    *,
    cast_before_weight: bool = False,
) -> None:
    """In place, ``residual += x`` and ``x = rmsnorm(residual, weight, eps)``.

    The bits are those of an addition, rounded to the dtype, followed by `rmsnorm`.

    Args:
        x: Shape (..., dim); written.
        residual: Like `x`; written.
        weight: As in `rmsnorm`.
        eps: As in `rmsnorm`.
        cast_before_weight: As in `rmsnorm`.

    Raises:
        RuntimeError: As `rmsnorm`, or `x` and `residual` are not alike, share memory with one
            another or with `weight`, or have elements that share memory.

    Complexity: O(x.numel()): one read and one write of `x` and of `residual`.
    """
    if skips_autograd(x, residual, weight):
        call_below_autograd(_fused_add_rmsnorm_, x, residual, weight, eps, cast_before_weight)
        increment_version((x, residual))
    else:
        _fused_add_rmsnorm_(x, residual, weight, eps, cast_before_weight)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * factor``, where `gate` and `factor` are the halves of each row of `x`.

    silu(a) is ``a / (1 + exp(-a))``. It is not rounded before it is multiplied.

    Args:
        x: Shape (..., 2 * d).

    Returns:
        A new contiguous tensor of shape (..., d), of `x`'s dtype and device.

    Raises:
        RuntimeError: The last dimension is odd, or a device or dtype without a kernel.

    Complexity: O(x.numel()): one read of `x`, one write of the result.
    """
    result: torch.Tensor = (
        call_below_autograd(_silu_and_mul, x) if skips_autograd(x) else _silu_and_mul(x)
    )
    return result


def silu_and_mul_out(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """`silu_and_mul` into `out`, of shape (..., d) and `x`'s dtype.

    Returns:
        `out`.

    Raises:
        RuntimeError: As `silu_and_mul`; `out` has another shape, dtype or device, shares memory
            with `x`, or has elements that share memory; a gradient is wanted.
    """
    if skips_autograd(x, out):
        call_below_autograd(_silu_and_mul_out, x, out=out)
        increment_version((out,))
    else:
        _silu_and_mul_out(x, out=out)
    return out


def silu_and_mul_backward(grad_out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of a value with respect to `x`, given that of `silu_and_mul`'s result.

    Args:
        grad_out: The gradient of the result, shape (..., d).
        x: Shape (..., 2 * d), of the same dtype.

    Returns:
        A new contiguous tensor like `x`.

    Raises:
        RuntimeError: As `silu_and_mul`, or a `grad_out` that is not like its result.

    Complexity: O(x.numel()).
    """
    result: torch.Tensor
    if skips_autograd(grad_out, x):
        result = call_below_autograd(_silu_and_mul_backward, grad_out, x)
    else:
        result = _silu_and_mul_backward(grad_out, x)
    return result


def rotary_embedding_(
    q: torch.Tensor,
    k: torch.Tensor | None,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    head_dim: int,
    neox: bool = True,
) -> None:
    """Rotates the heads of queries and keys by their positions, in place.

    Each head's first ``rot_dim = cos_sin_cache.shape[1]`` elements are pairs (a, b) that become
    ``(a * cos - b * sin, b * cos + a * sin)``. The i-th pair is elements i and i + rot_dim / 2
    with `neox`, else 2 i and 2 i + 1. The elements behind them stay (partial rotary).

    Args:
        q: Shape (*positions.shape, heads * head_dim) or (*positions.shape, heads, head_dim);
            written. Columns of one tensor that holds q and k may be given as both.
        k: The same with heads of its own, or None; written.
        positions: int64, any shape: the position of each token, a row of the table.
        cos_sin_cache: Shape (positions, rot_dim): a row holds the cosines of the rot_dim / 2
            angles, and behind them their sines.
        head_dim: Elements of a head, at least rot_dim.
        neox: How elements are paired.

    Raises:
        RuntimeError: A device, dtype or shape that is not as above; a position outside the table;
            q or k share memory with one another or with what is read.

    Copies: `positions`, if it has several dimensions and does not lie in one piece.
    Complexity: O((q.numel() + k.numel()) * rot_dim / head_dim).
    """
    written = (q,) if k is None else (q, k)
    if skips_autograd(*written, cos_sin_cache):
        call_below_autograd(_rotary_embedding_, q, k, positions, cos_sin_cache, head_dim, neox)
        increment_version(written)
    else:
        _rotary_embedding_(q, k, positions, cos_sin_cache, head_dim, neox)


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

    Copies: none for floating-point and complex dtypes; integers and booleans are copied once more.
    Complexity: O(a.numel()).
    """
    result: torch.Tensor = _custom_add(a, b)
    return result


def custom_add_out(a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """`custom_add` into `out`, which is like `a` and may be `a` or `b` itself.

    Returns:
        `out`.

    Raises:
        RuntimeError: `a`, `b` and `out` differ in device, dtype or shape.

    Copies: the sum, into `out`.
    """
    _custom_add_out(a, b, out=out)
    return out
