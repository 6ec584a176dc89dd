// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/executor.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/device.cuh"

namespace servecore::cuda::testing {
namespace {

constexpr LaunchOptions kReverse{.threads = Order::kReverse,
                                 .blocks = Order::kReverse};

LaunchOptions Shuffled(std::uint64_t seed) {
  return {
      .threads = Order::kShuffled, .blocks = Order::kShuffled, .seed = seed};
}

// The message of the LaunchError that `launch` ends with.
std::string LaunchErrorOf(const std::function<void()>& launch) {
  try {
    launch();
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "no LaunchError";
}

__global__ void WriteIndices(std::vector<std::size_t>* seen) {
  const std::size_t block =
      (std::size_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x +
      blockIdx.x;
  const std::size_t thread =
      (std::size_t{threadIdx.z} * blockDim.y + threadIdx.y) * blockDim.x +
      threadIdx.x;
  const std::size_t threads = std::size_t{blockDim.x} * blockDim.y * blockDim.z;
  (*seen)[block * threads + thread] += block * 1000 + thread;
}

TEST(LaunchTest, EveryThreadOfEveryBlockRunsOnce) {
  for (const LaunchOptions& options :
       {LaunchOptions{}, kReverse, Shuffled(1)}) {
    constexpr std::size_t kBlocks = 12;
    constexpr std::size_t kThreads = 60;
    std::vector<std::size_t> seen(kBlocks * kThreads);
    Launch(
        dim3(3, 2, 2), dim3(5, 4, 3), 0, [&] { WriteIndices(&seen); }, options);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      ASSERT_EQ(seen[i], i / kThreads * 1000 + i % kThreads) << i;
    }
  }
}

// Reverses each block's part of `in` through shared memory.
__global__ void Reverse(const int* in, int* out) {
  int* shared = DynamicShared<int>();
  const unsigned first = blockIdx.x * blockDim.x;
  shared[threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(LaunchTest, ABarrierMakesWritesVisibleInEveryOrder) {
  constexpr std::size_t kThreads = 1024;
  constexpr std::size_t kBlocks = 3;
  std::vector<int> in(kBlocks * kThreads);
  std::iota(in.begin(), in.end(), 0);
  for (const LaunchOptions& options :
       {LaunchOptions{}, kReverse, Shuffled(1), Shuffled(2)}) {
    std::vector<int> out(in.size(), -1);
    Launch(
        dim3(kBlocks), dim3(kThreads), kThreads * sizeof(int),
        [&] { Reverse(in.data(), out.data()); }, options);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t block = i / kThreads;
      ASSERT_EQ(out[i], in[block * kThreads + kThreads - 1 - i % kThreads]);
    }
  }
}

// A running sum by doubling, with two barriers a step.
__global__ void PrefixSum(int* values) {
  __shared__ int sums[256];
  sums[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
    const int other =
        threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  values[blockIdx.x * blockDim.x + threadIdx.x] = sums[threadIdx.x];
}

TEST(LaunchTest, BarriersInALoopOverAStaticArray) {
  for (const LaunchOptions& options :
       {LaunchOptions{}, kReverse, Shuffled(3)}) {
    std::vector<int> values(1024, 1);
    Launch(dim3(4), dim3(256), 0, [&] { PrefixSum(values.data()); }, options);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<int>(i % 256) + 1);
    }
  }
}

__global__ void Count(float* a, int* b, unsigned* c, std::uint64_t* d) {
  atomicAdd(a, 0.5F);
  atomicAdd(b, -1);
  atomicAdd(c, 2);
  // NOLINTNEXTLINE(google-runtime-int): CUDA's type
  using Wide = unsigned long long;
  static_assert(sizeof(Wide) == sizeof(*d));
  __shared__ Wide sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, Wide{1} << 40U);
  __syncthreads();
  if (threadIdx.x == 0) d[blockIdx.x] = sum;
}

TEST(LaunchTest, AtomicsAddUpOverBlocks) {
  float a = 0;
  int b = 0;
  unsigned c = 0;
  std::vector<std::uint64_t> d(4);
  Launch(dim3(4), dim3(64), 0, [&] { Count(&a, &b, &c, d.data()); });
  EXPECT_EQ(a, 128.0F);
  EXPECT_EQ(b, -256);
  EXPECT_EQ(c, 512U);
  EXPECT_EQ(d, std::vector<std::uint64_t>(4, std::uint64_t{64} << 40U));
}

// The last block to end adds up what all blocks have written.
__global__ void SumOfBlocks(int* partial, unsigned* ended, int* sum) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
    __threadfence();
    is_last = atomicAdd(ended, 1U) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    for (unsigned i = 0; i < gridDim.x; ++i) *sum += partial[i];
  }
}

TEST(LaunchTest, FencesLetTheLastBlockReadWhatTheOthersWrote) {
  std::vector<int> partial(10);
  unsigned ended = 0;
  int sum = 0;
  Launch(
      dim3(10), dim3(32), 0, [&] { SumOfBlocks(partial.data(), &ended, &sum); },
      Shuffled(4));
  EXPECT_EQ(sum, 55);
}

__global__ void ReadUnwritten(unsigned char* seen) {
  auto* dynamic = DynamicShared<unsigned char>();
  auto* fixed = StaticShared<unsigned char, 3>();
  auto* other = StaticShared<unsigned char, 3, 1>();
  seen += std::size_t{blockIdx.x} * 3;
  seen[0] = dynamic[6];
  seen[1] = fixed[2];
  seen[2] = other[2];
  dynamic[6] = fixed[2] = 1;
  other[2] = 2;
}

