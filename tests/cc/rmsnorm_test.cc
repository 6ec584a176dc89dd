// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cc/ops/row_layout.h"

namespace servecore::ops {
namespace {

using Ints = std::vector<std::int64_t>;

// Marks memory that no row of out covers.
constexpr float kPoison = -123456.0F;
constexpr double kTolerance = 1e-5;

// A strided tensor in a buffer of its own. `base` leaves room for negative
// strides.
struct Strided {
  Ints sizes;
  Ints strides;
  std::int64_t base = 0;

  [[nodiscard]] RowLayout layout() const { return {sizes, strides}; }

  [[nodiscard]] std::int64_t numel() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1},
                           std::multiplies<>());
  }

  // Offset of element `flat` in row-major order, without RowLayout's help.
  [[nodiscard]] std::int64_t Offset(std::int64_t flat) const {
    std::int64_t offset = base;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      offset += flat % sizes[i] * strides[i];
      flat /= sizes[i];
    }
    return offset;
  }

  [[nodiscard]] std::size_t BufferSize() const {
    std::int64_t end = base;
    for (std::int64_t i = 0; i < numel(); ++i) end = std::max(end, Offset(i));
    return static_cast<std::size_t>(end + 1);
  }
};

std::vector<float> Random(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

// Row-major float64 reference.
std::vector<double> Reference(const Strided& x, const std::vector<float>& data,
                              const std::vector<float>& weight,
                              std::int64_t weight_stride, double eps) {
  const std::int64_t dim = x.sizes.back();
  std::vector<double> result(static_cast<std::size_t>(x.numel()));
  for (std::int64_t begin = 0; begin < x.numel(); begin += dim) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < dim; ++i) {
      const double value = data[x.Offset(begin + i)];
      sum += value * value;
    }
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + eps);
    for (std::int64_t i = 0; i < dim; ++i) {
      result[begin + i] =
          data[x.Offset(begin + i)] * scale * weight[i * weight_stride];
    }
  }
  return result;
}

struct Case {
  std::string name;
  Strided x;
  Strided out;
  std::int64_t weight_stride = 1;
};

class RmsNormLayoutTest : public testing::TestWithParam<Case> {};

TEST_P(RmsNormLayoutTest, MatchesTheReferenceAndWritesNothingElse) {
  const auto& [name, x, out, weight_stride] = GetParam();
  const std::int64_t dim = x.sizes.back();
  const std::vector<float> x_data = Random(x.BufferSize(), 1);
  const std::vector<float> weight =
      Random(static_cast<std::size_t>(dim * weight_stride + 1), 2);
  std::vector<float> out_data(out.BufferSize() + 64, kPoison);

  RmsNorm({.x = x_data.data() + x.base,
           .x_layout = x.layout(),
           .weight = weight.data(),
           .weight_stride = weight_stride,
           .out = out_data.data() + out.base,
           .out_layout = out.layout(),
           .eps = 1e-6});

  const std::vector<double> expected =
      Reference(x, x_data, weight, weight_stride, 1e-6);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    float& actual = out_data[out.Offset(i)];
    ASSERT_NEAR(actual, expected[i], kTolerance * (1 + std::abs(expected[i])))
        << "element " << i;
    actual = kPoison;
  }
  EXPECT_TRUE(std::ranges::all_of(out_data, [](float value) {
    return value == kPoison;
  })) << "memory outside the rows of out was written";
}

