// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Python arrays as spans: by their strides, without a copy.

#ifndef SERVECORE_CC_PYBIND_ARRAY_ARGS_H_
#define SERVECORE_CC_PYBIND_ARRAY_ARGS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/strided_span.h"
#include "cc/pybind/any_object_caster.h"
#include "cc/pybind/scalar_args.h"

namespace servecore::pybind {

// Python arguments, by what a signature shows.
struct IntArrayHandle {
  static constexpr auto kSignature = pybind11::detail::const_name("IntArray");
  pybind11::handle value;
};
struct IntArrayOrListHandle {
  static constexpr auto kSignature =
      pybind11::detail::const_name("IntArray | Sequence[int]");
  pybind11::handle value;
};
struct IntOrIntsHandle {
  static constexpr auto kSignature =
      pybind11::detail::const_name("int | IntArray | Sequence[int]");
  pybind11::handle value;
};
struct FloatArrayOrListHandle {
  static constexpr auto kSignature =
      pybind11::detail::const_name("FloatArray | Sequence[float]");
  pybind11::handle value;
};

using FloatSpan = std::variant<StridedSpan<float>, StridedSpan<double>>;

// The numbers that an argument may hold: a letter as in numpy.dtype.kind, and
// the two accepted dtypes, of 4 and 8 bytes, in words.
struct NumberKind {
  char letter;
  const char* dtypes;
};
inline constexpr NumberKind kInts = {'i', "int32 or int64"};
inline constexpr NumberKind kFloats = {'f', "float32 or float64"};

// One dimension of somebody else's memory.
struct RawArray {
  const std::byte* data = nullptr;
  std::int64_t size = 0;
  std::int64_t byte_stride = 0;
  std::int64_t item_size = 0;  // 4 or 8
};

// Keeps the memory of a Python array alive and in its place.
//
// Ownership: one reference to the exporting object, or to its export.
// Lifetime: until it is destroyed the exporter does not free the memory.
// Copies: nothing.
// GIL: held to make, open and destroy it; not needed between.
class ArrayOwner {
 public:
  // Takes hold of a numpy array, of an object with the buffer protocol, or of
  // one with `__dlpack__` whose memory is the CPU's.
  //
  // Throws TypeError for any other object, for other numbers and for a foreign
  // byte order; ValueError unless there is exactly one dimension.
  RawArray Open(pybind11::handle value, const char* name, NumberKind kind);

 private:
  RawArray OpenNumpy(pybind11::handle value, const char* name, NumberKind kind);
  RawArray OpenBuffer(pybind11::handle value, const char* name,
                      NumberKind kind);
  RawArray OpenDLPack(pybind11::handle value, const char* name,
                      NumberKind kind);

  pybind11::object object_;
  // A Py_buffer or a DLPack tensor, and the function that gives it back.
  std::unique_ptr<void, void (*)(void*)> export_{nullptr, nullptr};
};

// A Python argument as an IntSpan: an array, or a TokenBuffer as it is now.
//
// Ownership, Lifetime, GIL: those of ArrayOwner; span() is read without the
//   GIL.
// Copies: none for an int32 or int64 array whose items are aligned and a whole
//   number of items apart. Any other (a field of a packed structured array) and
//   every list is converted once, value by value.
class IntArrayArg {
 public:
  // `out_of_range` is the error for a list item beyond int64.
  explicit IntArrayArg(IntArrayHandle array, const char* name);
  explicit IntArrayArg(IntArrayOrListHandle array, const char* name,
                       OutOfRange out_of_range = OutOfRange::kValueError);

  IntArrayArg(const IntArrayArg&) = delete;
  IntArrayArg& operator=(const IntArrayArg&) = delete;

  const IntSpan& span() const { return span_; }

 private:
  void ReadArray(pybind11::handle array, const char* name);

  ArrayOwner owner_;
  std::shared_ptr<const void> snapshot_;  // of a TokenBuffer
  std::vector<std::int32_t> converted32_;
  std::vector<std::int64_t> converted64_;
  IntSpan span_;  // of the memory of one of these
};

// A float32 or float64 array as a FloatSpan, a list as one of double.
//
// Ownership, Lifetime, GIL, Copies: those of IntArrayArg.
class FloatArrayArg {
 public:
  // Throws ValueError for an int in a list that no float64 equals.
  explicit FloatArrayArg(FloatArrayOrListHandle array, const char* name);

  FloatArrayArg(const FloatArrayArg&) = delete;
  FloatArrayArg& operator=(const FloatArrayArg&) = delete;

  const FloatSpan& span() const { return span_; }
  bool is_list() const { return is_list_; }

 private:
  ArrayOwner owner_;
  std::vector<float> converted32_;
  std::vector<double> converted64_;
  FloatSpan span_;
  bool is_list_ = false;
};

}  // namespace servecore::pybind

namespace pybind11::detail {

template <>
struct type_caster<servecore::pybind::IntArrayHandle>
    : servecore::pybind::AnyObjectCaster<servecore::pybind::IntArrayHandle> {};

template <>
struct type_caster<servecore::pybind::IntArrayOrListHandle>
    : servecore::pybind::AnyObjectCaster<
          servecore::pybind::IntArrayOrListHandle> {};

template <>
struct type_caster<servecore::pybind::IntOrIntsHandle>
    : servecore::pybind::AnyObjectCaster<servecore::pybind::IntOrIntsHandle> {};

template <>
struct type_caster<servecore::pybind::FloatArrayOrListHandle>
    : servecore::pybind::AnyObjectCaster<
          servecore::pybind::FloatArrayOrListHandle> {};

}  // namespace pybind11::detail

#endif  // SERVECORE_CC_PYBIND_ARRAY_ARGS_H_
