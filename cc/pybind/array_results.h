// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Vectors as numpy arrays, without a copy.

#ifndef SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_
#define SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
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

// A read-only numpy array of memory that has other owners as well.
//
// Ownership: the array holds a share in the memory, through a capsule that is
//   its base.
// Lifetime, Copies, GIL: those of ToArray.
template <class T>
pybind11::array_t<T> ToReadOnlyArray(const T* data, std::int64_t size,
                                     std::shared_ptr<const void> owner) {
  using Share = std::shared_ptr<const void>;
  auto share = std::make_unique<Share>(std::move(owner));
  pybind11::capsule base(share.get(), [](void* shared) {
    std::default_delete<Share>()(static_cast<Share*>(shared));
  });
  // The capsule owns it now.
  [[maybe_unused]] const Share* const owned = share.release();
  pybind11::array_t<T> array(static_cast<pybind11::ssize_t>(size), data, base);
  auto* const raw = pybind11::detail::array_proxy(array.ptr());
  raw->flags &= ~pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_ARRAY_RESULTS_H_
