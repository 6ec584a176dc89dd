// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/host_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "cc/ops/dtype.h"

namespace servecore::cuda::testing {
namespace {

// Beside the CPU kernels' own conversions, which have nothing in common with
// these but what they must give.
TEST(HostFloatsTest, EveryNarrowValueIsReadAsItIs) {
  for (std::uint32_t i = 0; i <= 0xffffU; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float bfloat = ops::ToFloat(ops::BFloat16{bits});
    const float half = ops::ToFloat(ops::Float16{bits});
    if (std::isnan(bfloat)) {
      ASSERT_TRUE(std::isnan(FromBfloatBits(bits))) << i;
    } else {
      ASSERT_EQ(FromBfloatBits(bits), bfloat) << i;
    }
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(FromHalfBits(bits))) << i;
    } else {
      ASSERT_EQ(FromHalfBits(bits), half) << i;
    }
  }
}

TEST(HostFloatsTest, NarrowingRoundsToNearestEven) {
  std::mt19937 generator;  // NOLINT(bugprone-random-generator-seed): the same
  for (int i = 0; i < 2'000'000; ++i) {
    auto bits = static_cast<std::uint32_t>(generator());
    // Half of them on a boundary of one of the two, or beside it.
    if (i % 4 == 1) bits = (bits & 0xffff8000U) + (bits & 3U) - 1;
    if (i % 4 == 3) bits = (bits & 0xfffff000U) + (bits & 3U) - 1;
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(FromBfloatBits(BfloatBits(value))));
      ASSERT_TRUE(std::isnan(FromHalfBits(HalfBits(value))));
      continue;
    }
    ASSERT_EQ(BfloatBits(value), ops::ToBFloat16(value).bits) << value;
    ASSERT_EQ(HalfBits(value), ops::ToFloat16(value).bits) << value;
  }
}

}  // namespace
}  // namespace servecore::cuda::testing
