// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"
#include "cc/ops/target.h"
#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

constexpr double kEps = 1e-6;

// The operands of one call, with room for everything.
struct Operands {
  Operands(DType dtype, DType weight_dtype, const Layouts& layouts)
      : grad_out(dtype, layouts.sizes, layouts.out_strides, layouts.out_base),
        x(dtype, layouts.sizes, layouts.x_strides, layouts.x_base),
        weight(Weight(weight_dtype, x.dim(), layouts.weight_stride)),
        grad_x(dtype, layouts.sizes, layouts.out_strides, layouts.out_base),
        grad_weight(StridedTensor::Contiguous(weight_dtype, {x.dim()}, 1)) {}

  void Randomise(std::mt19937& generator) {
    for (StridedTensor* tensor :
         {&grad_out, &x, &weight, &grad_x, &grad_weight}) {
      tensor->Randomise(generator);
    }
  }

  RmsNormBackwardArgs Args() {
    RmsNormBackwardArgs args{.dtype = x.dtype(),
                             .grad_out = grad_out.const_rows(),
                             .x = x.const_rows(),
                             .weight = weight.weights(),
                             .eps = kEps,
                             .grad_x = grad_x.rows(),
                             .grad_weight = grad_weight.data()};
    // Poisoned, and exactly as long as it was said to have to be.
    scratch.assign((RmsNormBackwardScratchBytes(args) + 7) / 8, std::nan(""));
    args.scratch = scratch.data();
    return args;
  }

  StridedTensor grad_out;
  StridedTensor x;
  StridedTensor weight;
  StridedTensor grad_x;
  StridedTensor grad_weight;
  std::vector<double> scratch;
};

void RunAll(const RmsNormBackwardArgs& args) {
  RmsNormBackward(args, 0, RmsNormBackwardGroups(args));
  RmsNormBackwardWeight(args, 0, args.x.layout.dim());
}

// Values, and the size of the terms that they are differences or sums of.
struct Reference {
  explicit Reference(const Operands& o)
      : grad_weight(static_cast<std::size_t>(o.x.dim())),
        weight_terms(grad_weight.size()) {
    const std::int64_t dim = o.x.dim();
    const auto n = static_cast<double>(dim);
    for (std::int64_t row = 0; row < o.x.numel(); row += dim) {
      double squares = 0.0;
      double grads = 0.0;
      double terms = 0.0;
      for (std::int64_t i = 0; i < dim; ++i) {
        const double x = o.x.At(row + i);
        const double term = o.grad_out.At(row + i) * o.weight.At(i) * x;
        squares += x * x;
        grads += term;
        terms += std::abs(term);
      }
      const double s = 1.0 / std::sqrt(squares / n + kEps);
      for (std::int64_t i = 0; i < dim; ++i) {
        const double x = o.x.At(row + i);
        const double gw = o.grad_out.At(row + i) * o.weight.At(i);
        grad_x.push_back(s * (gw - x * s * s * grads / n));
        x_terms.push_back(s * (std::abs(gw) + std::abs(x) * s * s * terms / n));
        const double term = o.grad_out.At(row + i) * x * s;
        grad_weight[static_cast<std::size_t>(i)] += term;
        weight_terms[static_cast<std::size_t>(i)] += std::abs(term);
      }
    }
  }

  std::vector<double> grad_x;
  std::vector<double> x_terms;
  std::vector<double> grad_weight;
  std::vector<double> weight_terms;
};

// float32 sums of up to 512 terms; the reference's own error for float64.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-13 : 2e-6;
}

void ExpectRight(const Operands& o, const Reference& reference,
                 const char* name) {
  const DType dtype = o.x.dtype();
  for (std::int64_t i = 0; i < o.grad_x.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_TRUE(Near(dtype, o.grad_x.At(i), reference.grad_x[at],
                     Tolerance(dtype), reference.x_terms[at]))
        << name << ", dim " << o.x.dim() << ", grad_x " << i;
  }
  for (std::int64_t i = 0; i < o.x.dim(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_TRUE(Near(o.weight.dtype(), o.grad_weight.At(i),
                     reference.grad_weight[at], Tolerance(dtype),
                     reference.weight_terms[at]))
        << name << ", dim " << o.x.dim() << ", grad_weight " << i;
  }
}

class RmsNormBackwardTest : public testing::TestWithParam<Target> {
  ForcedTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Targets, RmsNormBackwardTest,
                         testing::ValuesIn(SupportedTargets().begin(),
                                           SupportedTargets().end()),
                         [](const testing::TestParamInfo<Target>& info) {
                           return NameOf(info.param);
                         });

TEST_P(RmsNormBackwardTest, MatchesTheReferenceInEveryLayout) {
  unsigned seed = 0;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const Layouts& layouts : AllLayouts()) {
      std::mt19937 generator(++seed);
      Operands o(dtype, weight_dtype, layouts);
      o.Randomise(generator);
      const StridedTensor x_before = o.grad_x;
      const StridedTensor weight_before = o.grad_weight;
      const Reference reference(o);
      RunAll(o.Args());
      ExpectRight(o, reference, layouts.name);
      o.grad_x.ExpectOthersUntouched(x_before);
      o.grad_weight.ExpectOthersUntouched(weight_before);
    }
  }
}

