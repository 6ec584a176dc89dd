// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_RMSNORM_KERNEL_CUH_
#define SERVECORE_CUDA_RMSNORM_KERNEL_CUH_

// The kernel behind cuda/rmsnorm.h. Apart, so that it is compiled for the CPU
// too: see cuda/testing/executor.h.

#include <cstdint>

#include "cuda/device.cuh"
#include "cuda/element.cuh"
#include "cuda/rmsnorm_plan.h"
#include "cuda/rmsnorm_rows.cuh"

namespace servecore::cuda {

template <class T, class W, int kWidth, int kPerThread>
__global__ void __launch_bounds__(kMaxThreads)
    RmsNormKernel(const __grid_constant__ RmsNormArgs args) {
  const T* x = static_cast<const T*>(args.x);
  NormaliseRows<T, W, kWidth, kPerThread>(
      args,
      [&](std::int64_t x_offset, std::int64_t /*out_offset*/, std::int64_t i) {
        return Elements<T, kWidth>::Load(x + x_offset, args.x_rows.stride, i);
      });
}

template <class T, class W, int kWidth, int kPerThread>
struct RmsNormKernels {
  static auto Get() { return &RmsNormKernel<T, W, kWidth, kPerThread>; }
};

// See KernelOf.
inline auto RmsNormKernelFor(const RmsNormArgs& args, const RmsNormPlan& plan) {
  return KernelOf<RmsNormKernels>(args, plan);
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_RMSNORM_KERNEL_CUH_
