// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm(x, weight, eps) for CUDA. Linked into builds with CUDA
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
#include "cc/torch/rmsnorm_checks.h"
#include "cuda/rmsnorm.h"
#include "cuda/rmsnorm_plan.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::rmsnorm";

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

// Ownership: the result is a new tensor; x and weight are only read.
// Lifetime: temporaries may be freed while the kernel still runs: torch's
// allocator gives their memory only to later work on the same stream.
// Copies: weight if its stride is not 1; x if more than Rows::kMaxRank leading
// dimensions are left after merging, otherwise never.
// Stream: torch's current stream of x's device.
// Thread safety: concurrent calls are safe.
Tensor RmsNormCuda(const Tensor& x, const Tensor& weight, double eps,
                   bool /*cast_before_weight*/) {
  CheckRmsNorm(kOp, "x", x, weight, eps, Sizes::kReal);
  if (DTypeOf(x) != ops::DType::kFloat32) {
    Fail(kOp, ": x has dtype ", DtypeName(x.scalar_type()),
         " on cuda; allowed there is torch.float32");
  }
  const torch::stable::accelerator::DeviceGuard guard(x.get_device_index());
  Tensor out = NewContiguous(x);
  if (out.numel() == 0) return out;

  const Tensor rows = FitsRows(LayoutOf(x)) ? x : torch::stable::contiguous(x);
  const Tensor dense_weight = torch::stable::contiguous(weight);
  const ops::RowLayout layout = LayoutOf(rows);
  cuda::RmsNormArgs args;
  args.x = rows.const_data_ptr<float>();
  args.x_rows = RowsOf(layout);
  args.weight = dense_weight.const_data_ptr<float>();
  args.out = out.mutable_data_ptr<float>();
  args.out_rows = RowsOf(LayoutOf(out));
  args.num_rows = layout.rows();
  args.dim = layout.dim();
  args.eps = static_cast<float>(eps);

  const auto stream =
      torch::stable::accelerator::getCurrentStream(x.get_device_index());
  cuda::LaunchRmsNorm(args, static_cast<CUstream_st*>(stream.nativeHandle()));
  return out;
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CUDA, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormCuda));
}

}  // namespace
}  // namespace servecore::torch_ops
