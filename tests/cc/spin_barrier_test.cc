// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/spin_barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace servecore {
namespace {

TEST(SpinBarrierTest, NobodyPassesBeforeEverybodyHasCome) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  SpinBarrier barrier(kThreads);
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 1; round <= kRounds; ++round) {
        arrived.fetch_add(1);
        barrier.Wait();
        if (arrived.load() < round * kThreads) early.fetch_add(1);
        barrier.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(early.load(), 0);
  EXPECT_EQ(arrived.load(), kThreads * kRounds);
}

// What one thread writes before the barrier, another reads after it: here the
// thread sanitizer is the judge.
TEST(SpinBarrierTest, OrdersMemory) {
  SpinBarrier barrier(2);
  int value = 0;
  int seen = 0;
  std::thread writer([&] {
    value = 7;
    barrier.Wait();
  });
  barrier.Wait();
  seen = value;
  writer.join();
  EXPECT_EQ(seen, 7);
}

TEST(SpinBarrierTest, OneThreadNeedNotWait) {
  SpinBarrier barrier(1);
  barrier.Wait();
  barrier.Wait();
}

}  // namespace
}  // namespace servecore