// Numbers of rows around those of a group and of what is computed together.
TEST_P(RmsNormBackwardTest, MatchesTheReferenceForAnyNumberOfRows) {
  unsigned seed = 200;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const std::int64_t rows : {1, 2, 4, 5, 15, 16, 17, 33, 1025, 2050}) {
      for (const std::int64_t dim : {5, 64}) {
        std::mt19937 generator(++seed);
        const Layouts layouts{"rows", {rows, dim}, {dim, 1}, 0, {dim, 1}, 0, 1};
        Operands o(dtype, weight_dtype, layouts);
        o.Randomise(generator);
        const Reference reference(o);
        RunAll(o.Args());
        ExpectRight(o, reference, layouts.name);
      }
    }
  }
}

TEST_P(RmsNormBackwardTest, HasTheSameBitsInAnyOrderOfGroupsAndColumns) {
  unsigned seed = 400;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const std::int64_t stride : {1, 2}) {
      std::mt19937 generator(++seed);
      const Layouts layouts{
          "rows", {70, 133}, {133 * stride, stride}, 0, {133, 1}, 0, 1};
      Operands o(dtype, weight_dtype, layouts);
      o.Randomise(generator);
      Operands split = o;
      RunAll(o.Args());

      const RmsNormBackwardArgs args = split.Args();
      for (std::int64_t i = RmsNormBackwardGroups(args); i-- > 0;) {
        RmsNormBackward(args, i, i + 1);
      }
      for (std::int64_t i = 133; i > 0;) {
        const std::int64_t begin = std::max<std::int64_t>(0, i - 37);
        RmsNormBackwardWeight(args, begin, i);
        i = begin;
      }
      EXPECT_TRUE(o.grad_x.Bytes() == split.grad_x.Bytes()) << NameOf(dtype);
      EXPECT_TRUE(o.grad_weight.memory() == split.grad_weight.memory())
          << NameOf(dtype);
    }
  }
}

TEST_P(RmsNormBackwardTest, GivesOnlyWhatIsWantedWithTheSameBits) {
  unsigned seed = 500;
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    for (const std::int64_t stride : {1, 2}) {
      std::mt19937 generator(++seed);
      const Layouts layouts{"rows", {21, 70}, {70 * stride, stride}, 0, {70, 1},
                            0,      1};
      Operands o(dtype, weight_dtype, layouts);
      o.Randomise(generator);
      Operands x_only = o;
      Operands weight_only = o;
      RunAll(o.Args());

      RmsNormBackwardArgs args = x_only.Args();
      args.grad_weight = nullptr;
      args.scratch = nullptr;
      EXPECT_EQ(RmsNormBackwardScratchBytes(args), 0);
      const StridedTensor weight_before = x_only.grad_weight;
      RunAll(args);
      EXPECT_TRUE(x_only.grad_x.Bytes() == o.grad_x.Bytes());
      EXPECT_TRUE(x_only.grad_weight.memory() == weight_before.memory());

      args = weight_only.Args();
      args.grad_x.data = nullptr;
      const StridedTensor x_before = weight_only.grad_x;
      RunAll(args);
      EXPECT_TRUE(weight_only.grad_weight.Bytes() == o.grad_weight.Bytes());
      EXPECT_TRUE(weight_only.grad_x.memory() == x_before.memory());
    }
  }
}

