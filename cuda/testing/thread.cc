// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/thread.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cuda/testing/block.h"
#include "cuda/testing/fiber.h"
#include "cuda/testing/vector_types.h"

namespace servecore::cuda::testing {
namespace {

Block& Current() {
  Block* block = Block::Current();
  if (block == nullptr) {
    throw std::logic_error(
        "device code was called outside a kernel: run it by "
        "servecore::cuda::testing::Launch");
  }
  return *block;
}

// What all fences of a program meet at.
std::uint64_t fence = 0;

}  // namespace

uint3 ThreadIndex() { return Current().thread_index(); }
uint3 BlockIndex() { return Current().index(); }
dim3 BlockDim() { return Current().grid().block; }
dim3 GridDim() { return Current().grid().grid; }

void SyncThreads(const Location& where) { Current().SyncThreads(where); }

std::uint64_t WarpOperation(const WarpArguments& arguments,
                            const Location& where) {
  return Current().WarpOperation(arguments, where);
}

void Fence() {
  Current();
  // Each fence comes after all that ran before it: more order than CUDA gives,
  // and what a kernel relies on that counts its ended blocks.
  AcquireFrom(&fence);
  ReleaseTo(&fence);
}

void* DynamicSharedMemory() { return Current().DynamicSharedMemory(); }

void* StaticSharedMemory(const void* key, std::size_t bytes,
                         std::size_t alignment) {
  return Current().StaticSharedMemory(key, bytes, alignment);
}

}  // namespace servecore::cuda::testing
