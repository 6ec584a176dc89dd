// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "cc/ops/row_layout.h"

namespace servecore::ops {
namespace {

// A sum of n float32 terms may be off by n/lanes rounding errors. Blocks keep
// that below 64 of them, 4e-6, before the square root halves it; beyond a block
// float64 takes over.
constexpr std::int64_t kBlock = 2048;

// Additions have a latency of 4 cycles and a throughput of 2 per cycle, so
// eight vectors in flight keep a core busy. 32 floats are eight SSE registers.
constexpr std::int64_t kLanes = 32;

float BlockSumOfSquares(const float* x, std::int64_t size) {
  std::array<float, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += x[i + lane] * x[i + lane];
    }
  }
  for (std::int64_t lane = 0; i < size; ++i, ++lane) {
    lanes[lane] += x[i] * x[i];
  }
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

double SumOfSquares(const float* x, std::int64_t dim) {
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < dim; begin += kBlock) {
    sum += static_cast<double>(
        BlockSumOfSquares(x + begin, std::min(kBlock, dim - begin)));
  }
  return sum;
}

double StridedSumOfSquares(const float* x, std::int64_t stride,
                           std::int64_t dim) {
  std::array<double, 4> sums{};
  std::int64_t i = 0;
  for (; i + 4 <= dim; i += 4) {
    for (std::int64_t lane = 0; lane < 4; ++lane) {
      const float value = x[(i + lane) * stride];
      sums[lane] += static_cast<double>(value * value);
    }
  }
  for (; i < dim; ++i) {
    const float value = x[i * stride];
    sums[0] += static_cast<double>(value * value);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

float InverseRms(double sum_of_squares, std::int64_t dim, double eps) {
  return static_cast<float>(
      1.0 / std::sqrt(sum_of_squares / static_cast<double>(dim) + eps));
}

void ScaleRow(const float* x, float scale, const float* weight, float* out,
              std::int64_t dim) {
  // Element i of out depends on element i of x only, so running in place is
  // safe and no overlap check is needed before vectorising.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < dim; ++i) out[i] = x[i] * scale * weight[i];
}

void Validate(const RmsNormArgs& args, std::int64_t row_begin,
              std::int64_t row_end) {
  const RowLayout& x = args.x_layout;
  const RowLayout& out = args.out_layout;
  if (x.rows() != out.rows() || x.dim() != out.dim()) {
    throw std::invalid_argument(
        "RmsNorm: x has " + std::to_string(x.rows()) + " rows of " +
        std::to_string(x.dim()) + " elements, out has " +
        std::to_string(out.rows()) + " rows of " + std::to_string(out.dim()) +
        " elements; they must be equal");
  }
  if (row_begin < 0 || row_begin > row_end || row_end > x.rows()) {
    throw std::invalid_argument("RmsNorm: rows [" + std::to_string(row_begin) +
                                ", " + std::to_string(row_end) +
                                "); allowed are ranges within [0, " +
                                std::to_string(x.rows()) + ")");
  }
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, std::int64_t row_begin,
             std::int64_t row_end) {
  Validate(args, row_begin, row_end);
  const std::int64_t dim = args.x_layout.dim();
  if (dim == 0 || row_begin == row_end) return;

  const std::int64_t x_stride = args.x_layout.stride();
  const std::int64_t out_stride = args.out_layout.stride();
  const bool dense =
      x_stride == 1 && out_stride == 1 && args.weight_stride == 1;
  RowCursor x_row(args.x_layout, row_begin);
  RowCursor out_row(args.out_layout, row_begin);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const float* x = args.x + x_row.offset();
    float* out = args.out + out_row.offset();
    const double sum = x_stride == 1 ? SumOfSquares(x, dim)
                                     : StridedSumOfSquares(x, x_stride, dim);
    const float scale = InverseRms(sum, dim, args.eps);
    if (dense) {
      ScaleRow(x, scale, args.weight, out, dim);
    } else {
      for (std::int64_t i = 0; i < dim; ++i) {
        out[i * out_stride] =
            x[i * x_stride] * scale * args.weight[i * args.weight_stride];
      }
    }
    x_row.Next();
    out_row.Next();
  }
}

void RmsNorm(const RmsNormArgs& args) {
  RmsNorm(args, 0, args.x_layout.rows());
}

}  // namespace servecore::ops
