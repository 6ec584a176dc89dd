// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::fused_add_rmsnorm_(x, residual, weight, eps): residual += x, and
// x = rmsnorm(residual), for CPU and Meta.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

#include "cc/ops/fused_add_rmsnorm.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"
#include "cc/torch/overlap.h"
#include "cc/torch/rmsnorm_checks.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::fused_add_rmsnorm_";

// Ownership: x and residual are written, weight is only read.
// Copies: none; every tensor is read and written by its strides.
// GIL: neither needed nor taken.
// Thread safety: runs rows on torch's intra-op pool; concurrent calls on other
// tensors are safe.
void FusedAddRmsNormCpu(const Tensor& x, const Tensor& residual,
                        const Tensor& weight, double eps,
                        bool cast_before_weight) {
  CheckFusedAddRmsNorm(kOp, x, residual, weight, eps, Sizes::kReal);
  CheckWritable(kOp, {"x", x}, {{"residual", residual}, {"weight", weight}});
  CheckWritable(kOp, {"residual", residual}, {{"weight", weight}});
  if (x.numel() == 0) return;
  const ops::FusedAddRmsNormArgs args{
      .dtype = *DTypeOf(x),
      .x = RowsOf(x),
      .residual = RowsOf(residual),
      .weight = ColumnWeightsOf(weight),
      .eps = eps,
      .cast_before_weight = cast_before_weight,
  };
  ForRanges(args.x.layout.rows(), args.x.layout.dim(),
            [&args](std::int64_t row_begin, std::int64_t row_end) {
              ops::FusedAddRmsNorm(args, row_begin, row_end);
            });
}

void FusedAddRmsNormMeta(const Tensor& x, const Tensor& residual,
                         const Tensor& weight, double eps,
                         bool /*cast_before_weight*/) {
  CheckFusedAddRmsNorm(kOp, x, residual, weight, eps, Sizes::kSymbolic);
}

void FusedAddRmsNormUnavailable(const Tensor& x, const Tensor& residual,
                                const Tensor& weight, double /*eps*/,
                                bool /*cast_before_weight*/) {
  FailWithoutKernel(kOp,
                    {{"x", x}, {"residual", residual}, {"weight", weight}});
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("fused_add_rmsnorm_", TORCH_BOX(&FusedAddRmsNormCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("fused_add_rmsnorm_", TORCH_BOX(&FusedAddRmsNormMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("fused_add_rmsnorm_", TORCH_BOX(&FusedAddRmsNormUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
