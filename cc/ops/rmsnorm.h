// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_RMSNORM_H_
#define SERVECORE_CC_OPS_RMSNORM_H_

#include <cstdint>

#include "cc/ops/row_layout.h"

namespace servecore::ops {

// The operands of an RMSNorm over the rows of `x`:
//
//   out[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * weight[i]
//
// `x` and `out` have the same number of rows and the same row length, each in
// a layout of its own; `weight` has one element per column. A pointer addresses
// the element at offset 0 of its layout and may be null when there is no
// element to read.
//
// Ownership: borrows all three arrays.
// Lifetime: they must live until RmsNorm returns.
struct RmsNormArgs {
  const float* x;
  RowLayout x_layout;
  const float* weight;
  std::int64_t weight_stride;  // in elements; may be zero or negative
  float* out;
  RowLayout out_layout;
  double eps;
};

// Normalises the rows [row_begin, row_end) of `args`, so that callers can give
// each thread a range of its own.
//
// Numerics: float32 products, summed in independent lanes over short blocks
// whose sums are added in float64. The result is within 1e-5 of a float64
// reference, relative to the largest of |x * weight| / rms, at any row length.
// A row whose squares overflow float32 (|x| above about 1.8e19) gives zeros, as
// torch's rms_norm does. Rows do not influence each other: the result of a row
// does not depend on the range it was computed in.
//
// `out` may be `x` itself in the same layout; any other overlap is undefined.
// No rows and rows of no elements are valid and touch nothing.
//
// Copies: none; every layout is read and written by its strides.
// Thread safety: concurrent calls may share everything but the rows they write.
// Complexity: O((row_end - row_begin) * dim), two reads and one write of a row.
// Throws std::invalid_argument, before anything is written, when the layouts of
// x and out differ in rows or row length, or when the range is not within them.
void RmsNorm(const RmsNormArgs& args, std::int64_t row_begin,
             std::int64_t row_end);

// All rows.
void RmsNorm(const RmsNormArgs& args);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_RMSNORM_H_
