// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_
#define SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_

#include <torch/csrc/stable/tensor.h>

#include "cc/ops/row_layout.h"

namespace servecore::torch_ops {

// What every backend's rmsnorm demands of its arguments: x float32 with at
// least one dimension, weight float32 of shape (x.size(-1),) on x's device, eps
// finite and not negative. Throws std::runtime_error naming what was found.
void CheckRmsNorm(const torch::stable::Tensor& x,
                  const torch::stable::Tensor& weight, double eps);

// The same demands and errors for tensors without data, whose sizes may be
// symbols that torch.compile traces with. Reading such a size fixes its value
// and costs a compilation per shape, so the length of weight is compared inside
// torch, with the shape of a sum that is never computed.
void CheckRmsNormMeta(const torch::stable::Tensor& x,
                      const torch::stable::Tensor& weight, double eps);

// The tensor every backend's rmsnorm returns, uninitialised: x's shape, dtype
// and device, contiguous whatever x's strides are.
torch::stable::Tensor NewRmsNormResult(const torch::stable::Tensor& x);

// Where the rows of `tensor`, which has at least one dimension, lie.
ops::RowLayout LayoutOf(const torch::stable::Tensor& tensor);

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_