Case Contiguous(const std::string& name, Ints sizes) {
  Ints strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * sizes[i + 1];
  }
  const Strided tensor{.sizes = sizes, .strides = strides};
  return {.name = name, .x = tensor, .out = tensor};
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RmsNormLayoutTest,
    testing::Values(
        Contiguous("OneElement", {1}), Contiguous("Vector", {100}),
        Contiguous("BelowALane", {3, 7}), Contiguous("OneVector", {3, 32}),
        Contiguous("OddTail", {5, 67}), Contiguous("OneBlock", {2, 2048}),
        Contiguous("BlockAndTail", {2, 2049}),
        Contiguous("Llama", {2, 2, 4096}), Contiguous("Long", {1, 100'003}),
        Case{"TransposedIn",
             {.sizes = {3, 4, 40}, .strides = {40, 120, 1}},
             {.sizes = {3, 4, 40}, .strides = {160, 40, 1}}},
        Case{"TransposedOut",
             {.sizes = {3, 4, 40}, .strides = {160, 40, 1}},
             {.sizes = {3, 4, 40}, .strides = {40, 120, 1}}},
        Case{"ColumnsApartIn",
             {.sizes = {3, 37}, .strides = {200, 5}},
             {.sizes = {3, 37}, .strides = {37, 1}}},
        Case{"ColumnsApartOut",
             {.sizes = {3, 37}, .strides = {37, 1}},
             {.sizes = {3, 37}, .strides = {1, 3}}},
        Case{"PaddedRows",
             {.sizes = {4, 33}, .strides = {50, 1}},
             {.sizes = {4, 33}, .strides = {35, 1}}},
        Case{"Expanded",
             {.sizes = {4, 33}, .strides = {0, 1}},
             {.sizes = {4, 33}, .strides = {33, 1}}},
        Case{"OneValuePerRow",
             {.sizes = {4, 33}, .strides = {1, 0}},
             {.sizes = {4, 33}, .strides = {33, 1}}},
        Case{"Reversed",
             {.sizes = {4, 33}, .strides = {-33, -1}, .base = 131},
             {.sizes = {4, 33}, .strides = {-33, 1}, .base = 99}},
        Case{"StridedWeight",
             {.sizes = {2, 33}, .strides = {33, 1}},
             {.sizes = {2, 33}, .strides = {33, 1}},
             3},
        Case{"OneWeight",
             {.sizes = {2, 33}, .strides = {33, 1}},
             {.sizes = {2, 33}, .strides = {33, 1}},
             0}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// A dense two-dimensional call, for tests that are not about layouts.
std::vector<float> Normalise(const std::vector<float>& x, std::int64_t rows,
                             double eps, std::int64_t begin, std::int64_t end) {
  const auto dim = static_cast<std::int64_t>(x.size()) / rows;
  const std::vector<float> weight(static_cast<std::size_t>(dim), 1.0F);
  std::vector<float> out(x.size(), kPoison);
  const RowLayout layout(Ints{rows, dim}, Ints{dim, 1});
  RmsNorm({.x = x.data(),
           .x_layout = layout,
           .weight = weight.data(),
           .weight_stride = 1,
           .out = out.data(),
           .out_layout = layout,
           .eps = eps},
          begin, end);
  return out;
}

TEST(RmsNormTest, ARangeOfRowsGivesTheSameBitsAndLeavesTheOthers) {
  constexpr std::size_t kDim = 50;
  const std::vector<float> x = Random(7 * kDim, 3);
  const std::vector<float> all = Normalise(x, 7, 1e-6, 0, 7);
  const std::vector<float> part = Normalise(x, 7, 1e-6, 2, 5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool in_range = i >= 2 * kDim && i < 5 * kDim;
    ASSERT_EQ(part[i], in_range ? all[i] : kPoison) << "element " << i;
  }
}

TEST(RmsNormTest, MayRunInPlace) {
  constexpr std::size_t kDim = 67;
  const std::vector<float> x = Random(3 * kDim, 4);
  const std::vector<float> expected = Normalise(x, 3, 1e-6, 0, 3);
  std::vector<float> data = x;
  const std::vector<float> weight(kDim, 1.0F);
  const RowLayout layout(Ints{3, 67}, Ints{67, 1});
  RmsNorm({.x = data.data(),
           .x_layout = layout,
           .weight = weight.data(),
           .weight_stride = 1,
           .out = data.data(),
           .out_layout = layout,
           .eps = 1e-6});
  EXPECT_EQ(data, expected);
}

TEST(RmsNormTest, EpsCountsWhereRowsAreSmall) {
  const std::vector<float> out = Normalise({1e-3F, 1e-3F}, 1, 3e-6, 0, 1);
  EXPECT_NEAR(out[0], 0.5, 1e-6);
  EXPECT_EQ(Normalise({0.0F, 0.0F}, 1, 1e-6, 0, 1),
            (std::vector<float>{0.0F, 0.0F}));
}

TEST(RmsNormTest, LongRowsLoseNothing) {
  // 1.1 squared is no float32, so every addition to a large float32 sum rounds
  // the same way: lanes that ran on over the whole row would be 1 % off.
  const std::vector<float> x(std::size_t{1} << 23, 1.1F);
  const std::vector<float> out = Normalise(x, 1, 0.0, 0, 1);
  EXPECT_NEAR(out.front(), 1.0, kTolerance);
  EXPECT_NEAR(out.back(), 1.0, kTolerance);
}

TEST(RmsNormTest, LargeRowsGiveZerosLikeTorchAndNanStaysInItsRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out =
      Normalise({1e30F, 1e30F, nan, 1.0F, 2.0F, 2.0F}, 3, 0.0, 0, 3);
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(out[4], 1.0F);
}

TEST(RmsNormTest, EmptyTensorsTouchNothing) {
  const RowLayout no_rows(Ints{0, 8}, Ints{8, 1});
  const RowLayout empty_rows(Ints{3, 0}, Ints{1, 1});
  for (const RowLayout& layout : {no_rows, empty_rows}) {
    EXPECT_NO_THROW(RmsNorm({.x = nullptr,
                             .x_layout = layout,
                             .weight = nullptr,
                             .weight_stride = 1,
                             .out = nullptr,
                             .out_layout = layout,
                             .eps = 1e-6}));
  }
}

std::string MessageOf(const Ints& out_sizes, std::int64_t begin,
                      std::int64_t end, std::vector<float>& out) {
  const std::vector<float> x(6, 1.0F);
  try {
    RmsNorm({.x = x.data(),
             .x_layout = {Ints{2, 3}, Ints{3, 1}},
             .weight = x.data(),
             .weight_stride = 1,
             .out = out.data(),
             .out_layout = {out_sizes, Ints{out_sizes[1], 1}},
             .eps = 1e-6},
            begin, end);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(RmsNormTest, MisuseNamesBothValuesAndWritesNothing) {
  std::vector<float> out(6, kPoison);
  EXPECT_EQ(MessageOf({3, 2}, 0, 2, out),
            "RmsNorm: x has 2 rows of 3 elements, out has 3 rows of 2 "
            "elements; they must be equal");
  EXPECT_EQ(MessageOf({2, 3}, 1, 3, out),
            "RmsNorm: rows [1, 3); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf({2, 3}, -1, 1, out),
            "RmsNorm: rows [-1, 1); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf({2, 3}, 2, 1, out),
            "RmsNorm: rows [2, 1); allowed are ranges within [0, 2)");
  EXPECT_EQ(out, std::vector<float>(6, kPoison));
}

}  // namespace
}  // namespace servecore::ops
