// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/fused_add_rmsnorm.h"
#include "cuda/fused_add_rmsnorm_args.h"
#include "cuda/fused_add_rmsnorm_kernel.cuh"
#include "cuda/launch.cuh"
#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

void LaunchFusedAddRmsNorm(const FusedAddRmsNormArgs& args,
                           CUstream_st* stream) {
  if (args.norm.num_rows == 0 || args.norm.dim == 0) return;
  const RmsNormPlan plan = PlanRmsNorm(args.norm);
  LaunchRows("fused_add_rmsnorm_", FusedAddRmsNormKernelFor(args, plan), args,
             args.norm, plan, stream);
}

}  // namespace servecore::cuda
