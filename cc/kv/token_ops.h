// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_TOKEN_OPS_H_
#define SERVECORE_CC_KV_TOKEN_OPS_H_

#include <cstdint>

#include "cc/base/int_span.h"

namespace servecore::kv {

// Functions on token arrays of either width and any stride.
//
// Copies: nothing.
// GIL: unknown here; a binding releases it around each call.
// Thread safety: safe while nobody writes to the arrays.

// The number of tokens that `a` and `b` have in common at their beginnings.
// O(result), and at the speed of memory where both are contiguous and equally
// wide.
std::int64_t CommonPrefix(const IntSpan& a, const IntSpan& b);

// How often `eos` occurs. O(size).
std::int64_t CountEos(const IntSpan& tokens, std::int64_t eos);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_TOKEN_OPS_H_
