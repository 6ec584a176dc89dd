// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/fused_add_rmsnorm_kernel.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cuda/dtype.h"
#include "cuda/element.cuh"
#include "cuda/fused_add_rmsnorm_args.h"
#include "cuda/rmsnorm_kernel.cuh"
#include "cuda/rmsnorm_plan.h"
#include "cuda/testing/executor.h"

namespace servecore::cuda {
namespace {

using testing::LaunchOptions;
using testing::Order;

template <class T>
constexpr DType kDType = DType::kFloat32;
template <>
constexpr DType kDType<__nv_bfloat16> = DType::kBFloat16;
template <>
constexpr DType kDType<__half> = DType::kFloat16;

template <class T>
std::vector<T> Random(std::int64_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<std::size_t>(size));
  for (T& value : values) value = FromFloat<T>(normal(generator));
  return values;
}

Rows RowsOf(std::int64_t num_rows, std::int64_t pitch, std::int64_t stride) {
  Rows rows;
  rows.rank = 1;
  rows.sizes[0] = num_rows;
  rows.strides[0] = pitch;
  rows.stride = stride;
  return rows;
}

dim3 BlockOf(const RmsNormPlan& plan) {
  return {static_cast<unsigned>(plan.threads_per_row),
          static_cast<unsigned>(plan.rows_per_block)};
}

// The bits are those of a rounded addition followed by rmsnorm's kernel, whose
// own test compares it with a float64 reference.
template <class T, class W>
void ExpectSumAndNorm(std::int64_t num_rows, std::int64_t dim,
                      std::int64_t stride, const LaunchOptions& options) {
  SCOPED_TRACE(std::to_string(num_rows) + " rows of " + std::to_string(dim) +
               ", columns " + std::to_string(stride) + " apart");
  const std::int64_t pitch = dim * stride + 8;
  std::vector<T> x = Random<T>(num_rows * pitch, 1);
  std::vector<T> residual = Random<T>(num_rows * pitch, 2);
  const std::vector<W> weight = Random<W>(dim, 3);

  FusedAddRmsNormArgs args;
  args.norm.dtype = kDType<T>;
  args.norm.x = args.residual = residual.data();
  args.norm.x_rows = args.norm.out_rows = RowsOf(num_rows, pitch, stride);
  args.norm.weight = weight.data();
  args.norm.weight_dtype = kDType<W>;
  args.norm.out = x.data();
  args.norm.num_rows = num_rows;
  args.norm.dim = dim;
  args.norm.eps = 1e-6F;

  std::vector<T> sum = residual;
  std::vector<T> expected = x;
  for (std::int64_t row = 0; row < num_rows; ++row) {
    for (std::int64_t column = 0; column < dim; ++column) {
      const auto at = static_cast<std::size_t>(row * pitch + column * stride);
      sum[at] = FromFloat<T>(ToFloat(residual[at]) + ToFloat(x[at]));
    }
  }
  RmsNormArgs norm = args.norm;
  norm.x = sum.data();
  norm.out = expected.data();
  const RmsNormPlan plan = PlanRmsNorm(norm);
  ASSERT_EQ(plan, PlanRmsNorm(args.norm));
  const dim3 grid(static_cast<unsigned>(plan.blocks));
  const auto reference = RmsNormKernelFor(norm, plan);
  testing::Launch(grid, BlockOf(plan), 0, [&] { reference(norm); });

  const auto kernel = FusedAddRmsNormKernelFor(args, plan);
  testing::Launch(grid, BlockOf(plan), 0, [&] { kernel(args); }, options);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(ToFloat(residual[i]), ToFloat(sum[i])) << i;
    ASSERT_EQ(ToFloat(x[i]), ToFloat(expected[i])) << i;
  }
}

template <class T, class W>
void ExpectAll() {
  for (const Order order :
       {Order::kForward, Order::kReverse, Order::kShuffled}) {
    const LaunchOptions options{.threads = order, .blocks = order, .seed = 4};
    for (const std::int64_t dim : {1, 5, 8, 33, 128, 1000, 4096}) {
      ExpectSumAndNorm<T, W>(5, dim, 1, options);
      ExpectSumAndNorm<T, W>(5, dim, 3, options);
    }
    // Too long for registers.
    ExpectSumAndNorm<T, W>(1, 32776, 1, options);
    ExpectSumAndNorm<T, W>(1, 8200, 2, options);
  }
}

TEST(FusedAddRmsNormKernelTest, Float32) { ExpectAll<float, float>(); }
TEST(FusedAddRmsNormKernelTest, BFloat16) {
  ExpectAll<__nv_bfloat16, __nv_bfloat16>();
  ExpectAll<__nv_bfloat16, float>();
}
TEST(FusedAddRmsNormKernelTest, Float16) {
  ExpectAll<__half, __half>();
  ExpectAll<__half, float>();
}

}  // namespace
}  // namespace servecore::cuda