TEST_P(RmsNormBackwardTest, GradXMayBeGradOutOrX) {
  unsigned seed = 600;
  for (const DType dtype : kDTypes) {
    for (const std::int64_t stride : {1, 2}) {
      std::mt19937 generator(++seed);
      const Layouts layouts{"rows",
                            {6, 2115},
                            {2115 * stride, stride},
                            0,
                            {2115 * stride, stride},
                            0,
                            1};
      Operands o(dtype, dtype, layouts);
      o.Randomise(generator);
      Operands on_grad = o;
      Operands on_x = o;
      RunAll(o.Args());
      RmsNormBackwardArgs args = on_grad.Args();
      args.grad_x = on_grad.grad_out.rows();
      RunAll(args);
      EXPECT_TRUE(on_grad.grad_out.Bytes() == o.grad_x.Bytes())
          << NameOf(dtype);
      EXPECT_TRUE(on_grad.grad_weight.Bytes() == o.grad_weight.Bytes())
          << NameOf(dtype);
      args = on_x.Args();
      args.grad_x = on_x.x.rows();
      RunAll(args);
      EXPECT_TRUE(on_x.x.Bytes() == o.grad_x.Bytes()) << NameOf(dtype);
    }
  }
}

TEST_P(RmsNormBackwardTest, NoRowsGiveAGradientOfZeros) {
  for (const auto& [dtype, weight_dtype] : kDTypePairs) {
    const RowLayout no_rows(Ints{0, 40}, Ints{40, 1});
    StridedTensor grad_weight = Weight(weight_dtype, 40, 1);
    for (std::int64_t i = 0; i < 40; ++i) grad_weight.Set(i, 7.0);
    RmsNormBackwardArgs args{.dtype = dtype,
                             .grad_out = {nullptr, no_rows},
                             .x = {nullptr, no_rows},
                             .weight = grad_weight.weights(),
                             .eps = kEps,
                             .grad_x = {nullptr, no_rows},
                             .grad_weight = grad_weight.data()};
    EXPECT_EQ(RmsNormBackwardGroups(args), 0);
    EXPECT_EQ(RmsNormBackwardScratchBytes(args), 0);
    RunAll(args);
    for (std::int64_t i = 0; i < 40; ++i) EXPECT_EQ(grad_weight.At(i), 0.0);
  }
}

TEST_P(RmsNormBackwardTest, RowsOfNoElementsTouchNothing) {
  const RowLayout empty(Ints{40, 0}, Ints{1, 1});
  double element = 7.0;
  const RmsNormBackwardArgs args{.dtype = DType::kFloat64,
                                 .grad_out = {nullptr, empty},
                                 .x = {nullptr, empty},
                                 .weight = {nullptr, DType::kFloat64},
                                 .eps = kEps,
                                 .grad_x = {nullptr, empty},
                                 .grad_weight = &element};
  RunAll(args);
  EXPECT_EQ(element, 7.0);
}

TEST(RmsNormBackwardErrorTest, MisuseNamesBothValuesAndWritesNothing) {
  const Layouts layouts{"rows", {2, 3}, {3, 1}, 0, {3, 1}, 0, 1};
  Operands o(DType::kFloat32, DType::kFloat32, layouts);
  std::mt19937 generator(o.x.numel());
  o.Randomise(generator);
  const StridedTensor before = o.grad_x;
  StridedTensor other = StridedTensor::Contiguous(DType::kFloat32, {2, 4});

  RmsNormBackwardArgs args = o.Args();
  args.grad_out = other.const_rows();
  EXPECT_EQ(MessageOf([&] { RmsNormBackward(args, 0, 1); }),
            "RmsNormBackward: x has 2 rows of 3 elements, grad_out has 2 rows "
            "of 4 elements; they must be equal");
  args = o.Args();
  args.grad_x = other.rows();
  EXPECT_EQ(MessageOf([&] { RmsNormBackward(args, 0, 1); }),
            "RmsNormBackward: x has 2 rows of 3 elements, grad_x has 2 rows of "
            "4 elements; they must be equal");
  args = o.Args();
  args.weight.dtype = DType::kBFloat16;
  EXPECT_EQ(MessageOf([&] { RmsNormBackward(args, 0, 1); }),
            "RmsNormBackward: weight is bfloat16, the rows are float32; "
            "allowed with these are float32");
  args = o.Args();
  args.scratch = nullptr;
  EXPECT_EQ(MessageOf([&] { RmsNormBackward(args, 0, 1); }),
            "RmsNormBackward: grad_weight is given, scratch is null; give 256 "
            "bytes, as RmsNormBackwardScratchBytes says");
  args = o.Args();
  EXPECT_EQ(MessageOf([&] { RmsNormBackward(args, 0, 2); }),
            "RmsNormBackward: groups [0, 2); allowed are ranges within [0, 1)");
  EXPECT_EQ(
      MessageOf([&] { RmsNormBackwardWeight(args, 2, 4); }),
      "RmsNormBackward: columns [2, 4); allowed are ranges within [0, 3)");
  EXPECT_TRUE(o.grad_x.memory() == before.memory());
}

}  // namespace
}  // namespace servecore::ops
