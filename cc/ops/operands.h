// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_OPERANDS_H_
#define SERVECORE_CC_OPS_OPERANDS_H_

#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"

namespace servecore::ops {

// How the kernels of this library are given their tensors. The address is that
// of the element at offset 0 of the layout; it needs no alignment beyond the
// element's own, and may be null when there is no element.
//
// Ownership: borrows the memory.
// Lifetime: it must live until the kernel returns.
struct ConstRows {
  const void* data;
  RowLayout layout;
};

struct Rows {
  void* data;
  RowLayout layout;
};

// One element per column, of a dtype of its own: that of the rows it goes with,
// or float32 where those are narrower.
struct ColumnWeights {
  const void* data;
  DType dtype;
  std::int64_t stride = 1;  // in elements; may be zero or negative
};

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_OPERANDS_H_
