// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_STRIDED_SPAN_H_
#define SERVECORE_CC_BASE_STRIDED_SPAN_H_

#include <concepts>
#include <cstdint>
#include <ranges>

namespace servecore {

// A read-only view of `size` elements, the i-th of which is data[i * stride].
//
// It is how a one-dimensional array of any layout enters the core: a slice of
// every second element, a reversed view (negative stride), one value repeated
// (stride 0). The stride counts elements, not bytes, and `data` is aligned for
// T; whoever holds an array without these two properties converts it first.
//
// Ownership: none; the memory stays the caller's.
// Lifetime: the memory outlives the view. A function that takes a view reads it
//   during the call only, unless it says otherwise.
// Copies: nothing.
// Thread safety: as that of the memory below it.
template <class T>
struct StridedSpan {
  using value_type = T;

  const T* data = nullptr;
  std::int64_t size = 0;
  std::int64_t stride = 1;

  constexpr StridedSpan() = default;
  constexpr StridedSpan(const T* data_in, std::int64_t size_in,
                        std::int64_t stride_in = 1)
      : data(data_in), size(size_in), stride(stride_in) {}

  // Implicit, so that a std::vector, std::array or std::span of exactly T can
  // be given wherever a view is asked for.
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R> &&
                 std::same_as<std::ranges::range_value_t<R>, T>
  constexpr StridedSpan(const R& range)  // NOLINT(google-explicit-constructor)
      : data(std::ranges::data(range)),
        size(static_cast<std::int64_t>(std::ranges::size(range))) {}

  constexpr T operator[](std::int64_t i) const { return data[i * stride]; }

  // Whether the elements lie side by side, so that they may be read as one
  // block of memory starting at `data`.
  constexpr bool contiguous() const { return stride == 1 || size <= 1; }
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_STRIDED_SPAN_H_
