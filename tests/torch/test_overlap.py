# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""In-place and out ops on views: those that lie apart are written, those that overlap refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from op_cases import WRITABLE_LAYOUTS, assert_close, make_input, poisoned_like, rmsnorm_reference
from servecore import ops

WEIGHT = torch.rand(8)
ROW = torch.randn(4, 8)


def refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_out_with_elements_that_share_memory():
    for out in (
        torch.zeros(1, 8).expand(4, 8),
        torch.zeros(4, 1).expand(4, 8),
        torch.zeros(11).as_strided((4, 8), (1, 1)),
        torch.zeros(100).as_strided((4, 8), (7, 1)),
    ):
        refused(lambda out=out: ops.rmsnorm_out(ROW, WEIGHT, out=out), "out", "share memory")
        assert not out.any()


def test_inputs_may_share_memory_with_themselves_and_one_another():
    x = torch.randn(1, 8).expand(4, 8)
    assert_close(ops.rmsnorm(x, x[0]), rmsnorm_reference(x, x[0]))


def test_out_on_a_part_of_x():
    x = torch.randn(5, 8)
    before = x.clone()
    refused(lambda: ops.rmsnorm_out(x[:4], WEIGHT, out=x[1:]), "out", "shares memory with x")
    refused(lambda: ops.silu_and_mul_out(x, out=x[:, 2:6]), "out", "shares memory with x")
    refused(lambda: ops.rmsnorm_out(x, x[0], out=x), "shares memory with weight")
    assert torch.equal(x, before)


def test_out_may_be_x_itself():
    x = torch.randn(4, 8)
    expected = rmsnorm_reference(x, WEIGHT)
    assert ops.rmsnorm_out(x, WEIGHT, out=x) is x
    assert_close(x, expected)


def test_fused_add_on_one_tensor_twice():
    x = torch.randn(4, 16)
    before = x.clone()
    refused(lambda: ops.fused_add_rmsnorm_(x[:, :8], x[:, :8], WEIGHT), "shares memory")
    refused(lambda: ops.fused_add_rmsnorm_(x[:, :8], x[:, 4:12], WEIGHT), "shares memory")
    assert torch.equal(x, before)


def test_halves_of_one_tensor_lie_apart():
    both = torch.randn(4, 3, 16)
    x, residual = both[..., :8], both[..., 8:]
    total = (x + residual).double()
    ops.fused_add_rmsnorm_(x, residual, WEIGHT)
    assert_close(residual, total)
    assert_close(x, rmsnorm_reference(total, WEIGHT))


def test_q_and_k_may_be_columns_of_one_tensor():
    qkv = torch.randn(5, 4 * 8 + 2 * 8 + 2 * 8)
    apart = qkv.clone()
    q, k, v = qkv.split([32, 16, 16], dim=-1)
    table = torch.rand(9, 8)
    positions = torch.arange(5)
    ops.rotary_embedding_(q, k, positions, table, 8)
    q2, k2, v2 = (part.clone() for part in apart.split([32, 16, 16], dim=-1))
    ops.rotary_embedding_(q2, k2, positions, table, 8)
    for actual, expected in ((q, q2), (k, k2), (v, v2)):
        assert torch.equal(actual, expected)
    refused(
        lambda: ops.rotary_embedding_(qkv[:, :32], qkv[:, 24:40], positions, table, 8),
        "k, which is written, shares memory with q",
    )


@pytest.mark.parametrize("layout", WRITABLE_LAYOUTS)
def test_out_in_every_layout_and_nothing_beside_it(layout):
    x = make_input(layout)
    weight = torch.rand(x.shape[-1])
    # One element of air around: what is written beside out shows.
    base = torch.full((2 * max(1, x.numel()) * 40,), 7.0)
    out = base.as_strided(x.shape, poisoned_like(x).stride(), 3) if x.numel() else x.clone()
    assert ops.rmsnorm_out(x, weight, out=out) is out
    assert_close(out, rmsnorm_reference(x, weight))
    if x.numel():
        kept = out.clone()
        out.fill_(7.0)
        assert bool((base == 7.0).all())
        out.copy_(kept)


def test_autograd_notices_that_what_it_saved_was_written():
    for write in (
        lambda y: ops.fused_add_rmsnorm_(y, torch.zeros_like(y), WEIGHT),
        lambda y: ops.rmsnorm_out(ROW, WEIGHT, out=y),
        lambda y: ops.rotary_embedding_(y, None, torch.arange(4), torch.rand(4, 8), 8),
        lambda y: ops.silu_and_mul_out(torch.randn(4, 16), out=y),
        lambda y: torch.ops.servecore.fused_add_rmsnorm_(y, torch.zeros_like(y), WEIGHT, 1e-6),
    ):
        x = torch.randn(4, 8, requires_grad=True)
        y = x * 2
        value = y.square().sum()
        with torch.no_grad():
            write(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()


def test_functions_with_out_have_no_gradient_and_say_so():
    x = torch.randn(4, 8, requires_grad=True)
    refused(lambda: ops.rmsnorm_out(x, WEIGHT, out=torch.empty(4, 8)), "a gradient is wanted")
    refused(lambda: ops.silu_and_mul_out(x, out=torch.empty(4, 4)), "a gradient is wanted")


def test_in_place_on_a_leaf_that_wants_a_gradient_is_refused_by_torch():
    x = torch.randn(4, 8, requires_grad=True)
    refused(lambda: ops.fused_add_rmsnorm_(x, torch.zeros(4, 8), WEIGHT), "leaf Variable")
