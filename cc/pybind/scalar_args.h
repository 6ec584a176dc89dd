// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Python integers as C++ integers, with the errors that the API documents.

#ifndef SERVECORE_CC_PYBIND_SCALAR_ARGS_H_
#define SERVECORE_CC_PYBIND_SCALAR_ARGS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "cc/pybind/any_object_caster.h"

namespace servecore::pybind {

// The error for an integer beyond int64: a number that large is wrong for the
// same reason as any other number out of range, so it gets the same error
// instead of Python's OverflowError.
enum class OutOfRange { kIndexError, kValueError };

// A Python argument that a signature shows as `int`.
struct IntHandle {
  static constexpr auto kSignature = pybind11::detail::const_name("int");
  pybind11::handle value;
};

// One that a signature shows as one name or several.
struct NamespacesHandle {
  static constexpr auto kSignature =
      pybind11::detail::const_name("str | Sequence[str]");
  pybind11::handle value;
};

// Reads an int, or an object with `__index__` such as numpy.int32.
//
// Args:
//   value: the Python object; the GIL must be held.
//   name: the argument's name, for messages: "block", "counts[3]".
//   out_of_range: the error for a value beyond int64.
//
// Throws TypeError for bool, float and everything else without `__index__`:
// a bool is a flag in the wrong place far more often than a number.
std::int64_t ReadInt(pybind11::handle value, const char* name,
                     OutOfRange out_of_range);

// The index of a block: IndexError where it does not fit.
inline std::int64_t ReadBlock(IntHandle block) {
  return ReadInt(block.value, "block", OutOfRange::kIndexError);
}

// A number of things: ValueError where it does not fit.
inline std::int64_t ReadCount(IntHandle count, const char* name) {
  return ReadInt(count.value, name, OutOfRange::kValueError);
}

// "float 1.5": the type of a refused value and, where it is short, the value.
std::string Describe(pybind11::handle value);

}  // namespace servecore::pybind

namespace pybind11::detail {

template <>
struct type_caster<servecore::pybind::IntHandle>
    : servecore::pybind::AnyObjectCaster<servecore::pybind::IntHandle> {};

template <>
struct type_caster<servecore::pybind::NamespacesHandle>
    : servecore::pybind::AnyObjectCaster<servecore::pybind::NamespacesHandle> {
};

}  // namespace pybind11::detail

#endif  // SERVECORE_CC_PYBIND_SCALAR_ARGS_H_
