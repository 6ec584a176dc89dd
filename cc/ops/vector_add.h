// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_VECTOR_ADD_H_
#define SERVECORE_CC_OPS_VECTOR_ADD_H_

#include "cc/base/strided_span.h"

namespace servecore::ops {

// out[i] = a[i] + b[i] for every i of a. Any strides; `out` is contiguous, has
// room for a.size elements, and may be a.data or b.data where that one is
// contiguous too, but overlaps neither in any other way.
//
// Throws std::invalid_argument, before it writes anything, when a and b differ
// in size. O(size).
// Ownership: all memory is the caller's.
// Copies: nothing.
// GIL: unknown here; a binding releases it around the call.
// Thread safety: safe while nobody else writes to a or b or touches out.
void VectorAdd(const StridedSpan<float>& a, const StridedSpan<float>& b,
               float* out);
void VectorAdd(const StridedSpan<double>& a, const StridedSpan<double>& b,
               double* out);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_VECTOR_ADD_H_
