# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""BlockPool, an array at a time."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from kv_support import unchanged
from servecore import BlockPool


def array(*values: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def test_allocate_array_gives_what_allocate_gives() -> None:
    one, other = BlockPool(6), BlockPool(6)
    for n in (2, 0, 3, 2):
        ids = one.allocate_array(n)
        expected = other.allocate(n)
        if expected is None:
            assert ids is None
        else:
            assert ids is not None
            assert ids.dtype == np.int32
            assert ids.shape == (n,)
            assert ids.tolist() == expected
    assert one.stats() == other.stats()


def test_allocate_many_array_gives_lists_and_offsets() -> None:
    pool = BlockPool(8)
    result = pool.allocate_many_array([2, 0, 3])
    assert result is not None
    ids, offsets = result
    assert ids.dtype == offsets.dtype == np.int32
    assert ids.tolist() == [0, 1, 2, 3, 4]
    assert offsets.tolist() == [0, 2, 2, 5]


def test_allocate_many_array_of_nothing() -> None:
    result = BlockPool(1).allocate_many_array([])
    assert result is not None
    assert [part.tolist() for part in result] == [[], [0]]


def test_allocate_many_array_is_all_or_nothing() -> None:
    pool = BlockPool(4)
    with unchanged(pool):
        assert pool.allocate_many_array(np.array([3, 2])) is None


def test_results_own_their_memory() -> None:
    pool = BlockPool(1000)
    ids = pool.allocate_array(1000)
    assert ids is not None
    assert not ids.flags.owndata  # it is the capsule that does
    assert type(ids.base).__name__ == "PyCapsule"
    assert ids.flags.writeable
    view = ids[::-1]
    del pool, ids
    gc.collect()
    np.empty(1000, dtype=np.int32).fill(-1)
    assert view.tolist() == list(range(999, -1, -1))


def test_writing_to_a_result_changes_nothing_else() -> None:
    pool = BlockPool(4)
    ids = pool.allocate_array(2)
    assert ids is not None
    with unchanged(pool):
        ids[:] = 77
    assert pool.allocate(1) == [2]


def test_a_repeated_id_counts_each_time() -> None:
    pool = BlockPool(4)
    pool.allocate(2)
    pool.retain_array(array(0, 1, 0))
    assert [pool.ref_count(0), pool.ref_count(1)] == [3, 2]
    pool.release_array(array(0, 0, 0, 1))
    assert [pool.ref_count(0), pool.ref_count(1)] == [0, 1]
    pool.check()


def test_the_last_id_of_release_array_is_the_first_reused() -> None:
    pool = BlockPool(3)
    pool.allocate(3)
    pool.release_array(array(0, 2, 1))
    assert pool.allocate(3) == [1, 2, 0]


def test_empty_arrays_do_nothing() -> None:
    pool = BlockPool(3)
    with unchanged(pool):
        pool.retain_array(array())
        pool.release_array(array())


@pytest.mark.parametrize("method", ["retain_array", "release_array"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ([0, 1, 4], IndexError),
        ([-1, 0], IndexError),
        ([0, 3, 1], RuntimeError),
    ],
)
def test_one_bad_id_anywhere_and_nothing_changes(
    method: str, dtype: Any, ids: list[int], error: type[Exception]
) -> None:
    pool = BlockPool(4)
    pool.allocate(3)
    pool.retain(1)
    with unchanged(pool), pytest.raises(error):
        getattr(pool, method)(np.array(ids, dtype=dtype))


def test_a_double_release_within_one_call_changes_nothing() -> None:
    pool = BlockPool(4)
    pool.allocate(3)
    with unchanged(pool), pytest.raises(RuntimeError, match="block 1"):
        pool.release_array(array(0, 1, 2, 1))
    assert pool.allocate(1) == [3]


@pytest.mark.parametrize("method", ["retain_array", "release_array"])
def test_ids_beyond_int32_are_not_truncated(method: str) -> None:
    pool = BlockPool(4)
    pool.allocate(4)
    with unchanged(pool), pytest.raises(IndexError, match=str(2**32)):
        getattr(pool, method)(np.array([2**32], dtype=np.int64))


@pytest.mark.parametrize("method", ["retain_array", "release_array"])
def test_a_list_is_refused_with_advice(method: str) -> None:
    pool = BlockPool(4)
    pool.allocate(4)
    with unchanged(pool), pytest.raises(TypeError, match=r"ids: .* got list; numpy.array"):
        getattr(pool, method)([0, 1])


def test_negative_counts_in_arrays() -> None:
    pool = BlockPool(4)
    with unchanged(pool), pytest.raises(ValueError, match=r"counts\[1\] is -1"):
        pool.allocate_many_array(array(1, -1))
    with unchanged(pool), pytest.raises(ValueError, match="-1"):
        pool.allocate_array(-1)
