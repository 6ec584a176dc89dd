// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"
#include "cc/ops/target.h"
#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

constexpr double kEps = 1e-6;

// Row-major float64 reference.
std::vector<double> Reference(const StridedTensor& x,
                              const StridedTensor& weight, bool cast) {
  const std::int64_t dim = x.dim();
  std::vector<double> result;
  for (std::int64_t begin = 0; begin < x.numel(); begin += dim) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < dim; ++i) {
      sum += x.At(begin + i) * x.At(begin + i);
    }
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + kEps);
    for (std::int64_t i = 0; i < dim; ++i) {
      const double normal = x.At(begin + i) * scale;
      result.push_back((cast ? RoundedTo(x.dtype(), normal) : normal) *
                       weight.At(i));
    }
  }
  return result;
}

// What float32 arithmetic may be off by, beside half a unit of the last place
// of what is stored.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-14 : 1e-6;
}

RmsNormArgs Args(StridedTensor& x, StridedTensor& weight, StridedTensor& out) {
  return {.dtype = x.dtype(),
          .x = x.const_rows(),
          .weight = weight.weights(),
          .out = out.rows(),
          .eps = kEps};
}

class RmsNormTest : public testing::TestWithParam<Target> {
  ForcedTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Targets, RmsNormTest,
                         testing::ValuesIn(SupportedTargets().begin(),
                                           SupportedTargets().end()),
                         [](const testing::TestParamInfo<Target>& info) {
                           return NameOf(info.param);
                         });

TEST_P(RmsNormTest, MatchesTheReferenceInEveryLayoutAndWritesNothingElse) {
  unsigned seed = 0;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const Layouts& layouts : AllLayouts()) {
      std::mt19937 generator(++seed);
      StridedTensor x(dtype, layouts.sizes, layouts.x_strides, layouts.x_base);
      StridedTensor out(dtype, layouts.sizes, layouts.out_strides,
                        layouts.out_base);
      StridedTensor weight =
          Weight(weight_dtype, x.dim(), layouts.weight_stride);
      x.Randomise(generator);
      weight.Randomise(generator);
      out.Randomise(generator);
      const StridedTensor before = out;

      RmsNorm(Args(x, weight, out));

      const std::vector<double> expected = Reference(x, weight, false);
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        const double exact = expected[static_cast<std::size_t>(i)];
        ASSERT_TRUE(Near(dtype, out.At(i), exact, Tolerance(dtype), exact))
            << NameOf(dtype) << ", " << NameOf(weight_dtype) << ", "
            << layouts.name << ", dim " << x.dim() << ", element " << i;
      }
      out.ExpectOthersUntouched(before);
    }
  }
}

TEST_P(RmsNormTest, ARowHasTheSameBitsHoweverItLies) {
  unsigned seed = 100;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const Layouts& layouts : AllLayouts()) {
      std::mt19937 generator(++seed);
      StridedTensor x(dtype, layouts.sizes, layouts.x_strides, layouts.x_base);
      StridedTensor out(dtype, layouts.sizes, layouts.out_strides,
                        layouts.out_base);
      StridedTensor weight =
          Weight(weight_dtype, x.dim(), layouts.weight_stride);
      x.Randomise(generator);
      weight.Randomise(generator);
      StridedTensor dense_x = StridedTensor::Contiguous(dtype, layouts.sizes);
      StridedTensor dense_weight =
          StridedTensor::Contiguous(weight_dtype, {x.dim()});
      StridedTensor dense_out = dense_x;
      for (std::int64_t i = 0; i < x.numel(); ++i) dense_x.Set(i, x.At(i));
      for (std::int64_t i = 0; i < x.dim(); ++i) {
        dense_weight.Set(i, weight.At(i));
      }
      for (const bool cast : {false, true}) {
        RmsNormArgs args = Args(x, weight, out);
        RmsNormArgs dense_args = Args(dense_x, dense_weight, dense_out);
        args.cast_before_weight = dense_args.cast_before_weight = cast;
        RmsNorm(args);
        RmsNorm(dense_args);
        ASSERT_TRUE(out.Bytes() == dense_out.Bytes())
            << NameOf(dtype) << ", " << layouts.name << ", dim " << x.dim();
      }
    }
  }
}

