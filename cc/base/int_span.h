// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_INT_SPAN_H_
#define SERVECORE_CC_BASE_INT_SPAN_H_

#include <cstdint>
#include <variant>

#include "cc/base/strided_span.h"

namespace servecore {

// A view of integers in either of the two widths that callers have at hand.
// Made implicitly from a std::vector, std::array, std::span or StridedSpan of
// std::int32_t or std::int64_t. The values are never narrowed on the way: a
// function that wants a smaller range checks it and names the value.
//
// Ownership, Lifetime, Copies, Thread safety: those of StridedSpan.
using IntSpan =
    std::variant<StridedSpan<std::int32_t>, StridedSpan<std::int64_t>>;

// The number of elements. O(1).
inline std::int64_t Size(const IntSpan& span) {
  return std::visit([](const auto& s) { return s.size; }, span);
}

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_INT_SPAN_H_
