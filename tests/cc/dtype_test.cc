// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

// The value of bits of a sign, an exponent and a mantissa, by definition.
double Value(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const double sign =
      (bits >> (exponent_bits + mantissa_bits) & 1U) != 0 ? -1.0 : 1.0;
  const auto mantissa =
      static_cast<double>(bits & ((1U << mantissa_bits) - 1U));
  const int exponent =
      static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1U));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == 2 * bias + 1) {
    return mantissa == 0.0 ? sign * HUGE_VAL : std::nan("");
  }
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  }
  return sign * std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits),
                           exponent - bias - mantissa_bits);
}

TEST(DTypeTest, EveryNarrowValueWidensAndComesBack) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double brain = Value(i, 8, 7);
    const double half = Value(i, 5, 10);
    if (std::isnan(brain)) {
      ASSERT_TRUE(std::isnan(ToFloat(BFloat16{bits}))) << i;
      ASSERT_TRUE(std::isnan(ToFloat(ToBFloat16(ToFloat(BFloat16{bits})))));
    } else {
      ASSERT_EQ(ToFloat(BFloat16{bits}), brain) << i;
      ASSERT_EQ(ToBFloat16(ToFloat(BFloat16{bits})).bits, bits) << i;
    }
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(ToFloat(Float16{bits}))) << i;
      ASSERT_TRUE(std::isnan(ToFloat(ToFloat16(ToFloat(Float16{bits})))));
    } else {
      ASSERT_EQ(ToFloat(Float16{bits}), half) << i;
      ASSERT_EQ(ToFloat16(ToFloat(Float16{bits})).bits, bits) << i;
    }
  }
}

TEST(DTypeTest, NarrowingRoundsToNearestEven) {
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    std::mt19937 generator(exponent);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const auto noise = static_cast<std::uint32_t>(generator());
      // Three in four lie on a boundary of one of them, or beside it.
      const std::uint32_t beside = (noise >> 24 & 3U) - 1U;
      constexpr std::array<std::uint32_t, 4> kBoundaries = {
          0xffffffffU, 0x7f8000U, 0x7ff000U, 0};
      const std::uint32_t mantissa =
          (noise & kBoundaries[i % 4]) + (i % 4 == 0 ? 0 : beside);
      const auto value = std::bit_cast<float>(
          (noise & 0x80000000U) | exponent << 23 | (mantissa & 0x7fffffU));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(ToFloat(ToBFloat16(value))));
        ASSERT_TRUE(std::isnan(ToFloat(ToFloat16(value))));
        continue;
      }
      ASSERT_EQ(ToFloat(ToBFloat16(value)), RoundedTo(DType::kBFloat16, value))
          << value;
      ASSERT_EQ(ToFloat(ToFloat16(value)), RoundedTo(DType::kFloat16, value))
          << value;
    }
  }
}

TEST(DTypeTest, NamesAndSizes) {
  EXPECT_EQ(NameOf(DType::kFloat32), std::string("float32"));
  EXPECT_EQ(NameOf(DType::kBFloat16), std::string("bfloat16"));
  EXPECT_EQ(NameOf(DType::kFloat16), std::string("float16"));
  EXPECT_EQ(NameOf(DType::kFloat64), std::string("float64"));
  EXPECT_EQ(SizeOf(DType::kFloat32), sizeof(float));
  EXPECT_EQ(SizeOf(DType::kBFloat16), sizeof(BFloat16));
  EXPECT_EQ(SizeOf(DType::kFloat16), sizeof(Float16));
  EXPECT_EQ(SizeOf(DType::kFloat64), sizeof(double));
}

}  // namespace
}  // namespace servecore::ops
