// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/array_args.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/strided_span.h"
#include "cc/kv/token_buffer.h"
#include "cc/pybind/constructed.h"
#include "cc/pybind/dlpack_abi.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

[[noreturn]] void ThrowDtype(const char* name, const std::string& found,
                             NumberKind kind) {
  throw py::type_error(std::string(name) + ": expected a 1-D array of " +
                       kind.dtypes + " in native byte order, got one of " +
                       found);
}

[[noreturn]] void ThrowNotAnArray(const char* name, py::handle value,
                                  NumberKind kind) {
  throw py::type_error(std::string(name) + ": expected a 1-D array of " +
                       kind.dtypes + ", got " + Describe(value) +
                       "; numpy.array(values, dtype) makes one");
}

void CheckOneDimension(const char* name, std::int64_t ndim) {
  if (ndim != 1) {
    throw py::value_error(std::string(name) + ": expected 1 dimension, got " +
                          std::to_string(ndim));
  }
}

bool IsAccepted(char letter, std::int64_t item_size, NumberKind kind) {
  return letter == kind.letter && (item_size == 4 || item_size == 8);
}

// A format of the buffer protocol: an optional mark of byte order and size,
// then one letter for a number.
struct BufferFormat {
  bool native_order = true;
  char letter = 0;  // as in numpy.dtype.kind; 0 for what is no plain number
};

BufferFormat ParseFormat(std::string_view format) {
  BufferFormat result;
  if (!format.empty() &&
      std::string_view("@=<>!").find(format[0]) != std::string_view::npos) {
    constexpr bool kLittle = std::endian::native == std::endian::little;
    const bool big = format[0] == '>' || format[0] == '!';
    if (format[0] == '<' || big) result.native_order = big != kLittle;
    format.remove_prefix(1);
  }
  if (format.size() != 1) return result;
  const char code = format[0];
  if (std::string_view("bhilqn").find(code) != std::string_view::npos) {
    result.letter = 'i';
  } else if (std::string_view("BHILQN").find(code) != std::string_view::npos) {
    result.letter = 'u';
  } else if (std::string_view("efdg").find(code) != std::string_view::npos) {
    result.letter = 'f';
  } else if (code == '?') {
    result.letter = 'b';
  }
  return result;
}

// "int16", or for what is no plain number its own name.
std::string DtypeName(char letter, std::int64_t bits, std::string_view other) {
  switch (letter) {
    case 'i':
      return "int" + std::to_string(bits);
    case 'u':
      return "uint" + std::to_string(bits);
    case 'f':
      return "float" + std::to_string(bits);
    case 'b':
      return "bool";
    default:
      return std::string(other);
  }
}

char LetterOf(const dlpack::DLDataType& dtype) {
  if (dtype.lanes != 1) return 0;
  switch (dtype.code) {
    case dlpack::kDLInt:
      return 'i';
    case dlpack::kDLUInt:
      return 'u';
    case dlpack::kDLFloat:
      return 'f';
    case dlpack::kDLBool:
      return 'b';
    default:
      return 0;
  }
}

RawArray ReadTensor(const dlpack::DLTensor& tensor, const char* name,
                    NumberKind kind) {
  if (tensor.device.device_type != dlpack::kDLCPU) {
    throw py::type_error(
        std::string(name) +
        ": expected memory of the CPU, got a tensor on DLPack device type " +
        std::to_string(tensor.device.device_type) + "; copy it to the CPU");
  }
  const char letter = LetterOf(tensor.dtype);
  if (!IsAccepted(letter, tensor.dtype.bits / 8, kind)) {
    ThrowDtype(
        name,
        DtypeName(letter, tensor.dtype.bits,
                  "DLPack type code " + std::to_string(tensor.dtype.code)),
        kind);
  }
  CheckOneDimension(name, tensor.ndim);
  RawArray raw;
  raw.size = tensor.shape[0];
  raw.item_size = tensor.dtype.bits / 8;
  raw.byte_stride =
      (tensor.strides == nullptr ? 1 : tensor.strides[0]) * raw.item_size;
  if (raw.size > 0) {
    raw.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  }
  return raw;
}

// Takes the tensor of type T out of a capsule of that name: the consumer marks
// the capsule as used and owes the tensor a call of its deleter.
template <class T>
T* TakeTensor(const py::object& capsule, const char* capsule_name,
              const char* used_name) {
  auto* tensor =
      static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), capsule_name));
  if (tensor == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) {
    throw py::error_already_set();
  }
  return tensor;
}

