// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/strided_span.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace servecore {
namespace {

template <class T>
std::vector<T> Elements(const StridedSpan<T>& span) {
  std::vector<T> elements;
  elements.reserve(static_cast<std::size_t>(span.size));
  for (std::int64_t i = 0; i < span.size; ++i) elements.push_back(span[i]);
  return elements;
}

constexpr std::array<std::int32_t, 6> kNumbers = {0, 1, 2, 3, 4, 5};

TEST(StridedSpanTest, IsMadeFromContiguousRanges) {
  const std::array<std::int32_t, 2> array = {7, 8};
  EXPECT_EQ(Elements<std::int32_t>(kNumbers),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Elements<std::int32_t>(array), (std::vector<std::int32_t>{7, 8}));
  EXPECT_EQ(Elements<std::int32_t>(std::span(kNumbers).subspan(4)),
            (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(StridedSpan<std::int32_t>().size, 0);
}

TEST(StridedSpanTest, IsNotMadeFromAnotherWidth) {
  static_assert(!std::is_convertible_v<std::vector<std::int64_t>,
                                       StridedSpan<std::int32_t>>);
  static_assert(
      !std::is_convertible_v<std::vector<float>, StridedSpan<double>>);
}

TEST(StridedSpanTest, ReadsByItsStride) {
  const std::int32_t* const data = kNumbers.data();
  using Span = StridedSpan<std::int32_t>;
  EXPECT_EQ(Elements(Span(data, 3, 2)), (std::vector<std::int32_t>{0, 2, 4}));
  EXPECT_EQ(Elements(Span(data + 5, 3, -2)),
            (std::vector<std::int32_t>{5, 3, 1}));
  EXPECT_EQ(Elements(Span(data + 1, 3, 0)),
            (std::vector<std::int32_t>{1, 1, 1}));
}

TEST(StridedSpanTest, KnowsWhetherItIsContiguous) {
  const std::int32_t* const data = kNumbers.data();
  using Span = StridedSpan<std::int32_t>;
  EXPECT_TRUE(Span(data, 6).contiguous());
  EXPECT_FALSE(Span(data, 3, 2).contiguous());
  EXPECT_FALSE(Span(data + 5, 6, -1).contiguous());
  EXPECT_FALSE(Span(data, 2, 0).contiguous());
  EXPECT_TRUE(Span(data, 1, 4).contiguous());
  EXPECT_TRUE(Span(data, 0, 4).contiguous());
}

}  // namespace
}  // namespace servecore
