// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/silu_and_mul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"
#include "cc/ops/target.h"
#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

double Sigmoid(double a) { return 1.0 / (1.0 + std::exp(-a)); }

// An exponential, a quotient and two products, each within a few units of the
// last place.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat64 ? 2e-15 : 6e-7;
}

// The layout of a tensor whose rows are twice as long as out's: x's gate lies
// in front of its factors.
StridedTensor TwiceAsLong(DType dtype, const Layouts& layouts) {
  Ints sizes = layouts.sizes;
  Ints strides = layouts.x_strides;
  sizes.back() *= 2;
  // Rows that lay side by side must not overlap now; what overlaps on purpose
  // may.
  for (std::size_t i = 0; i + 1 < strides.size(); ++i) strides[i] *= 2;
  const std::int64_t more =
      strides.back() < 0 ? -strides.back() * sizes.back() : 0;
  return {dtype, sizes, strides, 2 * layouts.x_base + more};
}

class SiluAndMulTest : public testing::TestWithParam<Target> {
  ForcedTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Targets, SiluAndMulTest,
                         testing::ValuesIn(SupportedTargets().begin(),
                                           SupportedTargets().end()),
                         [](const testing::TestParamInfo<Target>& info) {
                           return NameOf(info.param);
                         });

TEST_P(SiluAndMulTest, MatchesTheReferenceInEveryLayoutAndWritesNothingElse) {
  unsigned seed = 0;
  for (const DType dtype : kDTypes) {
    for (const Layouts& layouts : AllLayouts()) {
      std::mt19937 generator(++seed);
      StridedTensor x = TwiceAsLong(dtype, layouts);
      StridedTensor out(dtype, layouts.sizes, layouts.out_strides,
                        layouts.out_base);
      x.Randomise(generator);
      out.Randomise(generator);
      const StridedTensor before = out;
      SiluAndMul({.dtype = dtype, .x = x.const_rows(), .out = out.rows()});
      const std::int64_t dim = out.dim();
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        const std::int64_t at = i / dim * 2 * dim + i % dim;
        const double a = x.At(at);
        const double exact = a * Sigmoid(a) * x.At(at + dim);
        ASSERT_TRUE(Near(dtype, out.At(i), exact, Tolerance(dtype), exact))
            << layouts.name << ", dim " << dim << ", element " << i;
      }
      out.ExpectOthersUntouched(before);
    }
  }
}

TEST_P(SiluAndMulTest, TheDerivativeMatchesTheReferenceInEveryLayout) {
  unsigned seed = 100;
  for (const DType dtype : kDTypes) {
    for (const Layouts& layouts : AllLayouts()) {
      std::mt19937 generator(++seed);
      StridedTensor x = TwiceAsLong(dtype, layouts);
      StridedTensor grad(dtype, layouts.sizes, layouts.out_strides,
                         layouts.out_base);
      StridedTensor grad_x =
          StridedTensor::Contiguous(dtype, x.sizes(), layouts.x_base % 3);
      x.Randomise(generator);
      grad.Randomise(generator);
      grad_x.Randomise(generator);
      const StridedTensor before = grad_x;
      SiluAndMulBackward({.dtype = dtype,
                          .grad_out = grad.const_rows(),
                          .x = x.const_rows(),
                          .grad_x = grad_x.rows()});
      const std::int64_t dim = grad.dim();
      for (std::int64_t i = 0; i < grad.numel(); ++i) {
        const std::int64_t at = i / dim * 2 * dim + i % dim;
        const double a = x.At(at);
        const double b = x.At(at + dim);
        const double s = Sigmoid(a);
        const double slope = s * (1.0 + a * (1.0 - s));
        const double factor = grad.At(i) * b;
        // 1 + a * (1 - s) has a zero at -1.28, where its terms cancel.
        ASSERT_TRUE(Near(dtype, grad_x.At(at), factor * slope,
                         2 * Tolerance(dtype), factor * s))
            << layouts.name << ", dim " << dim << ", element " << i;
        const double exact = grad.At(i) * a * s;
        ASSERT_TRUE(
            Near(dtype, grad_x.At(at + dim), exact, Tolerance(dtype), exact))
            << layouts.name << ", dim " << dim << ", element " << i;
      }
      grad_x.ExpectOthersUntouched(before);
    }
  }
}

TEST_P(SiluAndMulTest, TheWholeRangeOfTheExponential) {
  for (const DType dtype : kDTypes) {
    constexpr std::int64_t kDim = 4001;
    StridedTensor x = StridedTensor::Contiguous(dtype, {2, kDim});
    for (std::int64_t i = 0; i < kDim; ++i) {
      x.Set(i, 0.05 * (static_cast<double>(i) - 0.5 * (kDim - 1)));
      x.Set(kDim + i, 1.0);
    }
    // One row of both halves.
    StridedTensor out = StridedTensor::Contiguous(dtype, {1, kDim});
    const RowLayout row(Ints{1, 2 * kDim}, Ints{2 * kDim, 1});
    SiluAndMul({.dtype = dtype, .x = {x.data(), row}, .out = out.rows()});
    for (std::int64_t i = 0; i < kDim; ++i) {
      const double a = x.At(i);
      if (a < -87.0 && dtype != DType::kFloat64) {
        // Subnormal in float32; below -104 nothing is left of it.
        ASSERT_NEAR(out.At(i), 0.0, 1.5e-36);
        continue;
      }
      const double exact = a * Sigmoid(a);
      ASSERT_TRUE(Near(dtype, out.At(i), exact, Tolerance(dtype), exact))
          << "silu(" << a << ")";
    }
  }
}