template <class T>
void DeleteTensor(void* tensor) {
  auto* managed = static_cast<T*>(tensor);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

void ReleaseBuffer(void* view) {
  const std::unique_ptr<Py_buffer> owned(static_cast<Py_buffer*>(view));
  PyBuffer_Release(owned.get());
}

py::object CallDLPack(py::handle value) {
  const py::object method = value.attr("__dlpack__");
  try {
    return method(py::arg("max_version") =
                      py::make_tuple(dlpack::kMajorVersion, 0));
  } catch (const py::error_already_set& error) {
    // Exporters older than DLPack 1.0 don't know the argument.
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();
}

// A view of `raw`, or of a copy in `converted` where its items are unaligned
// or not a whole number of items apart.
template <class T>
StridedSpan<T> ViewOrCopy(const RawArray& raw, std::vector<T>& converted) {
  constexpr auto kItemSize = static_cast<std::int64_t>(sizeof(T));
  if (raw.size == 0) return {};
  const bool aligned =
      std::bit_cast<std::uintptr_t>(raw.data) % alignof(T) == 0;
  const bool whole = raw.size == 1 || raw.byte_stride % kItemSize == 0;
  if (aligned && whole) {
    return {reinterpret_cast<const T*>(raw.data), raw.size,
            raw.size == 1 ? 1 : raw.byte_stride / kItemSize};
  }
  converted.resize(static_cast<std::size_t>(raw.size));
  const std::byte* item = raw.data;
  for (T& value : converted) {
    std::memcpy(&value, item, sizeof(T));
    item += raw.byte_stride;
  }
  return converted;
}

// The items of a sequence, none of which another thread can take away.
py::tuple Items(py::handle sequence) {
  auto items =
      py::reinterpret_steal<py::tuple>(PySequence_Tuple(sequence.ptr()));
  if (!items) throw py::error_already_set();
  return items;
}

bool IsListOrTuple(py::handle value) {
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
}

// Sequences other than lists and arrays: a range, a deque. A str is one too,
// but never one of numbers.
bool IsOtherSequence(py::handle value) {
  PyObject* object = value.ptr();
  return PySequence_Check(object) != 0 && !PyUnicode_Check(object) &&
         PyObject_CheckBuffer(object) == 0 &&
         PyObject_HasAttrString(object, "__dlpack__") == 0;
}

std::string ItemName(const char* name, std::size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

std::vector<std::int64_t> ReadInts(py::handle sequence, const char* name,
                                   OutOfRange out_of_range) {
  const py::tuple items = Items(sequence);
  std::vector<std::int64_t> result;
  result.reserve(items.size());
  for (const py::handle item : items) {
    int overflow = 0;
    // The common case without a name being put together.
    if (PyLong_CheckExact(item.ptr())) {
      const std::int64_t value =
          PyLong_AsLongLongAndOverflow(item.ptr(), &overflow);
      if (overflow == 0) {
        result.push_back(value);
        continue;
      }
    }
    const std::string item_name = ItemName(name, result.size());
    result.push_back(ReadInt(item, item_name.c_str(), out_of_range));
  }
  return result;
}

double ReadDouble(py::handle item, const std::string& name) {
  if (PyFloat_Check(item.ptr())) return PyFloat_AS_DOUBLE(item.ptr());
  if (PyBool_Check(item.ptr()) || !PyIndex_Check(item.ptr())) {
    throw py::type_error(name + ": expected a float or an int, got " +
                         Describe(item));
  }
  const auto integer =
      py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!integer) throw py::error_already_set();
  const double value = PyLong_AsDouble(integer.ptr());
  const bool overflow = PyErr_Occurred() != nullptr;
  if (overflow) PyErr_Clear();
  if (overflow || !py::float_(value).equal(integer)) {
    throw py::value_error(name + ": " + Describe(item) +
                          " has no equal among float64 numbers");
  }
  return value;
}

std::vector<double> ReadDoubles(py::handle sequence, const char* name) {
  const py::tuple items = Items(sequence);
  std::vector<double> result;
  result.reserve(items.size());
  for (const py::handle item : items) {
    if (PyFloat_CheckExact(item.ptr())) {
      result.push_back(PyFloat_AS_DOUBLE(item.ptr()));
    } else {
      result.push_back(ReadDouble(item, ItemName(name, result.size())));
    }
  }
  return result;
}

}  // namespace

RawArray ArrayOwner::Open(py::handle value, const char* name, NumberKind kind) {
  if (IsListOrTuple(value)) ThrowNotAnArray(name, value, kind);
  if (py::isinstance<py::array>(value)) return OpenNumpy(value, name, kind);
  if (PyObject_CheckBuffer(value.ptr())) return OpenBuffer(value, name, kind);
  if (py::hasattr(value, "__dlpack__")) return OpenDLPack(value, name, kind);
  ThrowNotAnArray(name, value, kind);
}

RawArray ArrayOwner::OpenNumpy(py::handle value, const char* name,
                               NumberKind kind) {
  auto array = py::reinterpret_borrow<py::array>(value);
  const py::dtype dtype = array.dtype();
  constexpr char kNative = '=';
  if (!IsAccepted(dtype.kind(), dtype.itemsize(), kind) ||
      dtype.byteorder() != kNative) {
    ThrowDtype(name, py::str(dtype), kind);
  }
  CheckOneDimension(name, array.ndim());
  RawArray raw;
  raw.data = static_cast<const std::byte*>(array.data());
  raw.size = array.shape(0);
  raw.byte_stride = array.strides(0);
  raw.item_size = dtype.itemsize();
  object_ = std::move(array);
  return raw;
}

RawArray ArrayOwner::OpenBuffer(py::handle value, const char* name,
                                NumberKind kind) {
  // Never moved: some exporters let a view point into itself.
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(value.ptr(), view.get(), PyBUF_RECORDS_RO) != 0) {
    throw py::error_already_set();
  }
  const Py_buffer& buffer = *view;
  export_ = {view.release(), ReleaseBuffer};

  const std::string_view text = buffer.format == nullptr ? "B" : buffer.format;
  const BufferFormat format = ParseFormat(text);
  if (!IsAccepted(format.letter, buffer.itemsize, kind) ||
      !format.native_order) {
    std::string found = DtypeName(format.letter, buffer.itemsize * 8,
                                  "format '" + std::string(text) + "'");
    if (!format.native_order) found += " in foreign byte order";
    ThrowDtype(name, found, kind);
  }
  CheckOneDimension(name, buffer.ndim);
  RawArray raw;
  raw.data = static_cast<const std::byte*>(buffer.buf);
  raw.item_size = buffer.itemsize;
  // Without them the items lie side by side: ctypes gives no strides even when
  // it is asked for them.
  raw.size =
      buffer.shape == nullptr ? buffer.len / buffer.itemsize : buffer.shape[0];
  raw.byte_stride =
      buffer.strides == nullptr ? buffer.itemsize : buffer.strides[0];
  return raw;
}

