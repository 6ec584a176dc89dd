// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_RMSNORM_ROWS_CUH_
#define SERVECORE_CUDA_RMSNORM_ROWS_CUH_

// What the kernels that normalise rows share.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/device.cuh"
#include "cuda/dtype.h"
#include "cuda/element.cuh"
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

template <class T, int kWidth>
__device__ float SumOfSquares(const Elements<T, kWidth>& elements) {
  float sum = 0.0F;
  SERVECORE_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    const float value = ToFloat(elements.lanes[i]);
    sum += value * value;
  }
  return sum;
}

// `round_first` rounds to T before the weight multiply, too.
template <class T, class W, int kWidth>
__device__ Elements<T, kWidth> Scaled(const Elements<T, kWidth>& elements,
                                      float scale,
                                      const Elements<W, kWidth>& weight,
                                      bool round_first) {
  Elements<T, kWidth> result;
  SERVECORE_UNROLL
  for (int i = 0; i < kWidth; ++i) {
    float value = ToFloat(elements.lanes[i]) * scale;
    if (round_first) value = ToFloat(FromFloat<T>(value));
    result.lanes[i] = FromFloat<T>(value * ToFloat(weight.lanes[i]));
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

// What a kernel that normalises rows does. A block is threads_per_row by
// rows_per_block threads. kPerThread accesses of the row stay in each thread's
// registers between the two passes; 0 reads the row again instead.
//
// take(x_offset, out_offset, i) gives the i-th access of the row of x and of
// out that begin there; it is called once for each, and by the thread that
// writes that access of out.
template <class T, class W, int kWidth, int kPerThread, class Take>
__device__ void NormaliseRows(const RmsNormArgs& args, const Take& take) {
  auto* partial = StaticShared<float, kMaxThreads / kWarp>();

  // A row that fits registers is short; 32-bit indices leave it more of them.
  using Index = std::conditional_t<(kPerThread > 0), int, std::int64_t>;
  const auto vectors = static_cast<Index>(args.dim / kWidth);
  const auto first = static_cast<Index>(threadIdx.x);
  const auto step = static_cast<Index>(blockDim.x);
  const std::int64_t rows_per_grid =
      static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  const T* x = static_cast<const T*>(args.x);
  const W* weight = static_cast<const W*>(args.weight);
  T* out = static_cast<T*>(args.out);

  // Bounded by the block's first row, which all its threads share: they must
  // reach the barriers in RowSum together.
  for (std::int64_t block_row =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.y;
       block_row < args.num_rows; block_row += rows_per_grid) {
    const std::int64_t row = block_row + threadIdx.y;
    const bool in_range = row < args.num_rows;
    const Index size = in_range ? vectors : 0;
    const std::int64_t x_offset =
        in_range ? RowOffset(args.x_rows, row) : std::int64_t{0};
    const std::int64_t out_offset =
        in_range ? RowOffset(args.out_rows, row) : std::int64_t{0};

    Elements<T, kWidth> kept[kPerThread > 0 ? kPerThread : 1];
    float sum = 0.0F;
    if constexpr (kPerThread > 0) {
      SERVECORE_UNROLL
      for (int k = 0; k < kPerThread; ++k) {
        const Index i = first + k * step;
        if (i < size) {
          kept[k] = take(x_offset, out_offset, i);
          sum += SumOfSquares(kept[k]);
        }
      }
    } else {
      for (Index i = first; i < size; i += step) {
        const Elements<T, kWidth> taken = take(x_offset, out_offset, i);
        sum += SumOfSquares(taken);
      }
    }

    const float mean = RowSum(sum, partial) / static_cast<float>(args.dim);
    const float scale = rsqrtf(mean + args.eps);

    const auto write = [&](const Elements<T, kWidth>& elements, Index i) {
      Scaled(elements, scale,
             Elements<W, kWidth>::Load(weight, args.weight_stride, i),
             args.cast_before_weight)
          .Store(out + out_offset, args.out_rows.stride, i);
    };
    if constexpr (kPerThread > 0) {
      SERVECORE_UNROLL
      for (int k = 0; k < kPerThread; ++k) {
        const Index i = first + k * step;
        if (i < size) write(kept[k], i);
      }
    } else {
      for (Index i = first; i < size; i += step) {
        write(Elements<T, kWidth>::Load(x + x_offset, args.x_rows.stride, i),
              i);
      }
    }
  }
}

// Of the functions that Kernels<T, W, kWidth, kPerThread>::Get() gives, the one
// for a plan and dtypes, to be launched with the plan's grid and blocks. Tries
// the register counts from the largest down, so that only combinations that a
// plan can ask for are compiled.
template <template <class, class, int, int> class Kernels, class T, class W,
          int kWidth, int kPerThread = MaxVectorsPerThread(kWidth)>
auto KernelOfWidth(const RmsNormPlan& plan) {
  if constexpr (kPerThread == 0) {
    return Kernels<T, W, kWidth, 0>::Get();
  } else {
    return plan.vectors_per_thread == kPerThread
               ? Kernels<T, W, kWidth, kPerThread>::Get()
               : KernelOfWidth<Kernels, T, W, kWidth, kPerThread / 2>(plan);
  }
}

template <template <class, class, int, int> class Kernels, class T, class W>
auto KernelOfTypes(const RmsNormPlan& plan) {
  return plan.vector_width == 1
             ? KernelOfWidth<Kernels, T, W, 1>(plan)
             : KernelOfWidth<Kernels, T, W, kElementsPerVector<T>>(plan);
}

template <template <class, class, int, int> class Kernels>
auto KernelOf(const RmsNormArgs& args, const RmsNormPlan& plan) {
  const bool same = args.weight_dtype == args.dtype;
  switch (args.dtype) {
    case DType::kBFloat16:
      return same ? KernelOfTypes<Kernels, __nv_bfloat16, __nv_bfloat16>(plan)
                  : KernelOfTypes<Kernels, __nv_bfloat16, float>(plan);
    case DType::kFloat16:
      return same ? KernelOfTypes<Kernels, __half, __half>(plan)
                  : KernelOfTypes<Kernels, __half, float>(plan);
    case DType::kFloat32:
      break;
  }
  return KernelOfTypes<Kernels, float, float>(plan);
}

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_RMSNORM_ROWS_CUH_
