// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_FUSED_ADD_RMSNORM_KERNEL_CUH_
#define SERVECORE_CUDA_FUSED_ADD_RMSNORM_KERNEL_CUH_

// The kernel behind cuda/fused_add_rmsnorm.h. Apart, so that it is compiled for
// the CPU too: see cuda/testing/executor.h.

#include <cstdint>

#include "cuda/device.cuh"
#include "cuda/element.cuh"
#include "cuda/fused_add_rmsnorm_args.h"
#include "cuda/rmsnorm_plan.h"
#include "cuda/rmsnorm_rows.cuh"

namespace servecore::cuda {

template <class T, int kWidth>
__device__ Elements<T, kWidth> Added(const Elements<T, kWidth>& a,
                                     const Elements<T, kWidth>& b) {
  Elements<T, kWidth> sum;
  SERVECORE_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    sum.lanes[i] = FromFloat<T>(ToFloat(a.lanes[i]) + ToFloat(b.lanes[i]));
  }
  return sum;
}

// A row that is too long for registers is read again from residual, where each
// thread has written what it reads.
template <class T, class W, int kWidth, int kPerThread>
__global__ void __launch_bounds__(kMaxThreads)
    FusedAddRmsNormKernel(const __grid_constant__ FusedAddRmsNormArgs args) {
  const RmsNormArgs& norm = args.norm;
  T* residual = static_cast<T*>(args.residual);
  const T* x = static_cast<const T*>(norm.out);
  NormaliseRows<T, W, kWidth, kPerThread>(
      norm, [&](std::int64_t from, std::int64_t to, std::int64_t i) {
        const Elements<T, kWidth> total = Added(
            Elements<T, kWidth>::Load(residual + from, norm.x_rows.stride, i),
            Elements<T, kWidth>::Load(x + to, norm.out_rows.stride, i));
        total.Store(residual + from, norm.x_rows.stride, i);
        return total;
      });
}

template <class T, class W, int kWidth, int kPerThread>
struct FusedAddRmsNormKernels {
  static auto Get() { return &FusedAddRmsNormKernel<T, W, kWidth, kPerThread>; }
};

// See KernelOf.
inline auto FusedAddRmsNormKernelFor(const FusedAddRmsNormArgs& args,
                                     const RmsNormPlan& plan) {
  return KernelOf<FusedAddRmsNormKernels>(args.norm, plan);
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_FUSED_ADD_RMSNORM_KERNEL_CUH_
