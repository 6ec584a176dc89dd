# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""The seeds' own drivers: what they print is what we promise."""

from __future__ import annotations

import numpy as np
import pytest

import servecore


def test_pool_driver() -> None:
    pool = servecore.BlockPool(8)
    blocks = pool.allocate(3)
    assert blocks == [0, 1, 2]
    assert repr(pool) == "<BlockPool free=5>"
    assert pool.allocate(10) is None
    for block in blocks:
        pool.release(block)
    with pytest.raises(RuntimeError, match="block 0"):
        pool.release(blocks[0])
    assert repr(pool) == "<BlockPool free=8>"


def test_functions_driver() -> None:
    assert servecore.common_prefix([1, 2, 3, 4], [1, 2, 9]) == 2
    assert servecore.count_eos(np.array([5, 2, 7, 2, 2], dtype=np.int32), eos=2) == 3


def test_vector_add_driver() -> None:
    assert servecore.vector_add([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]) == [11, 22, 33]
    with pytest.raises(ValueError, match=r"a has 2 .* b has 3"):
        servecore.vector_add([1.0, 2.0], [1.0, 2.0, 3.0])


def test_allocate_many_driver() -> None:
    pool = servecore.BlockPool(8)
    assert pool.allocate_many([2, 1]) == [[0, 1], [2]]
    assert pool.allocate_many([3, 3]) is None
    assert pool.num_free == 5
