// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_SILU_AND_MUL_H_
#define SERVECORE_CC_OPS_SILU_AND_MUL_H_

#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"

namespace servecore::ops {

// The operands of the gated activation of a Llama's MLP. Rows of x hold the
// gate and, behind it, as many factors; rows of out are half as long:
//
//   out[r][i] = silu(x[r][i]) * x[r][d + i],  silu(a) = a / (1 + exp(-a)),
//
// where d = out.layout.dim() = x.layout.dim() / 2.
//
// Ownership: borrows both arrays.
// Lifetime: they must live until SiluAndMul returns.
struct SiluAndMulArgs {
  DType dtype;  // of x and out
  ConstRows x;
  Rows out;
};

// The rows [row_begin, row_end) of `args`.
//
// Numerics: float32 throughout, float64 for float64, and one rounding to the
// dtype at the end: silu itself is not rounded. float32 results are within
// 6e-7 of a float64 reference, relative to the element; for a below -104 silu
// is 0 or subnormal.
// `out` may lie on the first or the second half of x's own rows, with x's
// strides; any other overlap is undefined. No rows and rows of no elements are
// valid and touch nothing.
//
// Copies, thread safety: as RmsNorm.
// Complexity: O((row_end - row_begin) * d), one read of x and one write of out.
// Throws std::invalid_argument, before anything is written, when the numbers of
// rows differ, when x's rows are not twice as long as out's, or when the range
// is not within the rows.
void SiluAndMul(const SiluAndMulArgs& args, std::int64_t row_begin,
                std::int64_t row_end);

// All rows.
void SiluAndMul(const SiluAndMulArgs& args);

// The operands of its derivative. With s = 1 / (1 + exp(-a)), a = x[r][i] and
// b = x[r][d + i]:
//
//   grad_x[r][i] = grad_out[r][i] * b * s * (1 + a * (1 - s))
//   grad_x[r][d + i] = grad_out[r][i] * a * s
//
// Ownership: borrows all arrays.
// Lifetime: they must live until SiluAndMulBackward returns.
struct SiluAndMulBackwardArgs {
  DType dtype;  // of all three
  ConstRows grad_out;
  ConstRows x;
  Rows grad_x;
};

// The rows [row_begin, row_end) of `args`. `grad_x` may be `x` itself in the
// same layout; any other overlap is undefined. Numerics, copies, thread safety,
// errors: as SiluAndMul.
void SiluAndMulBackward(const SiluAndMulBackwardArgs& args,
                        std::int64_t row_begin, std::int64_t row_end);

// All rows.
void SiluAndMulBackward(const SiluAndMulBackwardArgs& args);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_SILU_AND_MUL_H_