TEST_P(SiluAndMulTest, WhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : kDTypes) {
    StridedTensor x = StridedTensor::Contiguous(dtype, {1, 10});
    const std::vector<double> values{nan, infinity, -infinity, 2.0, -2.0,
                                     1.0, 1.0,      1.0,       nan, infinity};
    for (std::int64_t i = 0; i < 10; ++i) {
      x.Set(i, values[static_cast<std::size_t>(i)]);
    }
    StridedTensor out = StridedTensor::Contiguous(dtype, {1, 5});
    SiluAndMul({.dtype = dtype, .x = x.const_rows(), .out = out.rows()});
    EXPECT_TRUE(std::isnan(out.At(0))) << NameOf(dtype);
    EXPECT_EQ(out.At(1), infinity) << NameOf(dtype);
    EXPECT_TRUE(std::isnan(out.At(2))) << NameOf(dtype);
    EXPECT_TRUE(std::isnan(out.At(3))) << NameOf(dtype);
    EXPECT_EQ(out.At(4), -infinity) << NameOf(dtype);
  }
}

TEST_P(SiluAndMulTest, MayLieOnEitherHalfAndTheDerivativeOnX) {
  unsigned seed = 200;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t half : {0, 75}) {
      std::mt19937 generator(++seed);
      StridedTensor x = StridedTensor::Contiguous(dtype, {3, 150});
      StridedTensor out = StridedTensor::Contiguous(dtype, {3, 75});
      StridedTensor grad = out;
      StridedTensor grad_x = x;
      x.Randomise(generator);
      grad.Randomise(generator);
      SiluAndMul({.dtype = dtype, .x = x.const_rows(), .out = out.rows()});
      SiluAndMulBackward({.dtype = dtype,
                          .grad_out = grad.const_rows(),
                          .x = x.const_rows(),
                          .grad_x = grad_x.rows()});
      StridedTensor in_place = x;
      SiluAndMul({.dtype = dtype,
                  .x = in_place.const_rows(),
                  .out = {static_cast<std::byte*>(in_place.data()) +
                              static_cast<std::size_t>(half) * SizeOf(dtype),
                          RowLayout(Ints{3, 75}, Ints{150, 1})}});
      for (std::int64_t i = 0; i < 225; ++i) {
        ASSERT_EQ(in_place.At(i / 75 * 150 + half + i % 75), out.At(i));
      }
      SiluAndMulBackward({.dtype = dtype,
                          .grad_out = grad.const_rows(),
                          .x = x.const_rows(),
                          .grad_x = x.rows()});
      EXPECT_TRUE(x.Bytes() == grad_x.Bytes()) << NameOf(dtype);
    }
  }
}

TEST_P(SiluAndMulTest, EmptyTensorsTouchNothing) {
  for (const Ints& sizes : {Ints{0, 8}, Ints{3, 0}}) {
    const RowLayout x(sizes, Ints{8, 1});
    const RowLayout out(Ints{sizes[0], sizes[1] / 2}, Ints{4, 1});
    EXPECT_NO_THROW(SiluAndMul(
        {.dtype = DType::kFloat32, .x = {nullptr, x}, .out = {nullptr, out}}));
    EXPECT_NO_THROW(SiluAndMulBackward({.dtype = DType::kFloat32,
                                        .grad_out = {nullptr, out},
                                        .x = {nullptr, x},
                                        .grad_x = {nullptr, x}}));
  }
}

TEST(SiluAndMulErrorTest, MisuseNamesBothValuesAndWritesNothing) {
  StridedTensor x = StridedTensor::Contiguous(DType::kFloat32, {2, 6});
  StridedTensor out = StridedTensor::Contiguous(DType::kFloat32, {2, 3});
  StridedTensor odd = StridedTensor::Contiguous(DType::kFloat32, {2, 7});
  const StridedTensor before = out;
  const auto run = [&](StridedTensor& from, StridedTensor& to,
                       std::int64_t end) {
    SiluAndMul(
        {.dtype = DType::kFloat32, .x = from.const_rows(), .out = to.rows()}, 0,
        end);
  };
  EXPECT_EQ(MessageOf([&] { run(odd, out, 2); }),
            "SiluAndMul: x has 2 rows of 7 elements, out has 2 rows of 3 "
            "elements; it must have as many rows, half as long");
  EXPECT_EQ(MessageOf([&] { run(x, x, 2); }),
            "SiluAndMul: x has 2 rows of 6 elements, out has 2 rows of 6 "
            "elements; it must have as many rows, half as long");
  EXPECT_EQ(MessageOf([&] { run(x, out, 3); }),
            "SiluAndMul: rows [0, 3); allowed are ranges within [0, 2)");
  EXPECT_EQ(MessageOf([&] {
              SiluAndMulBackward({.dtype = DType::kFloat32,
                                  .grad_out = out.const_rows(),
                                  .x = x.const_rows(),
                                  .grad_x = out.rows()});
            }),
            "SiluAndMulBackward: x has 2 rows of 6 elements, grad_x has 2 rows "
            "of 3 elements; they must be equal");
  EXPECT_TRUE(out.memory() == before.memory());
}

}  // namespace
}  // namespace servecore::ops
