// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_DEVICE_CUH_
#define SERVECORE_CUDA_DEVICE_CUH_

// What a kernel header includes first. Under nvcc it is CUDA itself. Under a
// host compiler it is a stand-in that cuda/testing/executor.h runs, so that the
// same kernel source is tested on machines without a GPU and under sanitizers.
//
// What kernel source may use, beside C++20 without exceptions of its own and
// without noexcept on what reaches a barrier:
//   __global__ __device__ __host__ __forceinline__
//   __launch_bounds__ __grid_constant__ __restrict__, __shared__ on arrays of
//   trivial types, threadIdx blockIdx blockDim gridDim warpSize, the vector
//   types and functions of cuda/testing/vector_types.h, the intrinsics of
//   cuda/testing/host_cuda.h, the 16-bit floats of cuda/testing/host_floats.h,
//   and the two functions below.

#include <cstddef>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define SERVECORE_UNROLL _Pragma("unroll")
#else
#include "cuda/testing/host_cuda.h"
#define SERVECORE_UNROLL
#endif

namespace servecore::cuda {

// Copies 128 bits in one access. Both addresses are multiples of 16: on the CPU
// another one is a std::logic_error, and on a device a fault.
__device__ inline void CopyVector(void* to, const void* from) {
#ifdef __CUDACC__
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#else
  testing::CopyAligned(to, from);
#endif
}

// The block's dynamic shared memory, of the size given at the launch.
//
// Ownership: the block's. Lifetime: until the block ends. It begins on a
// 16-byte boundary and holds no known values at first.
template <typename T>
__device__ T* DynamicShared() {
  static_assert(alignof(T) <= 16);
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  return reinterpret_cast<T*>(dynamic_shared);
#else
  return static_cast<T*>(testing::DynamicSharedMemory());
#endif
}

// `kCount` objects of static shared memory. Calls with equal template arguments
// get the same memory; another kTag gets other memory. To be preferred to
// __shared__: the executor poisons it before every block and sees accesses
// beyond its end, which a __shared__ array, a plain static there, keeps hidden.
//
// Ownership: the block's. Lifetime: until the block ends. It holds no known
// values at first.
template <typename T, std::size_t kCount, int kTag = 0>
__device__ T* StaticShared() {
#ifdef __CUDACC__
  __shared__ T storage[kCount];
  return storage;
#else
  static constexpr char kKey = 0;
  return static_cast<T*>(
      testing::StaticSharedMemory(&kKey, kCount * sizeof(T), alignof(T)));
#endif
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_DEVICE_CUH_
