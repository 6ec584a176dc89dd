// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_THREAD_H_
#define SERVECORE_CUDA_TESTING_THREAD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <stdexcept>

#include "cuda/testing/vector_types.h"

// What the stand-ins in host_cuda.h are made of: the running CUDA thread asks
// the block that it belongs to. All throw std::logic_error outside a kernel
// that executor.h launched. Thread safety: each OS thread has its own block.
namespace servecore::cuda::testing {

using Location = std::source_location;

uint3 ThreadIndex();
uint3 BlockIndex();
dim3 BlockDim();
dim3 GridDim();

// Waits until every thread of the block waits here, too. Orders memory.
void SyncThreads(const Location& where);

enum class WarpOp : unsigned char {
  kSyncWarp,
  kShuffle,
  kShuffleXor,
  kShuffleDown,
  kShuffleUp,
  kVote,
};

// What a lane brings to an operation of its warp.
struct WarpArguments {
  WarpOp op = WarpOp::kSyncWarp;
  std::uint32_t mask = 0;
  // What is exchanged; for a vote, 0 or 1.
  std::uint64_t value = 0;
  // Lane, lane mask or distance, as the shuffle has it.
  std::uint32_t operand = 0;
  std::uint32_t width = 32;
};

// Waits until every lane that `mask` names waits in the same operation. Lanes
// that the block doesn't have are left out. Returns the value of the lane that
// a shuffle names, or the lanes that voted 1. Only kSyncWarp orders memory, as
// in CUDA.
std::uint64_t WarpOperation(const WarpArguments& arguments,
                            const Location& where);

// Orders memory between threads that meet by atomics.
void Fence();

// Copies 16 bytes between addresses that are multiples of 16.
inline void CopyAligned(void* to, const void* from) {
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    throw std::logic_error(
        "an access of 128 bits at an address that is no multiple of 16");
  }
  std::memcpy(to, from, 16);
}

// The memory behind DynamicShared and StaticShared in cuda/device.cuh. The
// first throws std::logic_error for a launch without any.
void* DynamicSharedMemory();
void* StaticSharedMemory(const void* key, std::size_t bytes,
                         std::size_t alignment);

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_THREAD_H_