// What is larger than the caches goes a way of its own.
TEST_P(RmsNormTest, ALargeTensorHasTheBitsOfItsRows) {
  const Ints dims{4096, 4099, 7};
  auto turn = static_cast<std::size_t>(GetParam());
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    const std::int64_t dim = dims[++turn % dims.size()];
    std::mt19937 generator(static_cast<unsigned>(turn));
    const std::int64_t rows = (std::int64_t{9} << 20) / dim /
                              static_cast<std::int64_t>(SizeOf(dtype));
    StridedTensor x = StridedTensor::Contiguous(dtype, {rows, dim}, dim % 3);
    StridedTensor out = StridedTensor::Contiguous(dtype, {rows, dim}, 1);
    StridedTensor weight = Weight(weight_dtype, dim, 1);
    StridedTensor values = Weight(dtype, 997, 1);
    values.Randomise(generator);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      x.Set(i, values.At(i % values.numel()));
    }
    weight.Randomise(generator);
    const StridedTensor before = out;
    const RmsNormArgs args = Args(x, weight, out);
    RmsNorm(args);
    out.ExpectOthersUntouched(before);

    // A range of the rows as a tensor of its own, which fits into the caches.
    constexpr std::int64_t kFew = 5;
    for (const std::int64_t begin : {std::int64_t{0}, rows / 2, rows - kFew}) {
      StridedTensor few = StridedTensor::Contiguous(dtype, {kFew, dim});
      RmsNormArgs few_args = args;
      few_args.out = few.rows();
      few_args.x = {static_cast<const std::byte*>(x.data()) +
                        static_cast<std::size_t>(begin * dim) * SizeOf(dtype),
                    few.layout()};
      RmsNorm(few_args);
      for (std::int64_t i = 0; i < few.numel(); ++i) {
        ASSERT_EQ(out.At(begin * dim + i), few.At(i))
            << NameOf(dtype) << ", dim " << dim << ", element " << i;
      }
    }
  }
}

TEST_P(RmsNormTest, RoundsCorrectlyInAllButOneOfTenThousand) {
  unsigned seed = 300;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::mt19937 generator(++seed);
    StridedTensor x = StridedTensor::Contiguous(dtype, {512, 4096});
    StridedTensor out = x;
    StridedTensor weight = Weight(dtype, 4096, 1);
    x.Randomise(generator);
    weight.Randomise(generator);
    RmsNorm(Args(x, weight, out));
    const std::vector<double> expected = Reference(x, weight, false);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      const double exact = expected[static_cast<std::size_t>(i)];
      wrong += out.At(i) != RoundedTo(dtype, exact) ? 1 : 0;
    }
    EXPECT_LT(wrong, out.numel() / 10'000) << NameOf(dtype);
    RecordProperty(std::string("misrounded_") + NameOf(dtype),
                   static_cast<int>(wrong));
  }
}

TEST_P(RmsNormTest, CastBeforeWeightRoundsTwice) {
  unsigned seed = 400;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    std::mt19937 generator(++seed);
    StridedTensor x = StridedTensor::Contiguous(dtype, {64, 515});
    StridedTensor out = x;
    StridedTensor once = x;
    StridedTensor weight = Weight(weight_dtype, 515, 1);
    x.Randomise(generator);
    weight.Randomise(generator);
    RmsNormArgs args = Args(x, weight, out);
    args.cast_before_weight = true;
    RmsNorm(args);
    RmsNorm(Args(x, weight, once));
    const std::vector<double> expected = Reference(x, weight, true);
    std::int64_t wrong = 0;
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      const double exact = expected[static_cast<std::size_t>(i)];
      wrong += Near(dtype, out.At(i), exact, Tolerance(dtype), exact) ? 0 : 1;
      different += out.At(i) != once.At(i) ? 1 : 0;
    }
    // A float32 error of the first rounding may show as a whole unit.
    EXPECT_LE(wrong, out.numel() / 1000) << NameOf(dtype);
    if (SizeOf(dtype) == 2) {
      EXPECT_GT(different, out.numel() / 20) << NameOf(dtype);
    } else {
      EXPECT_EQ(different, 0) << NameOf(dtype);
    }
  }
}

