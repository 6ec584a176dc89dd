# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""How arrays come in: by their strides, in place, or not at all.

count_eos and common_prefix stand for every function that takes an array: all of them read it by
the same code.
"""

from __future__ import annotations

import array as std_array
import ctypes
import re
import sys
from typing import Any

import numpy as np
import pytest

from servecore import BlockPool, common_prefix, count_eos

DTYPES = [np.int32, np.int64]
FOREIGN = ">" if sys.byteorder == "little" else "<"
NATIVE = "<" if sys.byteorder == "little" else ">"


class DLPackOnly:
    """An array that shows itself through DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.asked_for: list[dict[str, Any]] = []

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.asked_for.append(kwargs)
        return self.array.__dlpack__(**kwargs)


class OldDLPack(DLPackOnly):
    """The same, from before DLPack 1.0."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


def same(values: Any, expected: list[int]) -> bool:
    return common_prefix(values, expected) == len(expected) == common_prefix(values, [*expected, 0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, 7])
@pytest.mark.parametrize("size", [0, 1, 2, 20])
def test_any_stride(dtype: Any, step: int, size: int) -> None:
    values = np.arange(100, 100 + size, dtype=dtype)[::step]
    assert same(values, values.tolist())


@pytest.mark.parametrize("dtype", DTYPES)
def test_stride_zero(dtype: Any) -> None:
    assert count_eos(np.broadcast_to(dtype(7), (100000,)), 7) == 100000


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_column_of_a_matrix(dtype: Any) -> None:
    matrix = np.arange(12, dtype=dtype).reshape(3, 4)
    assert same(matrix[:, 1], [1, 5, 9])
    assert same(matrix.T[2], [2, 6, 10])


@pytest.mark.parametrize("dtype", DTYPES)
def test_read_only_memory(dtype: Any) -> None:
    values = np.arange(5, dtype=dtype)
    values.flags.writeable = False
    assert same(values, [0, 1, 2, 3, 4])
    assert same(memoryview(values.tobytes()).cast(values.dtype.char), [0, 1, 2, 3, 4])


def test_input_is_not_written_to() -> None:
    pool = BlockPool(8)
    pool.allocate(8)
    ids = np.arange(8, dtype=np.int32)
    pool.retain_array(ids)
    pool.release_array(ids[::-1])
    assert ids.tolist() == list(range(8))


@pytest.mark.parametrize(
    "fields",
    [
        [("x", "i4"), ("t", "i4"), ("y", "i4")],  # 3 items apart
        [("x", "i1"), ("t", "i4")],  # unaligned, 5 bytes apart
        [("x", "i8"), ("t", "i8")],
        [("x", "i2"), ("t", "i8")],
        [("t", "i8"), ("x", "i4")],  # aligned at first only, 12 bytes apart
    ],
)
def test_fields_of_structured_arrays(fields: list[tuple[str, str]]) -> None:
    records = np.zeros(6, dtype=fields)
    records["t"] = [3, 1, 4, 1, 5, -9]
    for name in records.dtype.names or ():
        if name != "t":
            records[name] = -1
    assert same(records["t"], [3, 1, 4, 1, 5, -9])
    assert same(records["t"][::-2], [-9, 1, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_unaligned_memory(dtype: Any) -> None:
    raw = bytearray(1 + 3 * np.dtype(dtype).itemsize)
    values = np.frombuffer(raw, dtype=dtype, offset=1)
    values[:] = [1, -2, 3]
    assert not values.flags.aligned
    assert same(values, [1, -2, 3])


@pytest.mark.parametrize(
    "make",
    [
        lambda: std_array.array("i", [4, 5, 6]),
        lambda: std_array.array("l", [4, 5, 6]),
        lambda: std_array.array("q", [4, 5, 6]),
        lambda: memoryview(std_array.array("q", [0, 4, 0, 5, 0, 6]))[1::2],
        lambda: np.array([6, 5, 4], dtype=np.int32).data[::-1],
        lambda: (ctypes.c_int32 * 3)(4, 5, 6),
        lambda: (ctypes.c_int64 * 3)(4, 5, 6),
        lambda: np.array([4, 5, 6], dtype=np.longlong),
        lambda: np.array([4, 5, 6], dtype=NATIVE + "i4"),
    ],
)
def test_the_buffer_protocol(make: Any) -> None:
    assert same(make(), [4, 5, 6])


def test_a_buffer_is_let_go_after_the_call() -> None:
    values = std_array.array("q", [1, 2])
    assert count_eos(values, 1) == 1
    values.append(3)  # BufferError while anybody looks at it
    with pytest.raises(ValueError, match="dimension"):
        count_eos(memoryview(values).cast("B").cast("q", (3, 1)), 1)
    values.append(4)


def test_an_array_is_let_go_after_the_call() -> None:
    values = np.arange(3)
    before = sys.getrefcount(values)
    count_eos(values, 1)
    with pytest.raises(TypeError):
        count_eos(values, "x")  # type: ignore[arg-type]
    assert sys.getrefcount(values) == before


@pytest.mark.parametrize("wrapper", [DLPackOnly, OldDLPack])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack(wrapper: type[DLPackOnly], dtype: Any) -> None:
    values = np.arange(10, dtype=dtype)
    assert same(wrapper(values), list(range(10)))
    assert same(wrapper(values[::-3]), [9, 6, 3, 0])
    assert same(wrapper(values[:0]), [])


def test_dlpack_is_let_go_after_the_call() -> None:
    values = np.arange(10)
    before = sys.getrefcount(values)
    for wrapper in (DLPackOnly(values), OldDLPack(values)):
        count_eos(wrapper, 1)
        with pytest.raises(TypeError):
            count_eos(wrapper, "x")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="dimension"):
            count_eos(DLPackOnly(values.reshape(2, 5)), 1)
        del wrapper
    assert sys.getrefcount(values) == before


def test_a_new_dlpack_exporter_is_asked_for_a_version_that_we_read() -> None:
    wrapper = DLPackOnly(np.arange(3))
    count_eos(wrapper, 1)
    assert wrapper.asked_for == [{"max_version": (1, 0)}]


def test_errors_of_a_dlpack_exporter_are_heard() -> None:
    class Broken:
        def __dlpack__(self, **kwargs: Any) -> Any:
            raise BufferError("mine")

    with pytest.raises(BufferError, match="mine"):
        count_eos(Broken(), 1)


def test_a_dlpack_exporter_that_gives_something_else() -> None:
    class Wrong:
        def __dlpack__(self, **kwargs: Any) -> Any:
            return 3

    with pytest.raises(ValueError, match="PyCapsule"):
        count_eos(Wrong(), 1)


def test_memory_of_another_device_is_a_type_error() -> None:
    # No accelerator is needed: the device is looked at before the memory.
    class Device(ctypes.Structure):
        _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device", Device),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
            ("manager", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        )

    tensor = Tensor(None, Device(2, 0), 1, 0, 32, 1, ctypes.pointer(ctypes.c_int64(3)))
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class OnAnotherDevice:
        def __dlpack__(self) -> Any:
            return new_capsule(ctypes.addressof(tensor), b"dltensor", None)

    with pytest.raises(TypeError, match=r"tokens: expected memory of the CPU, .* device type 2"):
        count_eos(OnAnotherDevice(), 1)


@pytest.mark.parametrize(
    "dtype", ["f4", "f8", "f2", "?", "i1", "i2", "u1", "u2", "u4", "u8", "c8", "O", "M8[s]", "S4"]
)
def test_another_dtype_is_a_type_error(dtype: str) -> None:
    values = np.zeros(3, dtype=dtype)
    found = r"tokens: expected .* int32 or int64 .* got one of "
    with pytest.raises(TypeError, match=found + re.escape(str(values.dtype))):
        count_eos(values, 0)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("b", "int8"),
        ("h", "int16"),
        ("B", "uint8"),
        ("I", "uint32"),
        ("Q", "uint64"),
        ("f", "float32"),
        ("d", "float64"),
    ],
)
def test_another_dtype_in_a_buffer_is_a_type_error(code: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"got one of {name}"):
        count_eos(std_array.array(code, [0]), 0)


def test_bytes_are_no_tokens() -> None:
    with pytest.raises(TypeError, match="got one of uint8"):
        count_eos(b"abc", 97)


@pytest.mark.parametrize("dtype", ["f4", "u4", "?", "c8"])
def test_another_dtype_in_dlpack_is_a_type_error(dtype: str) -> None:
    with pytest.raises(TypeError, match="got one of"):
        count_eos(DLPackOnly(np.zeros(3, dtype=dtype)), 0)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_a_foreign_byte_order_is_a_type_error(dtype: str) -> None:
    values = np.zeros(3, dtype=FOREIGN + dtype)
    with pytest.raises(TypeError, match=f"native byte order, got one of {FOREIGN}{dtype}"):
        count_eos(values, 0)
    with pytest.raises(TypeError, match="foreign byte order"):
        count_eos(values.data, 0)


@pytest.mark.parametrize("shape", [(), (1, 1), (2, 3), (0, 0), (1, 1, 1)])
def test_another_number_of_dimensions_is_a_value_error(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, dtype=np.int32)
    for form in (values, values.data, DLPackOnly(values)):
        with pytest.raises(ValueError, match=f"expected 1 dimension, got {len(shape)}"):
            count_eos(form, 0)


def test_a_scalar_of_numpy_is_no_array() -> None:
    with pytest.raises(ValueError, match="expected 1 dimension, got 0"):
        count_eos(np.int64(3), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values", [range(4), [0, 1, 2, 3], (0, 1, 2, 3), [np.int8(i) for i in range(4)]]
)
def test_sequences_where_they_are_taken(values: Any) -> None:
    assert same(values, [0, 1, 2, 3])


def test_a_sequence_that_fails_is_heard() -> None:
    class Broken(list[int]):
        def __iter__(self) -> Any:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        count_eos(Broken([1]), 1)


@pytest.mark.parametrize("values", [{1, 2}, {1: 2}, iter([1]), object(), 1, 1.5, None])
def test_what_is_no_sequence_and_no_array_is_a_type_error(values: Any) -> None:
    with pytest.raises(TypeError, match="tokens: expected a 1-D array of int32 or int64, got"):
        count_eos(values, 1)
