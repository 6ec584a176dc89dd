// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_ELEMENT_CUH_
#define SERVECORE_CUDA_ELEMENT_CUH_

// Elements in device memory as kernels read and write them: one at a time by a
// stride, or 128 bits at a time.

#include <cstdint>

#include "cuda/device.cuh"

namespace servecore::cuda {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float ToFloat(__half value) { return __half2float(value); }

// Rounded to nearest even.
template <class T>
__device__ T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half FromFloat<__half>(float value) {
  return __float2half_rn(value);
}

// Elements of one access of 128 bits.
template <class T>
inline constexpr int kElementsPerVector = 16 / static_cast<int>(sizeof(T));

// `kWidth` neighbours of a row, as they lie in memory: what a thread keeps of
// bfloat16 takes half the registers that it would as float. kWidth is 1, with
// any stride, or a multiple of kElementsPerVector<T>, with a stride of 1 on a
// 16-byte boundary. Offsets are in elements, and 64 bits wide.
template <class T, int kWidth>
struct Elements {
  static_assert(kWidth == 1 || kWidth % kElementsPerVector<T> == 0);
  alignas(kWidth == 1 ? alignof(T) : 16) T lanes[kWidth];

  // The `index`-th kWidth of them.
  static __device__ Elements Load(const T* row, std::int64_t stride,
                                  std::int64_t index) {
    Elements elements;
    if constexpr (kWidth == 1) {
      elements.lanes[0] = row[index * stride];
    } else {
      const T* from = row + index * kWidth;
      SERVECORE_UNROLL
      for (int i = 0; i < kWidth; i += kElementsPerVector<T>) {
        CopyVector(elements.lanes + i, from + i);
      }
    }
    return elements;
  }

  __device__ void Store(T* row, std::int64_t stride, std::int64_t index) const {
    if constexpr (kWidth == 1) {
      row[index * stride] = lanes[0];
    } else {
      T* to = row + index * kWidth;
      SERVECORE_UNROLL
      for (int i = 0; i < kWidth; i += kElementsPerVector<T>) {
        CopyVector(to + i, lanes + i);
      }
    }
  }
};

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_ELEMENT_CUH_
