// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_FUSED_ADD_RMSNORM_H_
#define SERVECORE_CC_OPS_FUSED_ADD_RMSNORM_H_

#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"

namespace servecore::ops {

// The operands of a residual addition and the RMSNorm of its result, both in
// place:
//
//   residual[r][i] = residual[r][i] + x[r][i]
//   x[r][i] = residual[r][i] / sqrt(mean(residual[r]^2) + eps) * weight[i]
//
// Ownership: borrows all three arrays.
// Lifetime: they must live until FusedAddRmsNorm returns.
struct FusedAddRmsNormArgs {
  DType dtype;  // of x and residual
  Rows x;
  Rows residual;
  ColumnWeights weight;
  double eps;
  bool cast_before_weight = false;  // as in RmsNormArgs
};

// The rows [row_begin, row_end) of `args`.
//
// Numerics: the sum is rounded to the dtype as it is stored, and what was
// stored is normalised: the bits are those of an addition followed by RmsNorm.
// x and residual must not overlap, nor rows of either one another. No rows and
// rows of no elements are valid and touch nothing.
//
// Copies, thread safety: as RmsNorm.
// Complexity: O((row_end - row_begin) * dim), one read and one write of x and
// of residual in memory.
// Throws std::invalid_argument, before anything is written, on what RmsNorm
// throws on, with residual for out.
void FusedAddRmsNorm(const FusedAddRmsNormArgs& args, std::int64_t row_begin,
                     std::int64_t row_end);

// All rows.
void FusedAddRmsNorm(const FusedAddRmsNormArgs& args);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_FUSED_ADD_RMSNORM_H_
