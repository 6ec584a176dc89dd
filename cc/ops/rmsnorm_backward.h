// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_RMSNORM_BACKWARD_H_
#define SERVECORE_CC_OPS_RMSNORM_BACKWARD_H_

#include <cstddef>
#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"

namespace servecore::ops {

// The operands of RMSNorm's derivative. With s = 1 / sqrt(mean(x[r]^2) + eps):
//
//   grad_x[r][i] = s * (g[r][i] * w[i] - x[r][i] * s^2 * mean_j(g * w * x))
//   grad_weight[i] = sum over r of g[r][i] * x[r][i] * s
//
// It is the derivative of the function without roundings, so that it serves
// RmsNormArgs::cast_before_weight too. s is computed anew from x, which costs
// no read beyond the one that the mean of g * w * x needs.
//
// `grad_weight`: contiguous, of the weight's dtype.
//
// Ownership: borrows all arrays.
// Lifetime: they must live until the call returns.
struct RmsNormBackwardArgs {
  DType dtype;  // of grad_out, x and grad_x
  ConstRows grad_out;
  ConstRows x;
  ColumnWeights weight;
  double eps;
  // data may be null: then grad_x is not wanted, and its layout not read.
  Rows grad_x;
  // May be null: then grad_weight is not wanted.
  void* grad_weight = nullptr;
  // Room for the sums over groups of rows, RmsNormBackwardScratchBytes(args)
  // bytes, aligned for double; unused without grad_weight. Uninitialised memory
  // will do.
  void* scratch = nullptr;
};

// Rows come in groups whose size depends on the number of rows alone, and each
// group keeps one sum per column of its own. So whatever thread computes which
// group, every result has the same bits.
[[nodiscard]] std::int64_t RmsNormBackwardGroups(
    const RmsNormBackwardArgs& args);

// 4 bytes a column and group, 8 for float64, of columns rounded up to 64.
// Groups have 16 to 512 rows, the last may have fewer. 0 without grad_weight.
[[nodiscard]] std::size_t RmsNormBackwardScratchBytes(
    const RmsNormBackwardArgs& args);

// grad_x of the rows of the groups [group_begin, group_end), and their sums in
// the scratch. Concurrent calls take disjoint groups.
//
// Numerics: as RmsNorm; float32 (float64) inside, one rounding at the end.
// grad_weight is summed in float32 over at most 512 rows, beyond in float64.
// grad_x may be grad_out or x itself in the same layout; any other overlap is
// undefined. No rows are valid, and give a grad_weight of zeros.
// Copies: as RmsNorm.
// Thread safety: concurrent calls may share everything but the groups.
// Complexity: O(rows * dim), two reads of grad_out and x, one write of grad_x.
// Throws std::invalid_argument, before anything is written, when the layouts
// differ in rows or row length, when the weight is neither of x's dtype nor
// float32 (float64 for float64), when grad_weight comes without scratch, or
// when the groups are not within [0, RmsNormBackwardGroups(args)].
void RmsNormBackward(const RmsNormBackwardArgs& args, std::int64_t group_begin,
                     std::int64_t group_end);

// Once all groups are done: adds their sums into the columns
// [col_begin, col_end) of grad_weight, in the order of the groups. Does nothing
// when grad_weight is null.
//
// Thread safety: concurrent calls take disjoint columns.
// Complexity: O(groups * (col_end - col_begin)).
// Throws std::invalid_argument as RmsNormBackward, or when the columns are not
// within [0, dim].
void RmsNormBackwardWeight(const RmsNormBackwardArgs& args,
                           std::int64_t col_begin, std::int64_t col_end);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_RMSNORM_BACKWARD_H_
