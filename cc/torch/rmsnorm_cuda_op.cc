// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm and rmsnorm_out for CUDA. Linked into builds with CUDA
// only; without it rmsnorm_op.cc answers CUDA tensors with an error.

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
#include "cuda/rmsnorm.h"
#include "cuda/rmsnorm_plan.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::rmsnorm";
constexpr const char* kOutOp = "servecore::rmsnorm_out";

// The current device is the tensors'.
void Compute(const Tensor& x, cuda::DType dtype, const Tensor& weight,
             double eps, bool cast_before_weight, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor rows =
      FitsDeviceRows(LayoutOf(x)) ? x : torch::stable::contiguous(x);
  const Tensor dense_weight = torch::stable::contiguous(weight);
  const ops::RowLayout layout = LayoutOf(rows);
  cuda::RmsNormArgs args;
  args.dtype = dtype;
  args.x = rows.const_data_ptr();
  args.x_rows = DeviceRowsOf(layout);
  args.weight = dense_weight.const_data_ptr();
  args.weight_dtype = CheckedDeviceDType(kOp, "weight", weight);
  args.out = out.mutable_data_ptr();
  args.out_rows = DeviceRowsOf(LayoutOf(out));
  args.num_rows = layout.rows();
  args.dim = layout.dim();
  args.eps = static_cast<float>(eps);
  args.cast_before_weight = cast_before_weight;
  cuda::LaunchRmsNorm(args, CurrentStreamOf(x));
}

// Ownership: the result is a new tensor; x and weight are only read.
// Lifetime: temporaries may be freed while the kernel still runs: torch's
// allocator gives their memory only to later work on the same stream.
// Copies: weight if its stride is not 1; x if more than Rows::kMaxRank leading
// dimensions are left after merging, otherwise never.
// Stream: torch's current stream of x's device.
// Thread safety: concurrent calls are safe.
Tensor RmsNormCuda(const Tensor& x, const Tensor& weight, double eps,
                   bool cast_before_weight) {
  CheckRmsNorm(kOp, "x", x, weight, eps, Sizes::kReal);
  const cuda::DType dtype = CheckedDeviceDType(kOp, "x", x);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Tensor out = NewContiguous(x);
  Compute(x, dtype, weight, eps, cast_before_weight, out);
  return out;
}

// The same into `out`, which may be x. An `out` of more leading dimensions than
// Rows::kMaxRank is an error.
void RmsNormOutCuda(const Tensor& x, const Tensor& weight, double eps,
                    bool cast_before_weight, const Tensor& out) {
  CheckRmsNorm(kOutOp, "x", x, weight, eps, Sizes::kReal);
  const cuda::DType dtype = CheckedDeviceDType(kOutOp, "x", x);
  CheckDevices(kOutOp, {{"x", x}, {"out", out}});
  CheckLike(kOutOp, {"out", out}, {"x", x}, Sizes::kReal);
  if (IsSame(x, out)) {
    CheckWritable(kOutOp, {"out", out}, {{"weight", weight}});
  } else {
    CheckWritable(kOutOp, {"out", out}, {{"x", x}, {"weight", weight}});
  }
  if (!FitsDeviceRows(LayoutOf(out))) {
    Fail(kOutOp, ": out has more than ", cuda::Rows::kMaxRank,
         " leading dimensions that do not lie in one piece; use "
         "servecore::rmsnorm, whose result is contiguous");
  }
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Compute(x, dtype, weight, eps, cast_before_weight, out);
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CUDA, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormCuda));
  m.impl("rmsnorm_out", TORCH_BOX(&RmsNormOutCuda));
}

}  // namespace
}  // namespace servecore::torch_ops