TEST_P(RmsNormTest, ARangeOfRowsGivesTheSameBitsAndLeavesTheOthers) {
  unsigned seed = 500;
  for (const DType dtype : kDTypes) {
    std::mt19937 generator(++seed);
    StridedTensor x = StridedTensor::Contiguous(dtype, {7, 50});
    StridedTensor all = x;
    StridedTensor weight = Weight(dtype, 50, 1);
    x.Randomise(generator);
    weight.Randomise(generator);
    StridedTensor part = all;
    part.Randomise(generator);
    const StridedTensor before = part;
    RmsNorm(Args(x, weight, all));
    RmsNorm(Args(x, weight, part), 2, 5);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const bool in_range = i >= 100 && i < 250;
      ASSERT_EQ(part.At(i), in_range ? all.At(i) : before.At(i)) << i;
    }
  }
}

TEST_P(RmsNormTest, MayRunInPlace) {
  unsigned seed = 600;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t stride : {1, 2}) {
      std::mt19937 generator(++seed);
      StridedTensor x(dtype, {3, 2115}, {2115 * stride, stride});
      StridedTensor out = x;
      StridedTensor weight = Weight(dtype, 2115, 1);
      x.Randomise(generator);
      weight.Randomise(generator);
      RmsNorm(Args(x, weight, out));
      RmsNorm(Args(x, weight, x));
      EXPECT_TRUE(x.Bytes() == out.Bytes()) << NameOf(dtype);
    }
  }
}

// Splits each row at `splits`, as callers with more threads than rows do.
void InPieces(const RmsNormArgs& args, const Ints& splits) {
  for (std::int64_t row = 0; row < args.x.layout.rows(); ++row) {
    double sum = 0.0;
    for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
      sum += RmsNormSumOfSquares(args, row, splits[i], splits[i + 1]);
    }
    for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
      RmsNormScale(args, row, sum, splits[i], splits[i + 1]);
    }
  }
}

TEST_P(RmsNormTest, PiecesOfARowMakeTheRow) {
  unsigned seed = 700;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const std::int64_t stride : {1, 3}) {
      for (const Ints& splits : {Ints{0, 5003}, Ints{0, 2048, 4096, 5003},
                                 Ints{0, 1, 1, 77, 5003}}) {
        std::mt19937 generator(++seed);
        StridedTensor x(dtype, {2, 5003}, {5003 * stride, stride}, 1);
        StridedTensor out(dtype, {2, 5003}, {1, 2});
        StridedTensor weight = Weight(weight_dtype, 5003, stride);
        x.Randomise(generator);
        weight.Randomise(generator);
        const StridedTensor before = out;
        InPieces(Args(x, weight, out), splits);
        const std::vector<double> expected = Reference(x, weight, false);
        for (std::int64_t i = 0; i < out.numel(); ++i) {
          const double exact = expected[static_cast<std::size_t>(i)];
          ASSERT_TRUE(Near(dtype, out.At(i), exact, Tolerance(dtype), exact))
              << NameOf(dtype) << ", element " << i;
        }
        out.ExpectOthersUntouched(before);
      }
    }
  }
}

// One row of these values, weights of one.
std::vector<double> Normalise(DType dtype, const std::vector<double>& values,
                              double eps) {
  const auto dim = static_cast<std::int64_t>(values.size());
  StridedTensor x = StridedTensor::Contiguous(dtype, {1, dim});
  StridedTensor out = x;
  StridedTensor weight = Weight(dtype, dim, 1);
  for (std::int64_t i = 0; i < dim; ++i) {
    x.Set(i, values[static_cast<std::size_t>(i)]);
    weight.Set(i, 1.0);
  }
  RmsNormArgs args = Args(x, weight, out);
  args.eps = eps;
  RmsNorm(args);
  std::vector<double> result;
  for (std::int64_t i = 0; i < dim; ++i) result.push_back(out.At(i));
  return result;
}

