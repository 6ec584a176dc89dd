// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch.cuh"
#include "cuda/rmsnorm.h"
#include "cuda/rmsnorm_kernel.cuh"
#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

void LaunchRmsNorm(const RmsNormArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0 || args.dim == 0) return;
  const RmsNormPlan plan = PlanRmsNorm(args);
  LaunchRows("rmsnorm", RmsNormKernelFor(args, plan), args, args, plan, stream);
}

}  // namespace servecore::cuda
