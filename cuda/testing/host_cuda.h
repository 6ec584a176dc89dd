// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_HOST_CUDA_H_
#define SERVECORE_CUDA_TESTING_HOST_CUDA_H_

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/testing/host_floats.h"
#include "cuda/testing/thread.h"
#include "cuda/testing/vector_types.h"

// The part of CUDA C++ that our kernels use, under a host compiler.

// The names are CUDA's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// gcc itself knows __restrict__.

// One block runs at a time, so a static is its own. Nothing clears it between
// blocks: see StaticShared in cuda/device.cuh.
#define __shared__ static

#define threadIdx (::servecore::cuda::testing::ThreadIndex())
#define blockIdx (::servecore::cuda::testing::BlockIndex())
#define blockDim (::servecore::cuda::testing::BlockDim())
#define gridDim (::servecore::cuda::testing::GridDim())

constexpr int warpSize = 32;

inline void __syncthreads(
    const std::source_location& where = std::source_location::current()) {
  servecore::cuda::testing::SyncThreads(where);
}

inline void __syncwarp(
    std::uint32_t mask = 0xffffffffU,
    const std::source_location& where = std::source_location::current()) {
  servecore::cuda::testing::WarpOperation(
      {.op = servecore::cuda::testing::WarpOp::kSyncWarp, .mask = mask}, where);
}

namespace servecore::cuda::testing {

template <typename T>
T Shuffled(WarpOp op, std::uint32_t mask, T value, std::uint32_t operand,
           int width, const std::source_location& where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  static_assert(std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = WarpOperation({.op = op,
                        .mask = mask,
                        .value = bits,
                        .operand = operand,
                        .width = static_cast<std::uint32_t>(width)},
                       where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline float ReciprocalSqrt(float value) { return 1.0F / std::sqrt(value); }

inline std::uint32_t Voted(std::uint32_t mask, bool vote,
                           const std::source_location& where) {
  return static_cast<std::uint32_t>(WarpOperation(
      {.op = WarpOp::kVote, .mask = mask, .value = vote ? 1U : 0U}, where));
}

}  // namespace servecore::cuda::testing

template <typename T>
T __shfl_sync(
    std::uint32_t mask, T value, int lane, int width = warpSize,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Shuffled(
      servecore::cuda::testing::WarpOp::kShuffle, mask, value,
      static_cast<std::uint32_t>(lane), width, where);
}

template <typename T>
T __shfl_xor_sync(
    std::uint32_t mask, T value, int lane_mask, int width = warpSize,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Shuffled(
      servecore::cuda::testing::WarpOp::kShuffleXor, mask, value,
      static_cast<std::uint32_t>(lane_mask), width, where);
}

template <typename T>
T __shfl_down_sync(
    std::uint32_t mask, T value, unsigned distance, int width = warpSize,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Shuffled(
      servecore::cuda::testing::WarpOp::kShuffleDown, mask, value, distance,
      width, where);
}

template <typename T>
T __shfl_up_sync(
    std::uint32_t mask, T value, unsigned distance, int width = warpSize,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Shuffled(
      servecore::cuda::testing::WarpOp::kShuffleUp, mask, value, distance,
      width, where);
}

inline std::uint32_t __ballot_sync(
    std::uint32_t mask, int predicate,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Voted(mask, predicate != 0, where);
}

inline int __any_sync(
    std::uint32_t mask, int predicate,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Voted(mask, predicate != 0, where) != 0 ? 1
                                                                           : 0;
}

// By votes against, so that lanes that the block doesn't have vote for it.
inline int __all_sync(
    std::uint32_t mask, int predicate,
    const std::source_location& where = std::source_location::current()) {
  return servecore::cuda::testing::Voted(mask, predicate == 0, where) == 0 ? 1
                                                                           : 0;
}

// Relaxed, as CUDA's: it makes no other access safe.
template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, int> ||
                std::is_same_v<T, unsigned> ||
                // NOLINTNEXTLINE(google-runtime-int): CUDA's type
                std::is_same_v<T, unsigned long long>);
  return std::atomic_ref<T>(*address).fetch_add(value,
                                                std::memory_order_relaxed);
}

inline void __threadfence() { servecore::cuda::testing::Fence(); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}

// Macros, since the C library has functions of these names.
#define rsqrtf(value) (::servecore::cuda::testing::ReciprocalSqrt(value))
#define __expf(value) (std::exp(static_cast<float>(value)))
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned value) { return std::popcount(value); }

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // SERVECORE_CUDA_TESTING_HOST_CUDA_H_
