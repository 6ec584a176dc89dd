// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "cuda/rmsnorm.h"
#include "cuda/rmsnorm_kernel.cuh"
#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

void LaunchRmsNorm(const RmsNormArgs& args, CUstream_st* stream) {
  if (args.num_rows == 0 || args.dim == 0) return;
  const RmsNormPlan plan = PlanRmsNorm(args);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads_per_row),
                         static_cast<unsigned>(plan.rows_per_block));
  config.stream = stream;
  const RmsNormFunction kernel = KernelFor(args, plan);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args);
  if (error != cudaSuccess) {
    throw std::runtime_error("rmsnorm: CUDA refused the launch for x of " +
                             std::to_string(args.num_rows) + " rows of " +
                             std::to_string(args.dim) + " elements (" +
                             std::to_string(plan.blocks) + " blocks of " +
                             std::to_string(plan.threads_per_row) + " x " +
                             std::to_string(plan.rows_per_block) +
                             " threads): " + cudaGetErrorName(error) + ", " +
                             cudaGetErrorString(error));
  }
}

}  // namespace servecore::cuda
