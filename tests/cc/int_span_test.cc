// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/int_span.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

namespace servecore {
namespace {

TEST(IntSpanTest, KeepsTheWidthItWasMadeFrom) {
  const std::vector<std::int32_t> narrow = {1, 2, 3};
  const std::vector<std::int64_t> wide = {4, 5};
  const IntSpan from_narrow = narrow;
  const IntSpan from_wide = std::span(wide);
  EXPECT_TRUE(std::holds_alternative<StridedSpan<std::int32_t>>(from_narrow));
  EXPECT_TRUE(std::holds_alternative<StridedSpan<std::int64_t>>(from_wide));
  EXPECT_EQ(Size(from_narrow), 3);
  EXPECT_EQ(Size(from_wide), 2);
  EXPECT_EQ(Size(IntSpan()), 0);
}

TEST(IntSpanTest, IsMadeFromNothingElse) {
  static_assert(!std::is_convertible_v<std::vector<float>, IntSpan>);
  static_assert(!std::is_convertible_v<std::vector<std::int16_t>, IntSpan>);
  static_assert(!std::is_convertible_v<std::vector<std::uint32_t>, IntSpan>);
}

}  // namespace
}  // namespace servecore
