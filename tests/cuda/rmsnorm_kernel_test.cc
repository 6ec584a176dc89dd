// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/rmsnorm_kernel.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda/dtype.h"
#include "cuda/element.cuh"
#include "cuda/rmsnorm_plan.h"
#include "cuda/testing/executor.h"

namespace servecore::cuda {
namespace {

using testing::LaunchOptions;
using testing::Order;

constexpr double kEps = 1e-6;

template <class T>
constexpr DType kDType = DType::kFloat32;
template <>
constexpr DType kDType<__nv_bfloat16> = DType::kBFloat16;
template <>
constexpr DType kDType<__half> = DType::kFloat16;

// Half the distance of neighbours, relative to a value.
template <class T>
constexpr double kHalfUlp = 0.0;
template <>
constexpr double kHalfUlp<__nv_bfloat16> = 0x1p-8;
template <>
constexpr double kHalfUlp<__half> = 0x1p-11;

// Rows in memory of their own, in the middle of elements that nobody may touch.
template <class T>
struct Tensor {
  std::vector<T> memory;
  std::int64_t first = 0;  // where element 0 of row 0 is
  Rows rows;

  [[nodiscard]] std::size_t At(std::int64_t row, std::int64_t column) const {
    std::int64_t offset = first + column * rows.stride;
    for (int i = rows.rank - 1; i >= 0; --i) {
      offset += row % rows.sizes[i] * rows.strides[i];
      row /= rows.sizes[i];
    }
    return static_cast<std::size_t>(offset);
  }
};

// How rows lie. Strides are in elements, and `outer` is of a dimension of two
// around the rows; 0 for none.
struct Layout {
  const char* name;
  std::int64_t shift = 0;    // of the first element from a 16-byte boundary
  std::int64_t padding = 0;  // behind each row
  std::int64_t stride = 1;
  bool is_reversed = false;
  bool has_outer = false;
};

constexpr Layout kLayouts[] = {
    {.name = "dense"},
    {.name = "misaligned", .shift = 1},
    {.name = "padded by a vector", .padding = 4},
    {.name = "padded by an element", .padding = 1},
    {.name = "columns apart", .stride = 3},
    {.name = "rows in reverse", .is_reversed = true},
    {.name = "two leading dimensions", .padding = 8, .has_outer = true},
};

template <class T>
Tensor<T> Make(const Layout& layout, std::int64_t num_rows, std::int64_t dim) {
  constexpr std::int64_t kGuard = 16;
  Tensor<T> tensor;
  const std::int64_t pitch = dim * layout.stride + layout.padding;
  tensor.rows.stride = layout.stride;
  const std::int64_t outer = layout.has_outer ? 2 : 1;
  const std::int64_t inner = num_rows / outer;
  const std::int64_t outer_pitch = inner * pitch + 4;
  tensor.rows.rank = layout.has_outer ? 2 : 1;
  const int last = tensor.rows.rank - 1;
  tensor.rows.sizes[0] = outer;
  tensor.rows.strides[0] = outer_pitch;
  tensor.rows.sizes[last] = inner;
  tensor.rows.strides[last] = layout.is_reversed ? -pitch : pitch;
  tensor.memory.assign(
      static_cast<std::size_t>(outer * outer_pitch + 2 * kGuard),
      FromFloat<T>(std::numeric_limits<float>::quiet_NaN()));
  // A vector's memory is on a 16-byte boundary.
  tensor.first = kGuard + layout.shift;
  if (layout.is_reversed) tensor.first += (inner - 1) * pitch;
  return tensor;
}

template <class T>
void Fill(Tensor<T>* tensor, std::int64_t num_rows, std::int64_t dim,
          unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t column = 0; column < dim; ++column) {
      tensor->memory[tensor->At(row, column)] = FromFloat<T>(normal(generator));
    }
  }
}

