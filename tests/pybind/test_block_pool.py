# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""BlockPool, one item at a time."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

from kv_support import unchanged
from servecore import BlockPool

HUGE = 10**30


def test_a_fresh_pool_counts_up() -> None:
    pool = BlockPool(4)
    assert pool.allocate(2) == [0, 1]
    assert pool.allocate(2) == [2, 3]
    assert (pool.num_free, pool.num_blocks) == (0, 4)


def test_the_last_freed_is_the_first_reused() -> None:
    pool = BlockPool(4)
    pool.allocate(3)
    pool.release(1)
    pool.release(0)
    assert pool.allocate(3) == [0, 1, 3]


def test_too_few_blocks_give_none_and_take_nothing() -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    with unchanged(pool):
        assert pool.allocate(4) is None


def test_allocate_nothing() -> None:
    pool = BlockPool(0)
    with unchanged(pool):
        assert pool.allocate(0) == []
        assert pool.allocate(1) is None
        assert pool.allocate_many([]) == []


def test_a_block_is_free_after_as_many_releases_as_references() -> None:
    pool = BlockPool(2)
    pool.allocate(1)
    pool.retain(0)
    assert pool.ref_count(0) == 2
    pool.release(0)
    assert (pool.ref_count(0), pool.num_free) == (1, 1)
    pool.release(0)
    assert (pool.ref_count(0), pool.num_free) == (0, 2)
    pool.check()


def test_allocate_many_gives_a_list_for_each_count() -> None:
    pool = BlockPool(6)
    assert pool.allocate_many([2, 0, 3]) == [[0, 1], [], [2, 3, 4]]
    assert pool.allocate_many(np.array([1])) == [[5]]


def test_allocate_many_is_all_or_nothing() -> None:
    pool = BlockPool(4)
    with unchanged(pool):
        assert pool.allocate_many([3, 2]) is None


def test_stats() -> None:
    pool = BlockPool(5)
    pool.allocate(3)
    pool.retain(0)
    pool.release(1)
    assert pool.stats() == {
        "num_blocks": 5,
        "num_free": 3,
        "num_used": 2,
        "num_idle": 0,
        "total_refs": 3,
        "peak_used": 3,
        "allocated_blocks": 3,
        "freed_blocks": 1,
    }


@pytest.mark.parametrize("integer", [np.int32(1), np.int64(1), np.uint8(1), np.array(1)])
def test_integers_of_numpy_are_ints(integer: Any) -> None:
    pool = BlockPool(np.int64(2))
    assert pool.allocate(integer) == [0]
    pool.allocate(1)
    pool.retain(integer)
    pool.release(integer)
    assert pool.ref_count(integer) == 1


@pytest.mark.parametrize("method", ["retain", "release", "ref_count"])
@pytest.mark.parametrize("block", [-1, 4, 2**31, 2**32, -(2**63), 2**63, HUGE, -HUGE])
def test_a_foreign_id_is_an_index_error(method: str, block: int) -> None:
    pool = BlockPool(4)
    pool.allocate(4)
    with unchanged(pool), pytest.raises(IndexError, match=rf"{block}.* 0 to "):
        getattr(pool, method)(block)


@pytest.mark.parametrize("method", ["retain", "release"])
def test_a_free_block_is_a_runtime_error(method: str) -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    with unchanged(pool), pytest.raises(RuntimeError, match=r"block 2.*free"):
        getattr(pool, method)(2)


@pytest.mark.parametrize("method", ["retain", "release", "ref_count", "allocate"])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        (True, "bool True"),
        (False, "bool False"),
        (1.0, "float 1.0"),
        ("1", "str '1'"),
        (None, "NoneType"),
        ([1], "list"),
        (np.float32(1), "float32"),
        (np.bool_(True), "bool"),
    ],
)
def test_what_is_no_int_is_a_type_error(method: str, value: Any, found: str) -> None:
    pool = BlockPool(4)
    pool.allocate(2)
    with unchanged(pool), pytest.raises(TypeError, match=f"expected an int, got .*{found}"):
        getattr(pool, method)(value)


