# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""servecore.nn.RMSNorm beside torch.nn.RMSNorm."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from servecore import nn, ops


@pytest.mark.parametrize("shape", [8, [8], (8,), torch.Size([8]), (5, 8), (3, 5, 8)], ids=str)
@pytest.mark.parametrize("eps", [None, 1e-5])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_replaces_torchs(shape, eps, affine, dtype):
    ours = nn.RMSNorm(shape, eps=eps, elementwise_affine=affine, dtype=dtype)
    theirs = torch.nn.RMSNorm(shape, eps=eps, elementwise_affine=affine, dtype=dtype)
    if affine:
        torch.nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    # Small, so that it matters which eps is added.
    x = (torch.randn(3, 5, 8) / 10).to(dtype)

    unit = max(1e-6, torch.finfo(dtype).eps if dtype != torch.float32 else 0.0)
    torch.testing.assert_close(ours(x), theirs(x), rtol=unit, atol=unit)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())


def test_trains_like_torchs():
    ours, theirs = nn.RMSNorm(8), torch.nn.RMSNorm(8)
    x = torch.randn(3, 8)
    for module in (ours, theirs):
        module(x).sin().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_weight_starts_at_one_and_resets():
    module = nn.RMSNorm(4)
    assert torch.equal(module.weight, torch.ones(4))
    torch.nn.init.zeros_(module.weight)
    module.reset_parameters()
    assert torch.equal(module.weight, torch.ones(4))


def test_device_and_dtype_are_the_weights():
    module = nn.RMSNorm(4, device="meta", dtype=torch.float32)
    assert module.weight.device.type == "meta"
    assert module(torch.empty(2, 4, device="meta")).shape == (2, 4)


def test_copies_and_pickles():
    module = nn.RMSNorm(4, eps=1e-3)
    x = torch.randn(2, 4)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), module(x))


def test_refuses_no_dimension():
    with pytest.raises(ValueError, match=r"normalized_shape is \(\)"):
        nn.RMSNorm([])


def test_rounds_before_the_weight_where_asked():
    x = torch.randn(64, 256).bfloat16()
    module = nn.RMSNorm(256, eps=1e-6, dtype=torch.bfloat16, cast_before_weight=True)
    torch.nn.init.normal_(module.weight)
    expected = ops.rmsnorm(x, module.weight, cast_before_weight=True)
    assert torch.equal(module(x), expected)
    assert not torch.equal(module(x), ops.rmsnorm(x, module.weight))


def test_length_and_dtype_errors_are_the_ops():
    with pytest.raises(RuntimeError, match=r"weight has shape \(4,\), x has shape \(2, 5\)"):
        nn.RMSNorm(4)(torch.randn(2, 5))
    with pytest.raises(RuntimeError, match=r"x has shape \(2, 5\); its last dimensions must be"):
        nn.RMSNorm((2, 4))(torch.randn(2, 5))
    with pytest.raises(RuntimeError, match=r"x has dtype torch\.float64"):
        nn.RMSNorm(4)(torch.randn(2, 4, dtype=torch.float64))
