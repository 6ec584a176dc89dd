// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_RMSNORM_H_
#define SERVECORE_CC_OPS_RMSNORM_H_

#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"

namespace servecore::ops {

// The operands of an RMSNorm over the rows of `x`:
//
//   out[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * weight[i]
//
// `x` and `out` have the same number of rows and the same row length, each in
// a layout of its own; `weight` has one element per column.
//
// Ownership: borrows all three arrays.
// Lifetime: they must live until RmsNorm returns.
struct RmsNormArgs {
  DType dtype;  // of x and out
  ConstRows x;
  ColumnWeights weight;
  Rows out;
  double eps;
  // Rounds x / sqrt(...) to x's dtype before it is multiplied by the weight,
  // and the product once more, as the modelling code of the Llama family does.
  bool cast_before_weight = false;
};

// Normalises the rows [row_begin, row_end) of `args`, so that callers can give
// each thread a range of its own.
//
// Numerics: float32 throughout, float64 for float64, and one rounding to x's
// dtype at the end (to nearest, ties to even). Squares are summed in
// independent lanes over short blocks whose sums are added in float64. float32
// results are within 1e-6 of a float64 reference, relative to the element, at
// any row length; bfloat16 and float16 ones are the reference's correct
// rounding in all but one of 10,000 elements. bfloat16 and float16 squares
// cannot overflow; a float32 row whose squares do (|x| above about 1.8e19)
// gives zeros, as torch's rms_norm does. Rows do not influence each other, and
// neither layouts nor the range influence a row: it gets the same bits however
// it lies. Machines with vectors of other widths may differ in the last bit of
// a float32.
//
// `out` may be `x` itself in the same layout; any other overlap is undefined.
// No rows and rows of no elements are valid and touch nothing.
//
// Copies: none where the elements of a row lie side by side; other rows are
// read and written by their strides, in pieces of 2048 elements on the stack.
// Stream: an output larger than the caches is written past them.
// Thread safety: concurrent calls may share everything but the rows they write.
// Complexity: O((row_end - row_begin) * dim), two reads and one write of a row.
// Throws std::invalid_argument, before anything is written, when the layouts of
// x and out differ in rows or row length, when the weight is neither of x's
// dtype nor float32 (float64 for float64), or when the range is not within the
// rows.
void RmsNorm(const RmsNormArgs& args, std::int64_t row_begin,
             std::int64_t row_end);

// All rows.
void RmsNorm(const RmsNormArgs& args);

// The two halves of a row's RMSNorm over a range of its columns, for callers
// that have more threads than rows. First each thread sums the squares of its
// columns; once all sums are added, each writes its columns:
//
//   sums[t] = RmsNormSumOfSquares(args, row, begin[t], end[t])
//   RmsNormScale(args, row, sums[0] + sums[1] + …, begin[t], end[t])
//
// Ranges that begin at multiples of kRmsNormColumns differ from RmsNorm in the
// order of float64 additions only; any range is allowed. In place, all sums
// must be there before the first column is written.
//
// Thread safety, errors: as RmsNorm, with rows and columns for rows.
// Complexity: O(col_end - col_begin).
inline constexpr std::int64_t kRmsNormColumns = 2048;

[[nodiscard]] double RmsNormSumOfSquares(const RmsNormArgs& args,
                                         std::int64_t row,
                                         std::int64_t col_begin,
                                         std::int64_t col_end);

void RmsNormScale(const RmsNormArgs& args, std::int64_t row,
                  double sum_of_squares, std::int64_t col_begin,
                  std::int64_t col_end);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_RMSNORM_H_