TEST_P(RmsNormTest, SquaresOfNarrowTypesDoNotOverflow) {
  EXPECT_EQ(Normalise(DType::kFloat16, std::vector<double>(100, 300.0), 0.0),
            std::vector<double>(100, 1.0));
  EXPECT_EQ(Normalise(DType::kFloat16, std::vector<double>(100, 65504.0), 0.0),
            std::vector<double>(100, 1.0));
  EXPECT_EQ(Normalise(DType::kBFloat16, std::vector<double>(100, 1e18), 0.0),
            std::vector<double>(100, 1.0));
  EXPECT_EQ(Normalise(DType::kFloat64, std::vector<double>(100, 1e100), 0.0),
            std::vector<double>(100, 1.0));
}

TEST_P(RmsNormTest, EpsCountsWhereRowsAreSmall) {
  EXPECT_NEAR(Normalise(DType::kFloat32, {1e-3, 1e-3}, 3e-6)[0], 0.5, 1e-6);
  for (const DType dtype : kDTypes) {
    EXPECT_EQ(Normalise(dtype, {0.0, 0.0}, 1e-6), std::vector<double>(2, 0.0));
  }
}

TEST_P(RmsNormTest, LongRowsLoseNothing) {
  // 1.1 squared is no float32, so every addition to a large float32 sum rounds
  // the same way: lanes that ran on over the whole row would be 1 % off.
  const std::vector<double> x(std::size_t{1} << 21, 1.1);
  EXPECT_NEAR(Normalise(DType::kFloat32, x, 0.0).front(), 1.0, 1e-6);
  EXPECT_EQ(Normalise(DType::kBFloat16, x, 0.0).back(), 1.0);
}

TEST_P(RmsNormTest, WhatIsNotFiniteIsWhatTorchMakesOfIt) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Normalise(DType::kFloat32, {1e30, 1e30}, 0.0),
            std::vector<double>(2, 0.0));
  for (const DType dtype : kDTypes) {
    for (const double value : Normalise(dtype, {nan, 1.0}, 0.0)) {
      EXPECT_TRUE(std::isnan(value)) << NameOf(dtype);
    }
    const std::vector<double> row = Normalise(dtype, {infinity, 1.0}, 0.0);
    EXPECT_TRUE(std::isnan(row[0])) << NameOf(dtype);
    EXPECT_EQ(row[1], 0.0) << NameOf(dtype);
  }
}

// x of ones and an eps of 0 make the output the weight, rounded.
StridedTensor OnesTimes(DType dtype, const ColumnWeights& weight,
                        std::int64_t dim) {
  StridedTensor x = StridedTensor::Contiguous(dtype, {1, dim});
  for (std::int64_t i = 0; i < dim; ++i) x.Set(i, 1.0);
  StridedTensor out = x;
  RmsNorm({.dtype = dtype,
           .x = x.const_rows(),
           .weight = weight,
           .out = out.rows(),
           .eps = 0.0});
  return out;
}

TEST_P(RmsNormTest, EveryNarrowValueIsReadAndWritten) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::uint16_t>(i);
  }
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const StridedTensor out = OnesTimes(dtype, {all.data(), dtype}, 65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double value = dtype == DType::kFloat16 ? ToFloat(Float16{all[i]})
                                                    : ToFloat(BFloat16{all[i]});
      const double actual = out.At(static_cast<std::int64_t>(i));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(actual)) << NameOf(dtype) << ", bits " << i;
      } else {
        ASSERT_EQ(actual, value) << NameOf(dtype) << ", bits " << i;
      }
    }
  }
}

TEST_P(RmsNormTest, EveryKindOfFloatIsRoundedAsItShould) {
  std::vector<float> floats;
  unsigned seed = 800;
  std::mt19937 generator(++seed);
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t i = 0; i < 200; ++i) {
      const auto noise = static_cast<std::uint32_t>(generator());
      // Half of them on the boundaries of bfloat16 or float16, or beside them.
      std::uint32_t mantissa = noise;
      if (i % 2 == 1) {
        mantissa &= i % 4 == 1 ? 0x7f8000U : 0x7ff000U;
        mantissa += (noise >> 30) - 1;
      }
      floats.push_back(std::bit_cast<float>(
          (noise & 0x80000000U) | exponent << 23 | (mantissa & 0x7fffffU)));
    }
  }
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const StridedTensor out =
        OnesTimes(dtype, {floats.data(), DType::kFloat32},
                  static_cast<std::int64_t>(floats.size()));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const double actual = out.At(static_cast<std::int64_t>(i));
      if (std::isnan(floats[i])) {
        ASSERT_TRUE(std::isnan(actual)) << NameOf(dtype) << ", element " << i;
      } else {
        ASSERT_EQ(actual, RoundedTo(dtype, floats[i]))
            << NameOf(dtype) << " of " << floats[i];
      }
    }
  }
}

