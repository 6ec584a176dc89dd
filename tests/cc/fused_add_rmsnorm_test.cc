// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/fused_add_rmsnorm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "cc/ops/dtype.h"
#include "cc/ops/rmsnorm.h"
#include "cc/ops/row_layout.h"
#include "cc/ops/target.h"
#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

constexpr double kEps = 1e-6;

FusedAddRmsNormArgs Args(StridedTensor& x, StridedTensor& residual,
                         StridedTensor& weight) {
  return {.dtype = x.dtype(),
          .x = x.rows(),
          .residual = residual.rows(),
          .weight = weight.weights(),
          .eps = kEps};
}

class FusedAddRmsNormTest : public testing::TestWithParam<Target> {
  ForcedTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Targets, FusedAddRmsNormTest,
                         testing::ValuesIn(SupportedTargets().begin(),
                                           SupportedTargets().end()),
                         [](const testing::TestParamInfo<Target>& info) {
                           return NameOf(info.param);
                         });

// A layout in which no element lies on another, so that it can be written.
bool Writable(const Layouts& layouts) {
  return std::ranges::find(layouts.x_strides, 0) == layouts.x_strides.end();
}

TEST_P(FusedAddRmsNormTest, IsASumAndItsRmsNormInEveryLayout) {
  unsigned seed = 0;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const Layouts& layouts : AllLayouts()) {
      if (!Writable(layouts)) continue;
      for (const bool cast : {false, true}) {
        std::mt19937 generator(++seed);
        StridedTensor x(dtype, layouts.sizes, layouts.x_strides,
                        layouts.x_base);
        StridedTensor residual(dtype, layouts.sizes, layouts.out_strides,
                               layouts.out_base);
        StridedTensor weight =
            Weight(weight_dtype, x.dim(), layouts.weight_stride);
        x.Randomise(generator);
        residual.Randomise(generator);
        weight.Randomise(generator);
        const StridedTensor x_before = x;
        const StridedTensor residual_before = residual;

        FusedAddRmsNormArgs args = Args(x, residual, weight);
        args.cast_before_weight = cast;
        FusedAddRmsNorm(args);

        for (std::int64_t i = 0; i < x.numel(); ++i) {
          const double sum = x_before.At(i) + residual_before.At(i);
          ASSERT_EQ(residual.At(i), RoundedTo(dtype, sum))
              << NameOf(dtype) << ", " << layouts.name << ", element " << i;
        }
        StridedTensor expected(dtype, layouts.sizes, layouts.x_strides,
                               layouts.x_base);
        RmsNorm({.dtype = dtype,
                 .x = residual.const_rows(),
                 .weight = weight.weights(),
                 .out = expected.rows(),
                 .eps = kEps,
                 .cast_before_weight = cast});
        ASSERT_TRUE(x.Bytes() == expected.Bytes())
            << NameOf(dtype) << ", " << layouts.name << ", dim " << x.dim();
        x.ExpectOthersUntouched(x_before);
        residual.ExpectOthersUntouched(residual_before);
      }
    }
  }
}

TEST_P(FusedAddRmsNormTest, ARangeOfRowsLeavesTheOthers) {
  std::mt19937 generator(GetParam() == Target::kBaseline ? 1 : 2);
  StridedTensor x = StridedTensor::Contiguous(DType::kFloat16, {5, 40});
  StridedTensor residual = x;
  StridedTensor weight = Weight(DType::kFloat16, 40, 1);
  x.Randomise(generator);
  residual.Randomise(generator);
  weight.Randomise(generator);
  StridedTensor all_x = x;
  StridedTensor all_residual = residual;
  const StridedTensor x_before = x;
  const StridedTensor residual_before = residual;
  FusedAddRmsNorm(Args(all_x, all_residual, weight));
  FusedAddRmsNorm(Args(x, residual, weight), 1, 3);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const bool in_range = i >= 40 && i < 120;
    ASSERT_EQ(x.At(i), in_range ? all_x.At(i) : x_before.At(i));
    ASSERT_EQ(residual.At(i),
              in_range ? all_residual.At(i) : residual_before.At(i));
  }
}

TEST_P(FusedAddRmsNormTest, EmptyTensorsTouchNothing) {
  for (const Ints& sizes : {Ints{0, 8}, Ints{3, 0}}) {
    const RowLayout layout(sizes, Ints{8, 1});
    EXPECT_NO_THROW(FusedAddRmsNorm({.dtype = DType::kBFloat16,
                                     .x = {nullptr, layout},
                                     .residual = {nullptr, layout},
                                     .weight = {nullptr, DType::kBFloat16},
                                     .eps = kEps}));
  }
}

TEST(FusedAddRmsNormErrorTest, MisuseNamesBothValuesAndWritesNothing) {
  StridedTensor x = StridedTensor::Contiguous(DType::kFloat64, {2, 3});
  StridedTensor residual = StridedTensor::Contiguous(DType::kFloat64, {2, 4});
  StridedTensor weight = Weight(DType::kFloat64, 3, 1);
  StridedTensor narrow = Weight(DType::kFloat32, 3, 1);
  StridedTensor same = x;
  const StridedTensor before = x;
  EXPECT_EQ(MessageOf([&] { FusedAddRmsNorm(Args(x, residual, weight)); }),
            "FusedAddRmsNorm: x has 2 rows of 3 elements, residual has 2 rows "
            "of 4 elements; they must be equal");
  EXPECT_EQ(MessageOf([&] { FusedAddRmsNorm(Args(x, same, narrow)); }),
            "FusedAddRmsNorm: weight is float32, the rows are float64; allowed "
            "with these are float64");
  EXPECT_EQ(MessageOf([&] { FusedAddRmsNorm(Args(x, same, weight), 0, 3); }),
            "FusedAddRmsNorm: rows [0, 3); allowed are ranges within [0, 2)");
  EXPECT_TRUE(x.memory() == before.memory());
}

}  // namespace
}  // namespace servecore::ops
