# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""common_prefix, count_eos and vector_add."""

from __future__ import annotations

import array as std_array
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servecore import common_prefix, count_eos, vector_add

INT64 = st.integers(-(2**63), 2**63 - 1)
FEW_TOKENS = st.lists(st.sampled_from([0, 1, 2**40]), max_size=40)
FORMS = [list, tuple, lambda v: np.array(v, dtype=np.int64), lambda v: std_array.array("q", v)]


def slow_common_prefix(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@given(FEW_TOKENS, FEW_TOKENS, st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_common_prefix_of_anything(a: list[int], b: list[int], form_a: Any, form_b: Any) -> None:
    assert common_prefix(form_a(a), form_b(b)) == slow_common_prefix(a, b)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("dtypes", [("i4", "i4"), ("i8", "i8"), ("i4", "i8"), ("i8", "i4")])
def test_common_prefix_at_every_place(length: int, dtypes: tuple[str, str]) -> None:
    a = np.arange(length, dtype=dtypes[0])
    b = np.arange(length + 3, dtype=dtypes[1])
    assert common_prefix(a, b) == common_prefix(b, a) == length
    for place in range(0, length, max(1, length // 20)):
        changed = b.copy()
        changed[place] += 1
        assert common_prefix(a, changed) == place


def test_common_prefix_does_not_truncate() -> None:
    a = np.array([5], dtype=np.int32)
    assert common_prefix(a, np.array([5 + 2**32])) == 0
    assert common_prefix(a, [5 + 2**32]) == 0


@given(st.lists(INT64, max_size=40), INT64, st.sampled_from(FORMS))
def test_count_eos_of_anything(tokens: list[int], eos: int, form: Any) -> None:
    assert count_eos(form([*tokens, eos]), eos) == tokens.count(eos) + 1


def test_count_eos_does_not_truncate() -> None:
    tokens = np.array([5, 5], dtype=np.int32)
    assert count_eos(tokens, 5) == 2
    assert count_eos(tokens, 5 + 2**32) == 0


@pytest.mark.parametrize(
    ("tokens", "eos", "error", "found"),
    [
        ([1], True, TypeError, "eos: .* bool True"),
        ([1], 1.0, TypeError, "eos: .* float 1.0"),
        ([1], 2**63, ValueError, f"eos is int {2**63}"),
        ([1.5], 1, TypeError, r"tokens\[0\]: .* float 1.5"),
        ([2**63], 1, ValueError, r"tokens\[0\] is int"),
        (np.array([1.0]), 1, TypeError, "float64"),
        (np.array([[1]]), 1, ValueError, "expected 1 dimension, got 2"),
        ("abc", 1, TypeError, "str 'abc'"),
    ],
)
def test_count_eos_errors(tokens: Any, eos: Any, error: type[Exception], found: str) -> None:
    with pytest.raises(error, match=found):
        count_eos(tokens, eos)


def test_common_prefix_errors_name_the_argument() -> None:
    with pytest.raises(TypeError, match=r"a\[1\]: .* bool True"):
        common_prefix([1, True], [1])
    with pytest.raises(TypeError, match=r"b: .* float64"):
        common_prefix([1], np.array([1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vector_add_of_arrays_is_an_array_of_their_dtype(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(1001).astype(dtype)
    b = rng.standard_normal(2002).astype(dtype)
    total = vector_add(a, b[::2])
    assert isinstance(total, np.ndarray)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total, a + b[::2])
    np.testing.assert_array_equal(vector_add(a[::-1], a), a[::-1] + a)


@given(st.lists(st.tuples(st.floats(), st.floats())))
def test_vector_add_of_lists_is_a_list(pairs: list[tuple[float, float]]) -> None:
    total = vector_add([a for a, _ in pairs], tuple(b for _, b in pairs))
    assert isinstance(total, list)
    for value, (a, b) in zip(total, pairs, strict=True):
        assert value == a + b or (math.isnan(value) and math.isnan(a + b))


def test_vector_add_of_ints_that_are_floats() -> None:
    assert vector_add([1, 2, 2**60], [10, 20.5, 0]) == [11.0, 22.5, float(2**60)]


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 10**400])
def test_vector_add_never_changes_a_value(value: int) -> None:
    with pytest.raises(ValueError, match=r"b\[1\]: int .*float64"):
        vector_add([1.0, 1.0], [1.0, value])


@pytest.mark.parametrize("lengths", [(0, 1), (3, 2)])
def test_vector_add_of_unequal_lengths(lengths: tuple[int, int]) -> None:
    found = rf"a has {lengths[0]} .*b has {lengths[1]}\b"
    with pytest.raises(ValueError, match=found):
        vector_add([0.0] * lengths[0], [0.0] * lengths[1])
    with pytest.raises(ValueError, match=found):
        vector_add(np.zeros(lengths[0]), np.zeros(lengths[1]))


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ([1.0], np.zeros(1), "a is a sequence and b is a float64 array"),
        (np.zeros(1, "f4"), [1.0], "a is a float32 array and b is a sequence"),
        (np.zeros(1, "f4"), np.zeros(1), "a is a float32 array and b is a float64 array"),
        (np.zeros(1, "i4"), np.zeros(1, "i4"), "float32 or float64.* got one of int32"),
        (np.zeros(1, "f2"), np.zeros(1, "f2"), "got one of float16"),
        ([True], [1.0], r"a\[0\]: .* bool True"),
        ([1.0], ["1"], r"b\[0\]: .* str '1'"),
        ("ab", "cd", "str 'ab'"),
    ],
)
def test_vector_add_of_other_kinds(a: Any, b: Any, found: str) -> None:
    with pytest.raises(TypeError, match=found):
        vector_add(a, b)
