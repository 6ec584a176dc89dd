// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_BLOCK_H_
#define SERVECORE_CUDA_TESTING_BLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/testing/fiber.h"
#include "cuda/testing/order.h"
#include "cuda/testing/shared_memory.h"
#include "cuda/testing/thread.h"
#include "cuda/testing/vector_types.h"

namespace servecore::cuda::testing {

// What all blocks of a launch share.
struct Grid {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  const std::function<void()>* kernel = nullptr;
  FiberStacks* stacks = nullptr;
  // Every thread releases to it when it ends.
  void* end = nullptr;
};

// One block of a launch, whose threads take turns on the calling OS thread: one
// runs until it waits or ends, then the next.
//
// Lifetime: the grid must outlive it. Thread safety: used by one OS thread.
class Block {
 public:
  // `ordinal` counts the blocks of the launch as they are run.
  Block(const Grid& grid, const uint3& index, std::size_t ordinal);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();

  // Runs every thread to its end, once. Throws what a thread threw, or
  // LaunchError (see executor.h) when none can go on; the other threads are
  // then unwound from where they wait, and not started if they were not.
  void Run(Sequence sequence);

  // The block that runs on this OS thread; null outside Run.
  static Block* Current();

  // For the running thread; see thread.h.
  [[nodiscard]] const Grid& grid() const { return grid_; }
  [[nodiscard]] uint3 index() const { return index_; }
  [[nodiscard]] uint3 thread_index() const { return running_->index; }
  void SyncThreads(const Location& where);
  std::uint64_t WarpOperation(const WarpArguments& arguments,
                              const Location& where);
  void* DynamicSharedMemory();
  void* StaticSharedMemory(const void* key, std::size_t bytes,
                           std::size_t alignment);

 private:
  enum class State : unsigned char {
    kNew,
    kReady,
    kRunning,
    kAtBarrier,
    kAtWarpOp,
    kEnded,
  };

  struct Thread {
    Context context;
    uint3 index{};
    State state = State::kNew;
    // While it waits.
    Location where;
    WarpArguments arguments;
    std::uint64_t result = 0;
  };

  // Unwinds a thread of a block that has failed.
  struct Cancelled {};

  struct StaticArray {
    const void* key = nullptr;
    SharedMemory memory;
  };

  static void Entry(void* block);

  void Resume(Thread* thread);
  // Leaves the running thread until it is made ready.
  void Wait();
  // Lets the threads go on if all wait at one barrier.
  bool PassBarrier();
  void Cancel();
  // What each thread is doing, of those that can't go on.
  [[nodiscard]] std::string Divergence() const;
  [[nodiscard]] std::string Name(const Thread& thread) const;
  static std::string Doing(const Thread& thread);
  // The result of the operation for one lane; all in its mask have arrived.
  [[nodiscard]] std::uint64_t ResultFor(const Thread* warp,
                                        std::uint32_t present,
                                        std::uint32_t lane) const;

  // More would not fit an SM's shared memory in any real kernel.
  static constexpr std::size_t kMaxStaticArrays = 64;

  const Grid& grid_;
  uint3 index_;
  std::size_t ordinal_;
  std::size_t count_;
  std::unique_ptr<Thread[]> threads_;
  std::unique_ptr<Context*[]> contexts_;
  // Raw pointers and a plain array: threads of the block use them, and
  // ThreadSanitizer would watch the functions of a container.
  Thread* running_ = nullptr;
  Context scheduler_;
  std::size_t ended_ = 0;
  bool is_cancelled_ = false;
  std::exception_ptr exception_;
  SharedMemory dynamic_;
  StaticArray statics_[kMaxStaticArrays];
  std::size_t num_statics_ = 0;
};

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_BLOCK_H_
