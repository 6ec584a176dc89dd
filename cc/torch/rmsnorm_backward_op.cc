// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rmsnorm_backward(grad_out, x, weight, eps): the gradients of
// servecore::rmsnorm, for CPU and Meta.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cc/ops/rmsnorm_backward.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"
#include "cc/torch/rmsnorm_checks.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;
using Gradients = std::tuple<Tensor, Tensor>;

constexpr const char* kOp = "servecore::rmsnorm_backward";

void Check(const Tensor& grad_out, const Tensor& x, const Tensor& weight,
           double eps, Sizes sizes) {
  CheckRmsNorm(kOp, "x", x, weight, eps, sizes);
  CheckDevices(kOp, {{"x", x}, {"grad_out", grad_out}});
  CheckLike(kOp, {"grad_out", grad_out}, {"x", x}, sizes);
}

// Ownership: the results are new tensors, in the dtypes of x and weight.
// Copies: none; every tensor is read by its strides.
// GIL: neither needed nor taken.
// Thread safety: runs groups of rows on torch's intra-op pool; the results do
// not depend on the number of threads. Concurrent calls are safe.
Gradients RmsNormBackwardCpu(const Tensor& grad_out, const Tensor& x,
                             const Tensor& weight, double eps) {
  Check(grad_out, x, weight, eps, Sizes::kReal);
  Tensor grad_x = NewContiguous(x);
  Tensor grad_weight = NewContiguous(weight);
  ops::RmsNormBackwardArgs args{
      .dtype = *DTypeOf(x),
      .grad_out = ConstRowsOf(grad_out),
      .x = ConstRowsOf(x),
      .weight = ColumnWeightsOf(weight),
      .eps = eps,
      .grad_x = RowsOf(grad_x),
      .grad_weight = grad_weight.mutable_data_ptr(),
  };
  if (grad_weight.numel() == 0) return {grad_x, grad_weight};
  std::vector<double> scratch(
      (ops::RmsNormBackwardScratchBytes(args) + sizeof(double) - 1) /
      sizeof(double));
  args.scratch = scratch.data();
  const std::int64_t dim = args.x.layout.dim();
  const std::int64_t num_groups = ops::RmsNormBackwardGroups(args);
  if (num_groups > 0) {
    ForRanges(num_groups, args.x.layout.rows() * dim / num_groups,
              [&args](std::int64_t begin, std::int64_t end) {
                ops::RmsNormBackward(args, begin, end);
              });
  }
  ForRanges(dim, num_groups, [&args](std::int64_t begin, std::int64_t end) {
    ops::RmsNormBackwardWeight(args, begin, end);
  });
  return {grad_x, grad_weight};
}

Gradients RmsNormBackwardMeta(const Tensor& grad_out, const Tensor& x,
                              const Tensor& weight, double eps) {
  Check(grad_out, x, weight, eps, Sizes::kSymbolic);
  return {NewContiguous(x), NewContiguous(weight)};
}

Gradients RmsNormBackwardUnavailable(const Tensor& grad_out, const Tensor& x,
                                     const Tensor& weight, double /*eps*/) {
  FailWithoutKernel(kOp,
                    {{"grad_out", grad_out}, {"x", x}, {"weight", weight}});
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("rmsnorm_backward", TORCH_BOX(&RmsNormBackwardCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("rmsnorm_backward", TORCH_BOX(&RmsNormBackwardMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("rmsnorm_backward", TORCH_BOX(&RmsNormBackwardUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
