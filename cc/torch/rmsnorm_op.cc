// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm and servecore::rmsnorm_out for CPU and Meta, and the
// refusal for every backend that has no kernel in this build. CUDA lies in
// rmsnorm_cuda_op.cc.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/ops/rmsnorm.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"
#include "cc/torch/overlap.h"
#include "cc/torch/rmsnorm_checks.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::rmsnorm";
constexpr const char* kOutOp = "servecore::rmsnorm_out";

// A row that several threads share, in parts that are worth one.
void ComputeRow(const ops::RmsNormArgs& args, std::int64_t row) {
  constexpr std::int64_t kPart = kGrainElements;
  static_assert(kPart % ops::kRmsNormColumns == 0);
  const std::int64_t dim = args.x.layout.dim();
  const std::int64_t num_parts = (dim + kPart - 1) / kPart;
  std::vector<double> sums(static_cast<std::size_t>(num_parts));
  const auto for_parts = [&](const auto& work) {
    ForRanges(num_parts, kPart, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        work(part, part * kPart, std::min(dim, (part + 1) * kPart));
      }
    });
  };
  for_parts([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(part)] =
        ops::RmsNormSumOfSquares(args, row, begin, end);
  });
  // In the order of the parts, whichever thread was first.
  double sum = 0.0;
  for (const double part : sums) sum += part;
  for_parts([&](std::int64_t /*part*/, std::int64_t begin, std::int64_t end) {
    ops::RmsNormScale(args, row, sum, begin, end);
  });
}

void Compute(const Tensor& x, const Tensor& weight, double eps,
             bool cast_before_weight, const Tensor& out) {
  if (out.numel() == 0) return;
  const ops::RmsNormArgs args{
      .dtype = *DTypeOf(x),
      .x = ConstRowsOf(x),
      .weight = ColumnWeightsOf(weight),
      .out = RowsOf(out),
      .eps = eps,
      .cast_before_weight = cast_before_weight,
  };
  const std::int64_t rows = args.x.layout.rows();
  const std::int64_t dim = args.x.layout.dim();
  // Fewer rows than threads, each of them work for several.
  if (dim >= 2 * kGrainElements &&
      rows < static_cast<std::int64_t>(torch::stable::get_num_threads())) {
    for (std::int64_t row = 0; row < rows; ++row) ComputeRow(args, row);
    return;
  }
  ForRanges(rows, dim, [&args](std::int64_t row_begin, std::int64_t row_end) {
    ops::RmsNorm(args, row_begin, row_end);
  });
}

// Ownership: the result is a new tensor; x and weight are only read.
// Lifetime: all tensors are held by the caller until the last row is written.
// Copies: none; every tensor is read and written by its strides.
// GIL: neither needed nor taken; torch calls kernels with or without it.
// Thread safety: runs rows on torch's intra-op pool; concurrent calls are safe.
Tensor RmsNormCpu(const Tensor& x, const Tensor& weight, double eps,
                  bool cast_before_weight) {
  CheckRmsNorm(kOp, "x", x, weight, eps, Sizes::kReal);
  Tensor out = NewContiguous(x);
  Compute(x, weight, eps, cast_before_weight, out);
  return out;
}

// The same into `out`, which may be x.
void RmsNormOutCpu(const Tensor& x, const Tensor& weight, double eps,
                   bool cast_before_weight, const Tensor& out) {
  CheckRmsNorm(kOutOp, "x", x, weight, eps, Sizes::kReal);
  CheckDevices(kOutOp, {{"x", x}, {"out", out}});
  CheckLike(kOutOp, {"out", out}, {"x", x}, Sizes::kReal);
  if (IsSame(x, out)) {
    CheckWritable(kOutOp, {"out", out}, {{"weight", weight}});
  } else {
    CheckWritable(kOutOp, {"out", out}, {{"x", x}, {"weight", weight}});
  }
  Compute(x, weight, eps, cast_before_weight, out);
}

Tensor RmsNormMeta(const Tensor& x, const Tensor& weight, double eps,
                   bool /*cast_before_weight*/) {
  CheckRmsNorm(kOp, "x", x, weight, eps, Sizes::kSymbolic);
  return NewContiguous(x);
}

void RmsNormOutMeta(const Tensor& x, const Tensor& weight, double eps,
                    bool /*cast_before_weight*/, const Tensor& out) {
  CheckRmsNorm(kOutOp, "x", x, weight, eps, Sizes::kSymbolic);
  CheckDevices(kOutOp, {{"x", x}, {"out", out}});
  CheckLike(kOutOp, {"out", out}, {"x", x}, Sizes::kSymbolic);
}

Tensor RmsNormUnavailable(const Tensor& x, const Tensor& weight, double /*eps*/,
                          bool /*cast_before_weight*/) {
  FailWithoutKernel(kOp, {{"x", x}, {"weight", weight}});
}

void RmsNormOutUnavailable(const Tensor& x, const Tensor& weight,
                           double /*eps*/, bool /*cast_before_weight*/,
                           const Tensor& out) {
  FailWithoutKernel(kOutOp, {{"x", x}, {"weight", weight}, {"out", out}});
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormCpu));
  m.impl("rmsnorm_out", TORCH_BOX(&RmsNormOutCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormMeta));
  m.impl("rmsnorm_out", TORCH_BOX(&RmsNormOutMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormUnavailable));
  m.impl("rmsnorm_out", TORCH_BOX(&RmsNormOutUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