template <class T, class W>
void ExpectNormalised(const Layout& x_layout, const Layout& out_layout,
                      std::int64_t num_rows, std::int64_t dim,
                      const LaunchOptions& options) {
  SCOPED_TRACE(std::string("x ") + x_layout.name + ", out " + out_layout.name +
               ", " + std::to_string(num_rows) + " rows of " +
               std::to_string(dim));
  Tensor<T> x = Make<T>(x_layout, num_rows, dim);
  Fill(&x, num_rows, dim, 1);
  Tensor<W> weight = Make<W>(kLayouts[0], 1, dim);
  Fill(&weight, 1, dim, 2);
  Tensor<T> out = Make<T>(out_layout, num_rows, dim);

  RmsNormArgs args;
  args.dtype = kDType<T>;
  args.x = x.memory.data() + x.first;
  args.x_rows = x.rows;
  args.weight = weight.memory.data() + weight.first;
  args.weight_dtype = kDType<W>;
  args.out = out.memory.data() + out.first;
  args.out_rows = out.rows;
  args.num_rows = num_rows;
  args.dim = dim;
  args.eps = static_cast<float>(kEps);
  const RmsNormPlan plan = PlanRmsNorm(args);
  const auto kernel = RmsNormKernelFor(args, plan);
  testing::Launch(
      dim3(static_cast<unsigned>(plan.blocks)),
      dim3(static_cast<unsigned>(plan.threads_per_row),
           static_cast<unsigned>(plan.rows_per_block)),
      0, [&] { kernel(args); }, options);

  std::vector<bool> written(out.memory.size());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    double sum = 0.0;
    for (std::int64_t column = 0; column < dim; ++column) {
      const double value = ToFloat(x.memory[x.At(row, column)]);
      sum += value * value;
    }
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + kEps);
    for (std::int64_t column = 0; column < dim; ++column) {
      const std::size_t at = out.At(row, column);
      written[at] = true;
      const double expected = ToFloat(x.memory[x.At(row, column)]) * scale *
                              ToFloat(weight.memory[weight.At(0, column)]);
      // A few roundings of each term, sums of up to 32 in a thread, and one
      // rounding to T, of which half has no number below 2^-24.
      ASSERT_NEAR(ToFloat(out.memory[at]), expected,
                  (4e-6 + kHalfUlp<T>)*std::abs(expected) + 3e-8)
          << "row " << row << ", column " << column;
    }
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    ASSERT_TRUE(written[i] || std::isnan(ToFloat(out.memory[i])))
        << "wrote beside out, at " << i;
  }
}

template <class Pair>
class RmsNormKernelTest : public ::testing::Test {};

// The dtypes of x and of weight.
template <class X, class Weight>
struct Types {
  using T = X;
  using W = Weight;
};
using AllTypes =
    ::testing::Types<Types<float, float>, Types<__nv_bfloat16, __nv_bfloat16>,
                     Types<__nv_bfloat16, float>, Types<__half, __half>,
                     Types<__half, float>>;
TYPED_TEST_SUITE(RmsNormKernelTest, AllTypes);

TYPED_TEST(RmsNormKernelTest, EveryPlanInEveryOrder) {
  // Of one warp and several, of one value a thread and all that fit, of rows
  // that share a block and the ones too long for registers.
  for (const std::int64_t dim : {1, 3, 4, 8, 31, 32, 33, 128, 130, 1000, 1024,
                                 4096, 8200, 16388, 32776}) {
    for (const Order order :
         {Order::kForward, Order::kReverse, Order::kShuffled}) {
      const std::int64_t num_rows = dim > 2000 ? 1 : 6;
      ExpectNormalised<typename TypeParam::T, typename TypeParam::W>(
          kLayouts[0], kLayouts[0], num_rows, dim,
          {.threads = order, .blocks = order, .seed = 3});
    }
  }
}

TYPED_TEST(RmsNormKernelTest, EveryLayout) {
  for (const Layout& x_layout : kLayouts) {
    for (const Layout& out_layout : kLayouts) {
      for (const std::int64_t dim : {5, 64, 260}) {
        ExpectNormalised<typename TypeParam::T, typename TypeParam::W>(
            x_layout, out_layout, 4, dim, {});
      }
    }
  }
}

void ExpectUnitRows(std::int64_t dim, const LaunchOptions& options) {
  constexpr std::int64_t kRows = 11;
  Tensor<float> x = Make<float>(kLayouts[0], kRows, dim);
  Fill(&x, kRows, dim, 1);
  Tensor<float> out = Make<float>(kLayouts[0], kRows, dim);
  const std::vector<float> weight(static_cast<std::size_t>(dim), 1.0F);
  RmsNormArgs args;
  args.x = x.memory.data() + x.first;
  args.x_rows = x.rows;
  args.weight = weight.data();
  args.out = out.memory.data() + out.first;
  args.out_rows = out.rows;
  args.num_rows = kRows;
  args.dim = dim;
  RmsNormPlan plan = PlanRmsNorm(args);
  plan.blocks = 2;
  const auto kernel = RmsNormKernelFor(args, plan);
  testing::Launch(
      dim3(2),
      dim3(static_cast<unsigned>(plan.threads_per_row),
           static_cast<unsigned>(plan.rows_per_block)),
      0, [&] { kernel(args); }, options);
  for (std::int64_t row = 0; row < kRows; ++row) {
    double sum = 0.0;
    for (std::int64_t column = 0; column < dim; ++column) {
      const double value = ToFloat(out.memory[out.At(row, column)]);
      sum += value * value;
    }
    EXPECT_NEAR(sum / static_cast<double>(dim), 1.0, 1e-5) << "row " << row;
  }
}

