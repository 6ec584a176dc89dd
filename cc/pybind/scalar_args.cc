// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/scalar_args.h"

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace py = pybind11;

namespace servecore::pybind {
namespace {

constexpr std::size_t kLongestShownValue = 60;

[[noreturn]] void ThrowNotAnInt(py::handle value, const char* name) {
  throw py::type_error(std::string(name) + ": expected an int, got " +
                       Describe(value));
}

[[noreturn]] void ThrowOutOfRange(py::handle value, const char* name,
                                  OutOfRange out_of_range) {
  const std::string found = std::string(name) + " is " + Describe(value);
  if (out_of_range == OutOfRange::kIndexError) {
    throw py::index_error(found + "; allowed are 0 to num_blocks - 1");
  }
  throw py::value_error(found + "; allowed are integers of 64 bits");
}

}  // namespace

std::string Describe(py::handle value) {
  std::string text = Py_TYPE(value.ptr())->tp_name;
  // Of a container the type says enough, and its repr may be very long.
  if (!PyLong_Check(value.ptr()) && !PyFloat_Check(value.ptr()) &&
      !PyUnicode_Check(value.ptr())) {
    return text;
  }
  const auto repr =
      py::reinterpret_steal<py::object>(PyObject_Repr(value.ptr()));
  if (!repr) {
    // An int of more digits than Python prints must not replace the error that
    // is being reported.
    PyErr_Clear();
    return text;
  }
  const auto shown = repr.cast<std::string>();
  if (shown.size() <= kLongestShownValue) text += " " + shown;
  return text;
}

std::int64_t ReadInt(py::handle value, const char* name,
                     OutOfRange out_of_range) {
  py::object index;
  PyObject* integer = value.ptr();
  if (!PyLong_CheckExact(integer)) {
    if (PyBool_Check(integer) || !PyIndex_Check(integer)) {
      ThrowNotAnInt(value, name);
    }
    index = py::reinterpret_steal<py::object>(PyNumber_Index(integer));
    if (!index) throw py::error_already_set();
    integer = index.ptr();
  }
  int overflow = 0;
  const std::int64_t result = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (overflow != 0) ThrowOutOfRange(value, name, out_of_range);
  if (result == -1 && PyErr_Occurred() != nullptr) {
    throw py::error_already_set();
  }
  return result;
}

}  // namespace servecore::pybind
