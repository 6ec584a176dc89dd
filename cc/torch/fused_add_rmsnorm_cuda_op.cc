// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::fused_add_rmsnorm_ for CUDA. Linked into builds with CUDA only;
// without it fused_add_rmsnorm_op.cc answers CUDA tensors with an error.

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "cc/ops/row_layout.h"
#include "cc/torch/checks.h"
#include "cc/torch/cuda_operands.h"
#include "cc/torch/operands.h"
#include "cc/torch/overlap.h"
#include "cc/torch/rmsnorm_checks.h"
#include "cuda/dtype.h"
#include "cuda/fused_add_rmsnorm.h"
#include "cuda/fused_add_rmsnorm_args.h"
#include "cuda/rmsnorm_plan.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::fused_add_rmsnorm_";

cuda::Rows CheckedRows(const Argument& argument) {
  const ops::RowLayout layout = LayoutOf(argument.tensor);
  if (!FitsDeviceRows(layout)) {
    Fail(kOp, ": ", argument.name, " has more than ", cuda::Rows::kMaxRank,
         " leading dimensions that do not lie in one piece; use .contiguous()");
  }
  return DeviceRowsOf(layout);
}

// Ownership: x and residual are written, weight is only read.
// Lifetime: as RmsNormCuda.
// Copies: weight if its stride is not 1.
// Stream: torch's current stream of x's device.
// Thread safety: concurrent calls on other tensors are safe.
void FusedAddRmsNormCuda(const Tensor& x, const Tensor& residual,
                         const Tensor& weight, double eps,
                         bool cast_before_weight) {
  CheckFusedAddRmsNorm(kOp, x, residual, weight, eps, Sizes::kReal);
  const cuda::DType dtype = CheckedDeviceDType(kOp, "x", x);
  CheckWritable(kOp, {"x", x}, {{"residual", residual}, {"weight", weight}});
  CheckWritable(kOp, {"residual", residual}, {{"weight", weight}});
  if (x.numel() == 0) return;
  const ops::RowLayout layout = LayoutOf(x);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  const Tensor dense_weight = torch::stable::contiguous(weight);
  cuda::FusedAddRmsNormArgs args;
  args.norm.dtype = dtype;
  args.residual = residual.mutable_data_ptr();
  args.norm.x = args.residual;
  args.norm.x_rows = CheckedRows({"residual", residual});
  args.norm.weight = dense_weight.const_data_ptr();
  args.norm.weight_dtype = CheckedDeviceDType(kOp, "weight", weight);
  args.norm.out = x.mutable_data_ptr();
  args.norm.out_rows = CheckedRows({"x", x});
  args.norm.num_rows = layout.rows();
  args.norm.dim = layout.dim();
  args.norm.eps = static_cast<float>(eps);
  args.norm.cast_before_weight = cast_before_weight;
  cuda::LaunchFusedAddRmsNorm(args, CurrentStreamOf(x));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CUDA, m) {
  m.impl("fused_add_rmsnorm_", TORCH_BOX(&FusedAddRmsNormCuda));
}

}  // namespace
}  // namespace servecore::torch_ops
