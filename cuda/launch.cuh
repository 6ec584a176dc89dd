// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_LAUNCH_CUH_
#define SERVECORE_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

// Launches a kernel over `rows` by its plan.
//
// Throws std::runtime_error, naming the op, the shape and CUDA's reason, when
// the launch is refused.
template <class Args>
void LaunchRows(const char* op, void (*kernel)(Args), const Args& args,
                const RmsNormArgs& rows, const RmsNormPlan& plan,
                CUstream_st* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads_per_row),
                         static_cast<unsigned>(plan.rows_per_block));
  config.stream = stream;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args);
  if (error == cudaSuccess) return;
  throw std::runtime_error(
      std::string(op) + ": CUDA refused the launch for x of " +
      std::to_string(rows.num_rows) + " rows of " + std::to_string(rows.dim) +
      " elements (" + std::to_string(plan.blocks) + " blocks of " +
      std::to_string(plan.threads_per_row) + " x " +
      std::to_string(plan.rows_per_block) + " threads): " +
      cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_LAUNCH_CUH_
