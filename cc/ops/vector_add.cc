// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/vector_add.h"

#include <cstdint>
#include <stdexcept>

#include "cc/base/errors.h"

namespace servecore::ops {
namespace {

template <class T>
void Add(const StridedSpan<T>& a, const StridedSpan<T>& b, T* out) {
  if (a.size != b.size) {
    throw std::invalid_argument(StrCat("a has ", a.size, " elements and b has ",
                                       b.size,
                                       "; they have to be equally long"));
  }
  // The same loop twice: with the strides known to be 1 it vectorises.
  if (a.contiguous() && b.contiguous()) {
    for (std::int64_t i = 0; i < a.size; ++i) out[i] = a.data[i] + b.data[i];
  } else {
    for (std::int64_t i = 0; i < a.size; ++i) out[i] = a[i] + b[i];
  }
}

}  // namespace

void VectorAdd(const StridedSpan<float>& a, const StridedSpan<float>& b,
               float* out) {
  Add(a, b, out);
}

void VectorAdd(const StridedSpan<double>& a, const StridedSpan<double>& b,
               double* out) {
  Add(a, b, out);
}

}  // namespace servecore::ops
