# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""rotary_embedding_: values in every layout and dtype, and refusals before anything is written."""

from __future__ import annotations

import re

import pytest
import torch

from op_cases import DTYPES, WRITABLE_LAYOUTS, assert_rounded, make_input, rotary_reference
from servecore import ops

HEAD_DIM = 16


def table(rot_dim: int = HEAD_DIM, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The usual one: angles that fall geometrically, at 64 positions."""
    rates = 10_000.0 ** (-torch.arange(0, rot_dim, 2, dtype=torch.float64) / max(1, rot_dim))
    angles = torch.arange(64, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=-1).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("neox", [False, True])
@pytest.mark.parametrize("rot_dim", [0, 2, 10, HEAD_DIM])
@pytest.mark.parametrize("layout", [name for name in WRITABLE_LAYOUTS if name != "empty_rows"])
def test_rotates_in_every_layout(layout, rot_dim, neox, dtype):
    q = make_input(layout, 4 * HEAD_DIM, dtype)
    k = make_input(layout, 2 * HEAD_DIM, dtype)
    positions = torch.randint(0, 64, q.shape[:-1])
    cache = table(rot_dim, dtype)
    expected = [
        rotary_reference(heads, positions, cache, HEAD_DIM, neox)
        if heads.numel()
        else heads.double()
        for heads in (q, k)
    ]

    assert ops.rotary_embedding_(q, k, positions, cache, HEAD_DIM, neox) is None

    for actual, wanted in zip((q, k), expected, strict=True):
        assert_rounded(actual, wanted, dtype, scale=4.0)


def test_heads_may_be_a_dimension_of_their_own():
    q = torch.randn(5, 4, HEAD_DIM)
    flat = q.clone().flatten(1)
    positions = torch.randint(0, 64, (5,))
    ops.rotary_embedding_(q, None, positions, table(), HEAD_DIM)
    ops.rotary_embedding_(flat, None, positions, table(), HEAD_DIM)
    assert torch.equal(q.flatten(1), flat)


def test_a_rotation_keeps_lengths_and_turns_by_the_difference_of_positions():
    q, k = torch.randn(1, HEAD_DIM).double(), torch.randn(1, HEAD_DIM).double()

    def product(i: int, j: int) -> float:
        a, b = q.clone(), k.clone()
        ops.rotary_embedding_(a, None, torch.tensor([i]), table(dtype=torch.float64), HEAD_DIM)
        ops.rotary_embedding_(b, None, torch.tensor([j]), table(dtype=torch.float64), HEAD_DIM)
        assert abs(a.norm() - q.norm()) < 1e-12
        return (a * b).sum().item()

    assert abs(product(7, 3) - product(44, 40)) < 1e-12


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_table_may_be_float32_beside_narrower_heads(dtype):
    q = torch.randn(5, HEAD_DIM).to(dtype)
    positions = torch.randint(0, 64, (5,))
    expected = rotary_reference(q, positions, table(), HEAD_DIM, neox=True)
    ops.rotary_embedding_(q, None, positions, table(), HEAD_DIM)
    assert_rounded(q, expected, dtype, scale=4.0)


def test_many_tokens_are_shared_out_over_threads():
    q = torch.randn(2000, 8 * HEAD_DIM)
    positions = torch.randint(0, 64, (2, 2000))[0]
    expected = rotary_reference(q, positions, table(), HEAD_DIM, neox=True)
    ops.rotary_embedding_(q, None, positions, table(), HEAD_DIM)
    assert_rounded(q, expected, torch.float32, scale=4.0)


@pytest.mark.parametrize("bad", [-1, 64, 2**40])
def test_a_position_outside_the_table_changes_nothing(bad):
    q = torch.randn(3000, 4 * HEAD_DIM)
    before = q.clone()
    positions = torch.zeros(3000, dtype=torch.int64)
    positions[2999] = bad
    with pytest.raises(RuntimeError, match=re.escape(f"positions[2999] is {bad}")):
        ops.rotary_embedding_(q, None, positions, table(), HEAD_DIM)
    assert torch.equal(q, before)


def test_what_does_not_go_together():
    q, positions = torch.randn(5, 4 * HEAD_DIM), torch.arange(5)
    for call, words in (
        (lambda: ops.rotary_embedding_(q, None, positions.int(), table(), 16), "torch.int32"),
        (lambda: ops.rotary_embedding_(q, None, positions[:4], table(), 16), "q has shape (5, 64)"),
        (lambda: ops.rotary_embedding_(q, None, positions, table(), 24), "head_dim is 24"),
        (lambda: ops.rotary_embedding_(q, None, positions, table(), 0), "head_dim is 0"),
        (lambda: ops.rotary_embedding_(q, None, positions, table(), 8), "at most head_dim, 8"),
        (lambda: ops.rotary_embedding_(q, None, positions, table()[:, :5], 16), "shape (64, 5)"),
        (lambda: ops.rotary_embedding_(q, None, positions, table()[0], 16), "shape (16,)"),
        (
            lambda: ops.rotary_embedding_(q, q.double(), positions, table(), 16),
            "k has dtype torch.float64",
        ),
        (
            lambda: ops.rotary_embedding_(q, q[:4].clone(), positions, table(), 16),
            "k has shape (4, 64)",
        ),
        (
            lambda: ops.rotary_embedding_(q, None, positions, table(dtype=torch.float64), 16),
            "cos_sin_cache has dtype torch.float64",
        ),
        (
            lambda: ops.rotary_embedding_(q, None, positions.to("meta"), table(), 16),
            "positions is on meta",
        ),
    ):
        with pytest.raises(RuntimeError, match=re.escape(words)):
            call()
