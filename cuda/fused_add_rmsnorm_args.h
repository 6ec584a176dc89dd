// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_FUSED_ADD_RMSNORM_ARGS_H_
#define SERVECORE_CUDA_FUSED_ADD_RMSNORM_ARGS_H_

#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

// residual[r][i] += x[r][i], rounded to the dtype as it is stored, and then
// x[r][i] = residual[r][i] / sqrt(mean(residual[r]^2) + eps) * weight[i].
//
// Ownership, lifetime: as RmsNormArgs. x and residual share no memory.
struct FusedAddRmsNormArgs {
  // The second half: from residual, which is its x, to x, which is its out.
  // Its plan is that of the whole.
  RmsNormArgs norm;
  // norm.x, to be written.
  void* residual = nullptr;
};

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_FUSED_ADD_RMSNORM_ARGS_H_