TEST(LaunchTest, SharedMemoryIsPoisonedForEachBlock) {
  std::vector<unsigned char> seen(9);
  Launch(dim3(3), dim3(1), 7, [&] { ReadUnwritten(seen.data()); });
  EXPECT_EQ(seen, std::vector<unsigned char>(9, 0xA5));
}

#ifndef __SANITIZE_ADDRESS__
TEST(LaunchTest, AWriteBehindSharedMemoryIsAnError) {
  const std::string wrote = "block (0,0,0) wrote beyond the end";
  EXPECT_EQ(LaunchErrorOf([] {
              Launch(dim3(1), dim3(1), 7, [] { DynamicShared<char>()[7] = 0; });
            }).substr(0, wrote.size()),
            wrote);
  EXPECT_EQ(LaunchErrorOf([] {
              Launch(dim3(1), dim3(1), 0,
                     [] { StaticShared<int, 3>()[3] = 0; });
            }).substr(0, wrote.size()),
            wrote);
}
#endif

TEST(LaunchTest, DynamicSharedMemoryThatTheLaunchDidNotGive) {
  EXPECT_EQ(LaunchErrorOf([] {
              Launch(dim3(1), dim3(2), 0, [] { DynamicShared<int>()[0] = 1; });
            }),
            "block (0,0,0): thread (0,0,0) uses dynamic shared memory; the "
            "launch gave it none");
}

__global__ void LeaveEarly(unsigned rows) {
  if (threadIdx.x >= rows && blockIdx.x == 2) return;
  __syncthreads();
}

TEST(LaunchTest, ThreadsThatLeaveBeforeABarrierAreNamed) {
  const std::string message = LaunchErrorOf(
      [] { Launch(dim3(3), dim3(64), 0, [] { LeaveEarly(62); }); });
  EXPECT_NE(message.find("block (2,0,0)"), std::string::npos) << message;
  EXPECT_NE(message.find("2 of 64 are at the kernel's end ((62,0,0), "
                         "(63,0,0))"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("62 of 64 are at __syncthreads, executor_test.cc:"),
            std::string::npos)
      << message;
}

__global__ void TwoBarriers() {
  // NOLINTNEXTLINE(bugprone-branch-clone): two barriers that look alike
  if (threadIdx.y == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(LaunchTest, ThreadsAtDifferentBarriersAreNamed) {
  const std::string message = LaunchErrorOf(
      [] { Launch(dim3(1), dim3(3, 2), 0, [] { TwoBarriers(); }); });
  EXPECT_NE(message.find("3 of 6 are at __syncthreads, executor_test.cc:"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("(0,1,0), (1,1,0), (2,1,0)"), std::string::npos)
      << message;
}

struct Counter {
  explicit Counter(int* count) : count(count) { ++*count; }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() { --*count; }
  int* count;
};

TEST(LaunchTest, AnExceptionEndsTheLaunchAndUnwindsTheOtherThreads) {
  // A count for each thread, since they run unordered.
  std::vector<int> alive(64);
  const auto kernel = [&] {
    const Counter counter(&alive[threadIdx.x]);
    if (threadIdx.x == 40) throw std::out_of_range("forty");
    __syncthreads();
  };
  EXPECT_THROW(Launch(dim3(1), dim3(64), 0, kernel), std::out_of_range);
  EXPECT_EQ(alive, std::vector<int>(64));
  // And the next launch is as if nothing had been.
  std::vector<std::size_t> seen(64);
  Launch(dim3(1), dim3(64), 0, [&] { WriteIndices(&seen); });
  EXPECT_EQ(seen[63], 63U);
}

TEST(LaunchTest, TheOrderIsTheOneAskedForAndTheSameAtEveryRun) {
  const auto order_of = [](const LaunchOptions& options) {
    std::vector<unsigned> order;
    unsigned next = 0;
    order.resize(8);
    Launch(
        dim3(2), dim3(4), 0,
        [&] { order[atomicAdd(&next, 1U)] = blockIdx.x * 10 + threadIdx.x; },
        options);
    return order;
  };
  EXPECT_EQ(order_of({}), (std::vector<unsigned>{0, 1, 2, 3, 10, 11, 12, 13}));
  EXPECT_EQ(order_of(kReverse),
            (std::vector<unsigned>{13, 12, 11, 10, 3, 2, 1, 0}));
  EXPECT_EQ(order_of(Shuffled(5)), order_of(Shuffled(5)));
  EXPECT_NE(order_of(Shuffled(5)), order_of(Shuffled(6)));
}

TEST(LaunchTest, RefusesWhatNoDeviceTakes) {
  const auto nothing = [] {};
  EXPECT_THROW(Launch(dim3(0), dim3(1), 0, nothing), std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1, 65536), dim3(1), 0, nothing),
               std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(0), 0, nothing), std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(1025), 0, nothing), std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(32, 33), 0, nothing),
               std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(1, 1, 65), 0, nothing),
               std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(1), 232449, nothing),
               std::invalid_argument);
  EXPECT_THROW(Launch(dim3(1), dim3(1), 0, nullptr), std::invalid_argument);
}

TEST(LaunchTest, RefusesALaunchInAKernelAndDeviceCodeOutsideOne) {
  EXPECT_THROW(
      Launch(dim3(1), dim3(1), 0, [] { Launch(dim3(1), dim3(1), 0, [] {}); }),
      std::logic_error);
  EXPECT_THROW(__syncthreads(), std::logic_error);
}

}  // namespace
}  // namespace servecore::cuda::testing