@pytest.mark.parametrize("n", [-1, -(2**63), 2**31, 2**63, HUGE, -HUGE])
def test_a_count_out_of_range_is_a_value_error(n: int) -> None:
    pool = BlockPool(4)
    with unchanged(pool), pytest.raises(ValueError, match=str(n)):
        pool.allocate(n)
    with pytest.raises(ValueError, match=str(n)):
        BlockPool(n)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([1, -1], r"counts\[1\] is -1"),
        ([2**31 - 1, 1], r"counts\[1\]"),
        ([2**31], "2147483648"),
        ([2**62, 2**62], str(2**62)),
        ([1, HUGE], rf"counts\[1\] is int {HUGE}"),
        ([-HUGE], rf"counts\[0\] is int -{HUGE}"),
    ],
)
def test_counts_out_of_range_are_value_errors(counts: list[int], found: str) -> None:
    pool = BlockPool(4)
    for method in (pool.allocate_many, pool.allocate_many_array):
        with unchanged(pool), pytest.raises(ValueError, match=found):
            method(counts)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ([1, True], r"counts\[1\]: expected an int, got bool True"),
        ([1.0], r"counts\[0\]: expected an int, got float 1.0"),
        (["1"], r"counts\[0\]: expected an int, got str '1'"),
        ("11", "counts: expected a 1-D array .* got str '11'"),
        (1, "counts: expected a 1-D array .* got int 1"),
        (None, "counts: expected a 1-D array .* got NoneType"),
        ({1: 1}, "counts: expected a 1-D array .* got dict"),
        (np.array([1.0]), "counts: .* got one of float64"),
    ],
)
def test_counts_that_are_no_ints_are_type_errors(counts: Any, found: str) -> None:
    pool = BlockPool(4)
    with unchanged(pool), pytest.raises(TypeError, match=found):
        pool.allocate_many(counts)


def test_an_int_of_too_many_digits_to_print_is_an_index_error_all_the_same() -> None:
    with pytest.raises(IndexError, match="block is int"):
        BlockPool(1).retain(10**5000)


def test_an_index_method_that_raises_is_heard() -> None:
    class Broken:
        def __index__(self) -> int:
            raise ZeroDivisionError("mine")

    pool = BlockPool(1)
    with unchanged(pool), pytest.raises(ZeroDivisionError, match="mine"):
        pool.allocate(Broken())


def test_an_object_without_init_is_a_type_error() -> None:
    bare = BlockPool.__new__(BlockPool)
    for call in (lambda: bare.num_free, lambda: bare.allocate(1), lambda: repr(bare)):
        with pytest.raises(TypeError, match="__init__"):
            call()


def test_a_subclass_that_is_used_before_its_base_is_made() -> None:
    class Eager(BlockPool):
        def __init__(self) -> None:
            with pytest.raises(TypeError, match=r"Eager.__init__\(\)"):
                self.allocate(1)
            super().__init__(2)

    assert Eager().allocate(1) == [0]


def test_a_second_init_changes_nothing() -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    with unchanged(pool):
        pool.__init__(9)  # type: ignore[misc]


def test_self_of_another_class_is_a_type_error() -> None:
    for impostor in (None, 3, object(), "pool"):
        with pytest.raises(TypeError):
            BlockPool.allocate(impostor, 1)  # type: ignore[arg-type]


def test_a_pool_is_neither_copied_nor_pickled() -> None:
    pool = BlockPool(1)
    for refuse in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            refuse(pool)


def test_a_pool_is_freed_when_the_last_name_goes() -> None:
    class Pool(BlockPool):
        pass

    pool = Pool(4)
    gone = weakref.ref(pool)
    pool.allocate(2)
    del pool
    gc.collect()
    assert gone() is None