// Rounding by an addition makes -0 of a NaN with all bits set.
TEST_P(RmsNormTest, EveryNanOfAWeightStaysOne) {
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    if (weight_dtype != DType::kFloat32) continue;
    for (const std::uint32_t bits :
         {0x7fffffffU, 0xffffffffU, 0x7f800001U, 0x7fc00000U}) {
      std::vector<float> weight(70, std::bit_cast<float>(bits));
      StridedTensor x = StridedTensor::Contiguous(dtype, {1, 70});
      for (std::int64_t i = 0; i < 70; ++i) x.Set(i, 1.0);
      StridedTensor out = x;
      RmsNorm({.dtype = dtype,
               .x = x.const_rows(),
               .weight = {weight.data(), DType::kFloat32},
               .out = out.rows(),
               .eps = kEps});
      for (std::int64_t i = 0; i < 70; ++i) {
        ASSERT_TRUE(std::isnan(out.At(i)))
            << NameOf(dtype) << ", bits " << bits << ", element " << i;
      }
    }
  }
}

TEST_P(RmsNormTest, EmptyTensorsTouchNothing) {
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    const RowLayout no_rows(Ints{0, 8}, Ints{8, 1});
    const RowLayout empty_rows(Ints{3, 0}, Ints{1, 1});
    for (const RowLayout& layout : {no_rows, empty_rows}) {
      EXPECT_NO_THROW(RmsNorm({.dtype = dtype,
                               .x = {nullptr, layout},
                               .weight = {nullptr, weight_dtype},
                               .out = {nullptr, layout},
                               .eps = kEps}));
    }
  }
}

TEST(RmsNormErrorTest, MisuseNamesBothValuesAndWritesNothing) {
  StridedTensor x = StridedTensor::Contiguous(DType::kFloat32, {2, 3});
  StridedTensor out = StridedTensor::Contiguous(DType::kFloat32, {3, 2});
  StridedTensor weight = Weight(DType::kFloat32, 3, 1);
  std::mt19937 generator(out.numel());
  out.Randomise(generator);
  const StridedTensor before = out;
  EXPECT_EQ(MessageOf([&] { RmsNorm(Args(x, weight, out)); }),
            "RmsNorm: x has 2 rows of 3 elements, out has 3 rows of 2 "
            "elements; they must be equal");
  const RmsNormArgs args = Args(x, weight, x);
  EXPECT_EQ(MessageOf([&] { RmsNorm(args, 1, 3); }),
            "RmsNorm: rows [1, 3); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf([&] { RmsNorm(args, -1, 1); }),
            "RmsNorm: rows [-1, 1); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf([&] { RmsNorm(args, 2, 1); }),
            "RmsNorm: rows [2, 1); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf([&] { RmsNormScale(args, 2, 1.0, 0, 1); }),
            "RmsNorm: rows [2, 3); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf([&] { (void)RmsNormSumOfSquares(args, 0, 2, 4); }),
            "RmsNorm: columns [2, 4); allowed are ranges within [0, 3)");
  RmsNormArgs wide = args;
  wide.dtype = DType::kFloat64;
  EXPECT_EQ(MessageOf([&] { RmsNorm(wide); }),
            "RmsNorm: weight is float32, the rows are float64; allowed with "
            "these are float64");
  wide.dtype = DType::kBFloat16;
  wide.weight.dtype = DType::kFloat16;
  EXPECT_EQ(MessageOf([&] { RmsNorm(wide); }),
            "RmsNorm: weight is float16, the rows are bfloat16; allowed with "
            "these are bfloat16 and float32");
  EXPECT_TRUE(out.memory() == before.memory());
}

}  // namespace
}  // namespace servecore::ops
