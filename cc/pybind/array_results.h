// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Vectors as numpy arrays, without a copy.

#ifndef SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_
#define SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <utility>
#include <vector>

namespace servecore::pybind {

// A writable one-dimensional numpy array of the vector's elements.
//
// Ownership: the array owns the vector, through a capsule that is its base.
// Lifetime: the memory lives as long as the array and every view of it.
// Copies: nothing; the vector is moved.
// GIL: held.
template <class T>
pybind11::array_t<T> ToArray(std::vector<T> values) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const auto size = static_cast<pybind11::ssize_t>(owned->size());
  pybind11::capsule owner(owned.get(), [](void* vector) {
    std::default_delete<std::vector<T>>()(static_cast<std::vector<T>*>(vector));
  });
  static_cast<void>(owned.release());
  return pybind11::array_t<T>(size, data, owner);
}

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_
