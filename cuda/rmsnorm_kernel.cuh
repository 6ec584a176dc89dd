// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_RMSNORM_KERNEL_CUH_
#define SERVECORE_CUDA_RMSNORM_KERNEL_CUH_

// The kernel behind cuda/rmsnorm.h. Apart, so that it is compiled for the CPU
// too: see cuda/testing/executor.h.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device.cuh"
#include "cuda/rmsnorm_plan.h"

namespace servecore::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMaxThreads = 1024;

__device__ inline std::int64_t RowOffset(const Rows& rows, std::int64_t row) {
  // The usual case, a tensor whose leading dimensions are one progression, is
  // spared the 64-bit divisions.
  if (rows.rank == 1) return row * rows.strides[0];
  std::int64_t offset = 0;
  for (int i = rows.rank - 1; i >= 0; --i) {
    offset += row % rows.sizes[i] * rows.strides[i];
    row /= rows.sizes[i];
  }
  return offset;
}

// `kWidth` neighbours of a row, moved by one memory access.
template <int kWidth>
struct Vector;

template <>
struct Vector<1> {
  float lanes[1];

  static __device__ Vector Load(const float* row, std::int64_t stride,
                                std::int64_t index) {
    return {{row[index * stride]}};
  }
  __device__ void Store(float* row, std::int64_t stride,
                        std::int64_t index) const {
    row[index * stride] = lanes[0];
  }
};

template <>
struct Vector<4> {
  float lanes[4];

  static __device__ Vector Load(const float* row, std::int64_t /*stride*/,
                                std::int64_t index) {
    const float4 value = reinterpret_cast<const float4*>(row)[index];
    return {{value.x, value.y, value.z, value.w}};
  }
  __device__ void Store(float* row, std::int64_t /*stride*/,
                        std::int64_t index) const {
    reinterpret_cast<float4*>(row)[index] =
        make_float4(lanes[0], lanes[1], lanes[2], lanes[3]);
  }
};

template <int kWidth>
__device__ float SumOfSquares(const Vector<kWidth>& vector) {
  float sum = 0.0F;
  SERVECORE_UNROLL
  for (int lane = 0; lane < kWidth; ++lane) {
    sum += vector.lanes[lane] * vector.lanes[lane];
  }
  return sum;
}

template <int kWidth>
__device__ Vector<kWidth> Scaled(const Vector<kWidth>& vector, float scale,
                                 const Vector<kWidth>& weight) {
  Vector<kWidth> result;
  SERVECORE_UNROLL
  for (int lane = 0; lane < kWidth; ++lane) {
    result.lanes[lane] = vector.lanes[lane] * scale * weight.lanes[lane];
  }
  return result;
}

// The sum of `value` over the threads of one row, the same in all of them.
// Every thread of the block must call it. `partial` has a float per warp.
__device__ inline float RowSum(float value, float* partial) {
  SERVECORE_UNROLL
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return value;

  float* row_partial =
      partial + static_cast<std::ptrdiff_t>(threadIdx.y) * warps;
  if (threadIdx.x % kWarp == 0) row_partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0.0F;
  for (int warp = 0; warp < warps; ++warp) sum += row_partial[warp];
  // The next row of this block overwrites partial.
  __syncthreads();
  return sum;
}

// A block is threads_per_row by rows_per_block threads. kPerThread vectors of
// the row stay in each thread's registers between the two passes; 0 reads the
// row again instead.
template <int kWidth, int kPerThread>
__global__ void __launch_bounds__(kMaxThreads)
    RmsNormKernel(const __grid_constant__ RmsNormArgs args) {
  auto* partial = StaticShared<float, kMaxThreads / kWarp>();

  // A row that fits registers is short; 32-bit indices leave it more of them.
  using Index = std::conditional_t<(kPerThread > 0), int, std::int64_t>;
  const auto vectors = static_cast<Index>(args.dim / kWidth);
  const auto first = static_cast<Index>(threadIdx.x);
  const auto step = static_cast<Index>(blockDim.x);
  const std::int64_t rows_per_grid =
      static_cast<std::int64_t>(gridDim.x) * blockDim.y;

  // Bounded by the block's first row, which all its threads share: they must
  // reach the barriers in RowSum together.
  for (std::int64_t block_row =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.y;
       block_row < args.num_rows; block_row += rows_per_grid) {
    const std::int64_t row = block_row + threadIdx.y;
    const bool in_range = row < args.num_rows;
    const Index size = in_range ? vectors : 0;
    const float* x =
        args.x + (in_range ? RowOffset(args.x_rows, row) : std::int64_t{0});
    float* out =
        args.out + (in_range ? RowOffset(args.out_rows, row) : std::int64_t{0});
    const std::int64_t x_stride = args.x_rows.stride;

    Vector<kWidth> kept[kPerThread > 0 ? kPerThread : 1];
    float sum = 0.0F;
    if constexpr (kPerThread > 0) {
      SERVECORE_UNROLL
      for (int k = 0; k < kPerThread; ++k) {
        const Index i = first + k * step;
        if (i < size) {
          kept[k] = Vector<kWidth>::Load(x, x_stride, i);
          sum += SumOfSquares(kept[k]);
        }
      }
    } else {
      for (Index i = first; i < size; i += step) {
        sum += SumOfSquares(Vector<kWidth>::Load(x, x_stride, i));
      }
    }

    const float mean = RowSum(sum, partial) / static_cast<float>(args.dim);
    const float scale = rsqrtf(mean + args.eps);

    const auto write = [&](const Vector<kWidth>& vector, Index i) {
      Scaled(vector, scale,
             Vector<kWidth>::Load(args.weight, args.weight_stride, i))
          .Store(out, args.out_rows.stride, i);
    };
    if constexpr (kPerThread > 0) {
      SERVECORE_UNROLL
      for (int k = 0; k < kPerThread; ++k) {
        const Index i = first + k * step;
        if (i < size) write(kept[k], i);
      }
    } else {
      for (Index i = first; i < size; i += step) {
        write(Vector<kWidth>::Load(x, x_stride, i), i);
      }
    }
  }
}

using RmsNormFunction = void (*)(RmsNormArgs);

// Tries the register counts from the largest down, so that only combinations
// that a plan can ask for are compiled.
template <int kWidth, int kPerThread = MaxVectorsPerThread(kWidth)>
RmsNormFunction KernelOfWidth(const RmsNormPlan& plan) {
  if constexpr (kPerThread == 0) {
    return &RmsNormKernel<kWidth, 0>;
  } else {
    return plan.vectors_per_thread == kPerThread
               ? &RmsNormKernel<kWidth, kPerThread>
               : KernelOfWidth<kWidth, kPerThread / 2>(plan);
  }
}

// The kernel for a plan, to be launched with its grid and blocks.
inline RmsNormFunction KernelFor(const RmsNormPlan& plan) {
  return plan.vector_width == 4 ? KernelOfWidth<4>(plan)
                                : KernelOfWidth<1>(plan);
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_RMSNORM_KERNEL_CUH_
