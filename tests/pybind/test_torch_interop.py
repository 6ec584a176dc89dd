# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""CPU tensors of torch as arguments: in place, by their strides."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from kv_support import unchanged
from servecore import BlockPool, PrefixCache, common_prefix, count_eos, vector_add


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_tensors_of_any_stride(dtype: torch.dtype) -> None:
    matrix = torch.arange(24, dtype=dtype).reshape(4, 6)
    for tensor in (matrix[1], matrix[:, 2], matrix[2, ::3], matrix[0, :0], matrix.T[5]):
        expected = tensor.tolist()
        assert common_prefix(tensor, expected) == len(expected)
        assert common_prefix(tensor, [*expected, 1]) == len(expected)
    assert count_eos(torch.tensor(7, dtype=dtype).expand(1000), 7) == 1000


def test_a_tensor_is_read_in_place() -> None:
    tokens = torch.arange(1000)
    shared = tokens.numpy()
    shared[10] = -1
    assert count_eos(tokens, -1) == 1


def test_a_tensor_is_let_go_after_the_call() -> None:
    tokens = torch.arange(10)
    before = sys.getrefcount(tokens)
    count_eos(tokens, 1)
    with pytest.raises(ValueError, match="expected 1 dimension, got 2"):
        count_eos(tokens.reshape(2, 5), 1)
    assert sys.getrefcount(tokens) == before


def test_tensors_for_pool_and_cache() -> None:
    pool = BlockPool(4)
    cache = PrefixCache(pool, 2)
    assert pool.allocate_many(torch.tensor([2, 1])) == [[0, 1], [2]]
    pool.retain_array(torch.tensor([0, 1], dtype=torch.int32))
    pool.release_array(torch.tensor([1, 0]))
    tokens = torch.arange(5, dtype=torch.int32)
    assert cache.insert(tokens, torch.tensor([0, 1])).num_new_tokens == 4
    with cache.match(tokens.to(torch.int64)) as match:
        assert torch.from_numpy(match.block_ids).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vector_add_of_tensors(dtype: torch.dtype) -> None:
    a = torch.randn(100, dtype=dtype)
    b = torch.randn(300, dtype=dtype)[::3]
    total = vector_add(a, b)
    assert isinstance(total, np.ndarray)
    assert torch.equal(torch.from_numpy(total), a + b)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2),
        torch.zeros(2, dtype=torch.bool),
        torch.zeros(2, dtype=torch.int16),
        torch.zeros(2, dtype=torch.uint8),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.zeros(2, dtype=torch.complex64),
    ],
)
def test_other_dtypes_are_type_errors(tensor: Any) -> None:
    pool = BlockPool(4)
    pool.allocate(2)
    with unchanged(pool), pytest.raises(TypeError, match=r"ids: expected .* int32 or int64"):
        pool.release_array(tensor)


def test_a_tensor_without_memory_is_an_error() -> None:
    with pytest.raises((BufferError, RuntimeError, TypeError, ValueError)):
        count_eos(torch.zeros(2, dtype=torch.int32, device="meta"), 0)
