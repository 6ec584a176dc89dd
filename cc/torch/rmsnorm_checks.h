// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_
#define SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_

#include <torch/csrc/stable/tensor.h>

#include "cc/torch/checks.h"

namespace servecore::torch_ops {

// What every op that normalises rows demands of its arguments, on every
// backend: x of one of the kernels' dtypes with at least one dimension, weight
// of shape (x.size(-1),) on x's device, of x's dtype or float32 (float64 for
// float64), eps finite and not negative. Throws std::runtime_error naming what
// was found.
//
// `x_name` is x's name in the op's schema.
void CheckRmsNorm(const char* op, const char* x_name,
                  const torch::stable::Tensor& x,
                  const torch::stable::Tensor& weight, double eps, Sizes sizes);

// The same of fused_add_rmsnorm_, whose residual is like x.
void CheckFusedAddRmsNorm(const char* op, const torch::stable::Tensor& x,
                          const torch::stable::Tensor& residual,
                          const torch::stable::Tensor& weight, double eps,
                          Sizes sizes);

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_RMSNORM_CHECKS_H_