RawArray ArrayOwner::OpenDLPack(py::handle value, const char* name,
                                NumberKind kind) {
  constexpr const char* kVersioned = "dltensor_versioned";
  const py::object capsule = CallDLPack(value);
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0) {
    auto* tensor = TakeTensor<dlpack::DLManagedTensorVersioned>(
        capsule, kVersioned, "used_dltensor_versioned");
    export_ = {tensor, DeleteTensor<dlpack::DLManagedTensorVersioned>};
    // The rest of the layout is only known within this major version.
    if (tensor->version.major != dlpack::kMajorVersion) {
      throw py::type_error(std::string(name) + ": expected DLPack version " +
                           std::to_string(dlpack::kMajorVersion) + ", got " +
                           std::to_string(tensor->version.major));
    }
    return ReadTensor(tensor->dl_tensor, name, kind);
  }
  auto* tensor =
      TakeTensor<dlpack::DLManagedTensor>(capsule, "dltensor", "used_dltensor");
  export_ = {tensor, DeleteTensor<dlpack::DLManagedTensor>};
  return ReadTensor(tensor->dl_tensor, name, kind);
}

namespace {

kv::TokenBuffer::Snapshot ReadTokenBuffer(py::handle buffer) {
  py::detail::make_caster<Constructed<kv::TokenBuffer>> caster;
  caster.load(buffer, false);
  const auto self = py::detail::cast_op<Constructed<kv::TokenBuffer>>(caster);
  const GilReleasedOnWait no_wait;
  return self->TakeSnapshot();
}

}  // namespace

IntArrayArg::IntArrayArg(IntArrayHandle array, const char* name) {
  ReadArray(array.value, name);
}

IntArrayArg::IntArrayArg(IntArrayOrListHandle array, const char* name,
                         OutOfRange out_of_range) {
  if (IsListOrTuple(array.value) || IsOtherSequence(array.value)) {
    converted64_ = ReadInts(array.value, name, out_of_range);
    span_ = StridedSpan<std::int64_t>(converted64_);
  } else {
    ReadArray(array.value, name);
  }
}

void IntArrayArg::ReadArray(py::handle array, const char* name) {
  if (!py::isinstance<py::array>(array) &&
      py::isinstance<kv::TokenBuffer>(array)) {
    kv::TokenBuffer::Snapshot snapshot = ReadTokenBuffer(array);
    span_ = snapshot.span;
    snapshot_ = std::move(snapshot.owner);
    return;
  }
  const RawArray raw = owner_.Open(array, name, kInts);
  if (raw.item_size == sizeof(std::int32_t)) {
    span_ = ViewOrCopy<std::int32_t>(raw, converted32_);
  } else {
    span_ = ViewOrCopy<std::int64_t>(raw, converted64_);
  }
}

FloatArrayArg::FloatArrayArg(FloatArrayOrListHandle array, const char* name) {
  if (IsListOrTuple(array.value) || IsOtherSequence(array.value)) {
    is_list_ = true;
    converted64_ = ReadDoubles(array.value, name);
    span_ = StridedSpan<double>(converted64_);
    return;
  }
  const RawArray raw = owner_.Open(array.value, name, kFloats);
  if (raw.item_size == sizeof(float)) {
    span_ = ViewOrCopy<float>(raw, converted32_);
  } else {
    span_ = ViewOrCopy<double>(raw, converted64_);
  }
}

}  // namespace servecore::pybind
