# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""servecore.nn.RMSNorm beside torch.nn.RMSNorm."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from servecore import nn


@pytest.mark.parametrize("shape", [8, [8], (8,), torch.Size([8])], ids=str)
@pytest.mark.parametrize("eps", [None, 1e-5])
@pytest.mark.parametrize("affine", [True, False])
def test_replaces_torchs(shape, eps, affine):
    ours = nn.RMSNorm(shape, eps=eps, elementwise_affine=affine)
    theirs = torch.nn.RMSNorm(shape, eps=eps, elementwise_affine=affine)
    if affine:
        torch.nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 5, 8)

    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)
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


@pytest.mark.parametrize("shape", [(2, 8), []])
def test_refuses_more_or_fewer_than_one_dimension(shape):
    with pytest.raises(ValueError, match=rf"has {len(shape)} dimensions; allowed is 1"):
        nn.RMSNorm(shape)


def test_length_and_dtype_errors_are_the_ops():
    with pytest.raises(RuntimeError, match=r"weight has shape \(4,\), x has shape \(2, 5\)"):
        nn.RMSNorm(4)(torch.randn(2, 5))
    with pytest.raises(RuntimeError, match=r"x has dtype torch\.float64"):
        nn.RMSNorm(4)(torch.randn(2, 4, dtype=torch.float64))
