// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm(x, weight, eps) for CPU and Meta, and the refusal for
// every backend that has no kernel in this build. CUDA lies in
// rmsnorm_cuda_op.cc.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>

#include "cc/ops/rmsnorm.h"
#include "cc/torch/checks.h"
#include "cc/torch/rmsnorm_checks.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

// Elements a thread should have before a second one pays; torch's own value.
constexpr std::int64_t kGrainElements = 32768;

// Ownership: the result is a new tensor; x and weight are only read.
// Lifetime: all tensors are held by this frame until the last row is written.
// Copies: weight once if its stride is not 1 (dim elements); x never, it is
// read by its strides.
// GIL: neither needed nor taken; torch calls kernels with or without it.
// Thread safety: runs rows on torch's intra-op pool; concurrent calls are safe.
Tensor RmsNormCpu(const Tensor& x, const Tensor& weight, double eps) {
  CheckRmsNorm(x, weight, eps);
  Tensor out = NewRmsNormResult(x);
  if (out.numel() == 0) return out;

  // Held by name: a temporary would free the memory that args points into.
  const Tensor dense_weight = torch::stable::contiguous(weight);
  const ops::RmsNormArgs args{
      .x = x.const_data_ptr<float>(),
      .x_layout = LayoutOf(x),
      .weight = dense_weight.const_data_ptr<float>(),
      .weight_stride = 1,
      .out = out.mutable_data_ptr<float>(),
      .out_layout = LayoutOf(out),
      .eps = eps,
  };
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainElements / args.x_layout.dim());
  torch::stable::parallel_for(
      0, args.x_layout.rows(), grain,
      [&args](std::int64_t row_begin, std::int64_t row_end) {
        ops::RmsNorm(args, row_begin, row_end);
      });
  return out;
}

Tensor RmsNormMeta(const Tensor& x, const Tensor& weight, double eps) {
  CheckRmsNormMeta(x, weight, eps);
  return NewRmsNormResult(x);
}

// Without this torch would answer with a page of dispatch keys.
Tensor RmsNormUnavailable(const Tensor& x, const Tensor& weight,
                          double /*eps*/) {
  Fail("servecore::rmsnorm: x is on ", DeviceName(x), " (", LayoutName(x),
       "), weight is on ", DeviceName(weight), " (", LayoutName(weight),
       "), for which this build has no kernel; allowed are torch.strided "
       "tensors on cpu and meta, and on cuda when servecore is built with "
       "--config=cuda; move the tensors with .cpu() or use a CUDA build");
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("rmsnorm", TORCH_BOX(&RmsNormUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