TEST(RmsNormKernelRowsTest, BlocksStepOverTheRowsThatAreLeft) {
  // Of one warp, and of several, which meet twice for each row.
  for (const std::int64_t dim : {40, 1000}) {
    ExpectUnitRows(dim, {});
    ExpectUnitRows(dim, {.threads = Order::kReverse});
  }
}

TEST(RmsNormKernelRowsTest, RowsFurtherApartThan32Bits) {
  // Only the address is looked at: no memory is so large.
  Rows rows;
  rows.rank = 2;
  rows.sizes[0] = 4;
  rows.sizes[1] = 3;
  rows.strides[0] = std::int64_t{1} << 40;
  rows.strides[1] = -(std::int64_t{1} << 33);
  EXPECT_EQ(RowOffset(rows, 3 * 2 + 1), 2 * rows.strides[0] + rows.strides[1]);
  rows.rank = 1;
  rows.sizes[0] = 100;
  rows.strides[0] = std::int64_t{1} << 31;
  EXPECT_EQ(RowOffset(rows, 99), 99 * rows.strides[0]);
}

TEST(RmsNormKernelCastTest, RoundsBeforeTheWeightWhereAsked) {
  constexpr std::int64_t kDim = 512;
  Tensor<__nv_bfloat16> x = Make<__nv_bfloat16>(kLayouts[0], 1, kDim);
  Fill(&x, 1, kDim, 5);
  Tensor<__nv_bfloat16> weight = Make<__nv_bfloat16>(kLayouts[0], 1, kDim);
  Fill(&weight, 1, kDim, 6);
  int num_different = 0;
  Tensor<__nv_bfloat16> outs[2];
  for (const bool cast : {false, true}) {
    Tensor<__nv_bfloat16>& out = outs[cast ? 1 : 0];
    out = Make<__nv_bfloat16>(kLayouts[0], 1, kDim);
    RmsNormArgs args;
    args.dtype = args.weight_dtype = DType::kBFloat16;
    args.x = x.memory.data() + x.first;
    args.x_rows = x.rows;
    args.weight = weight.memory.data() + weight.first;
    args.out = out.memory.data() + out.first;
    args.out_rows = out.rows;
    args.num_rows = 1;
    args.dim = kDim;
    args.cast_before_weight = cast;
    const RmsNormPlan plan = PlanRmsNorm(args);
    const auto kernel = RmsNormKernelFor(args, plan);
    testing::Launch(dim3(1),
                    dim3(static_cast<unsigned>(plan.threads_per_row),
                         static_cast<unsigned>(plan.rows_per_block)),
                    0, [&] { kernel(args); });
  }
  double sum = 0.0;
  for (std::int64_t i = 0; i < kDim; ++i) {
    const double value = ToFloat(x.memory[x.At(0, i)]);
    sum += value * value;
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(sum / kDim));
  for (std::int64_t i = 0; i < kDim; ++i) {
    const float once = ToFloat(outs[0].memory[outs[0].At(0, i)]);
    const float twice = ToFloat(outs[1].memory[outs[1].At(0, i)]);
    num_different += once == twice ? 0 : 1;
    const float rounded = ToFloat(
        FromFloat<__nv_bfloat16>(ToFloat(x.memory[x.At(0, i)]) * scale));
    const float expected = ToFloat(FromFloat<__nv_bfloat16>(
        rounded * ToFloat(weight.memory[weight.At(0, i)])));
    // The scale's last bit may turn a rounding that is nearly a tie.
    EXPECT_NEAR(twice, expected, 0x1p-7 * std::abs(expected)) << i;
  }
  // A quarter of bfloat16 results, says the CPU op.
  EXPECT_GT(num_different, kDim / 8);
  EXPECT_LT(num_different, kDim / 2);
}

}  // namespace
}  // namespace servecore::cuda
