// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm and rmsnorm_out for CUDA. Linked into builds with CUDA
// only; without it rmsnorm_op.cc answers CUDA tensors with an error.

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"
#include "cc/torch/checks.h"
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

cuda::Rows RowsOf(const ops::RowLayout& layout) {
  cuda::Rows rows;
  rows.rank = static_cast<int>(layout.leading_sizes().size());
  std::ranges::copy(layout.leading_sizes(), std::begin(rows.sizes));
  std::ranges::copy(layout.leading_strides(), std::begin(rows.strides));
  rows.stride = layout.stride();
  return rows;
}

bool FitsRows(const ops::RowLayout& layout) {
  return layout.leading_sizes().size() <=
         static_cast<std::size_t>(cuda::Rows::kMaxRank);
}

cuda::DType DTypeOnDevice(const Tensor& tensor) {
  switch (*DTypeOf(tensor)) {
    case ops::DType::kBFloat16:
      return cuda::DType::kBFloat16;
    case ops::DType::kFloat16:
      return cuda::DType::kFloat16;
    case ops::DType::kFloat32:
    case ops::DType::kFloat64:
      break;
  }
  return cuda::DType::kFloat32;
}

void CheckOnDevice(const char* op, const Tensor& x, const Tensor& weight,
                   double eps) {
  CheckRmsNorm(op, "x", x, weight, eps, Sizes::kReal);
  if (DTypeOf(x) == ops::DType::kFloat64) {
    Fail(op,
         ": x has dtype torch.float64 on cuda; allowed there are "
         "torch.float32, torch.bfloat16 and torch.float16");
  }
}

// The current device is the tensors'.
void Compute(const Tensor& x, const Tensor& weight, double eps,
             bool cast_before_weight, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor rows = FitsRows(LayoutOf(x)) ? x : torch::stable::contiguous(x);
  const Tensor dense_weight = torch::stable::contiguous(weight);
  const ops::RowLayout layout = LayoutOf(rows);
  cuda::RmsNormArgs args;
  args.dtype = DTypeOnDevice(x);
  args.x = rows.const_data_ptr();
  args.x_rows = RowsOf(layout);
  args.weight = dense_weight.const_data_ptr();
  args.weight_dtype = DTypeOnDevice(weight);
  args.out = out.mutable_data_ptr();
  args.out_rows = RowsOf(LayoutOf(out));
  args.num_rows = layout.rows();
  args.dim = layout.dim();
  args.eps = static_cast<float>(eps);
  args.cast_before_weight = cast_before_weight;

  const auto stream =
      torch::stable::accelerator::getCurrentStream(x.get_device_index());
  cuda::LaunchRmsNorm(args, static_cast<CUstream_st*>(stream.nativeHandle()));
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
  CheckOnDevice(kOp, x, weight, eps);
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Tensor out = NewContiguous(x);
  Compute(x, weight, eps, cast_before_weight, out);
  return out;
}

// The same into `out`, which may be x. An `out` of more leading dimensions than
// Rows::kMaxRank is an error.
void RmsNormOutCuda(const Tensor& x, const Tensor& weight, double eps,
                    bool cast_before_weight, const Tensor& out) {
  CheckOnDevice(kOutOp, x, weight, eps);
  CheckDevices(kOutOp, {{"x", x}, {"out", out}});
  CheckLike(kOutOp, {"out", out}, {"x", x}, Sizes::kReal);
  if (IsSame(x, out)) {
    CheckWritable(kOutOp, {"out", out}, {{"weight", weight}});
  } else {
    CheckWritable(kOutOp, {"out", out}, {{"x", x}, {"weight", weight}});
  }
  if (!FitsRows(LayoutOf(out))) {
    Fail(kOutOp, ": out has more than ", cuda::Rows::kMaxRank,
         " leading dimensions that do not lie in one piece; use "
         "servecore::rmsnorm, whose result is contiguous");
  }
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Compute(x, weight, eps, cast_before_weight, out);
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CUDA, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormCuda));
  m.impl("rmsnorm_out", TORCH_BOX(&RmsNormOutCuda));
}

}  // namespace
}  // namespace servecore::torch_ops
