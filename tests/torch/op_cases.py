# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of all ops share: inputs in every layout and dtype, and float64 references.

A case is a function of tensors for each op; one that works in place works on copies. So every
test that holds for all ops is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from servecore import ops

EPS = 1e-6
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]

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

# Those whose elements have memory of their own, so that they may be written.
WRITABLE_LAYOUTS = [name for name in LAYOUTS if name not in ("expanded_rows", "one_value_per_row")]


def make_input(layout: str, dim: int = 37, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values in a layout of `LAYOUTS`, without a gradient."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64).to(dtype)

    match layout:
        case "contiguous":
            return random(3, 5, dim)
        case "vector":
            return random(dim)
        case "transposed":
            return random(3, 5, dim).transpose(0, 1)
        case "permuted":
            return random(2, 3, 4, dim).permute(2, 0, 1, 3)
        case "column_major":
            return random(dim, 6).t()
        case "sliced_rows":
            return random(4, 6, dim)[1:, ::2]
        case "sliced_columns":
            return random(4, 6, dim + 9)[..., 4 : 4 + dim]
        case "every_other_column":
            return random(4, 2 * dim)[:, ::2]
        case "expanded_rows":
            return random(1, dim).expand(5, dim)
        case "one_value_per_row":
            return random(5, 1).expand(5, dim)
        case "misaligned":
            return random(3 * dim + 1)[1:].view(3, dim)
        case "no_rows":
            return random(0, dim)
        case "empty_rows":
            return random(3, 0)
    raise AssertionError(layout)


def poisoned_like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same shape and strides full of NaN, so that what is not written shows."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).fill_(torch.nan)


def rmsnorm_reference(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, *, cast_to: torch.dtype | None = None
) -> torch.Tensor:
    """Rmsnorm in float64, by torch's own differentiable ops."""
    x, weight = x.double(), weight.double()
    scaled = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    if cast_to is not None:
        scaled = scaled.to(cast_to).double()
    return scaled * weight


def silu_and_mul_reference(x: torch.Tensor) -> torch.Tensor:
    """silu_and_mul in float64."""
    gate, factor = x.double().chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * factor


def rotary_reference(
    heads: torch.Tensor, positions: torch.Tensor, cache: torch.Tensor, head_dim: int, neox: bool
) -> torch.Tensor:
    """rotary_embedding_ in float64, as a rotation of complex numbers, pair by pair."""
    half = cache.shape[1] // 2
    num_heads = heads.shape[positions.dim() :].numel() // head_dim
    rows = heads.double().reshape(*positions.shape, num_heads, head_dim)
    table = cache.double()[positions].unsqueeze(-2)
    turn = torch.complex(table[..., :half], table[..., half:])
    first = range(half) if neox else range(0, 2 * half, 2)
    second = range(half, 2 * half) if neox else range(1, 2 * half, 2)
    pairs = torch.complex(rows[..., list(first)], rows[..., list(second)]) * turn
    result = rows.clone()
    result[..., list(first)] = pairs.real
    result[..., list(second)] = pairs.imag
    return result.reshape(heads.shape)


def assert_rounded(
    actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, scale: float = 1.0
) -> None:
    """Within a rounding to `dtype` of a float64 value, and `scale` times the kernels' own errors.

    float32 arithmetic is within 1e-6 and float64 within 1e-13 of the largest value at hand; what
    is rounded to a narrower dtype after that is within half a unit in its last place besides.
    """
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    own = 1e-13 if dtype == torch.float64 else 1e-6
    half_unit = torch.finfo(dtype).eps / 2 if dtype in (torch.bfloat16, torch.float16) else 0.0
    largest = expected.abs().max().item() if expected.numel() else 0.0
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    torch.testing.assert_close(
        actual.double(),
        expected,
        rtol=half_unit * 1.001 + own * scale,
        atol=own * scale * max(1.0, largest) + smallest,
    )


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within 1e-5 of a float64 value: 100 float32 roundings, of which a row needs a few."""
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)


@dataclass(frozen=True)
class Case:
    """An op as a function of tensors.

    Attributes:
        name: The op's.
        run: Calls it; never changes an argument.
        reference: The same in float64.
        inputs: Random arguments of a dtype, with a dimension for rows in front.
    """

    name: str
    run: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    inputs: Callable[[int, torch.dtype], tuple[torch.Tensor, ...]]


def _rows(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, dtype=torch.float64).to(dtype)


def _fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x, residual = x.clone(), residual.clone()
    ops.fused_add_rmsnorm_(x, residual, weight, EPS)
    return torch.stack([x, residual])


def _fused_reference(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    # What is normalised is the sum as it is stored.
    total = residual.double() + x.double()
    if x.dtype != torch.float64 and not torch._C._functorch.peek_interpreter_stack():
        total = total + (total.to(x.dtype).double() - total).detach()
    return torch.stack([rmsnorm_reference(total, weight), total])


HEAD_DIM = 8


def _positions(rows: int) -> torch.Tensor:
    return torch.arange(rows) * 5 % 9


def _rotary(neox: bool) -> Callable[..., torch.Tensor]:
    def run(q: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        q = q.clone()
        ops.rotary_embedding_(q, None, _positions(q.shape[0]), cache, HEAD_DIM, neox)
        return q

    return run


def _rotary_reference(neox: bool) -> Callable[..., torch.Tensor]:
    def run(q: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return rotary_reference(q, _positions(q.shape[0]), cache, HEAD_DIM, neox)

    return run


CASES = [
    Case(
        "rmsnorm",
        lambda x, weight: ops.rmsnorm(x, weight, EPS),
        rmsnorm_reference,
        lambda rows, dtype: (_rows(rows, 24, dtype), _rows(1, 24, dtype)[0]),
    ),
    Case(
        "fused_add_rmsnorm_",
        _fused,
        _fused_reference,
        lambda rows, dtype: (
            _rows(rows, 24, dtype),
            _rows(rows, 24, dtype),
            _rows(1, 24, dtype)[0],
        ),
    ),
    Case(
        "silu_and_mul",
        ops.silu_and_mul,
        silu_and_mul_reference,
        lambda rows, dtype: (_rows(rows, 24, dtype),),
    ),
    *(
        Case(
            f"rotary_embedding_ {name}",
            _rotary(neox),
            _rotary_reference(neox),
            lambda rows, dtype: (_rows(rows, 3 * HEAD_DIM, dtype), _rows(9, 6, dtype)),
        )
        for name, neox in (("neox", True), ("interleaved", False))
    ),
    Case(
        "custom_add",
        ops.custom_add,
        lambda a, b: a.double() + b.double(),
        lambda rows, dtype: (_rows(rows, 24, dtype), _rows(rows, 24, dtype)),
    ),
]
