// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/shared_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "cc/base/mutex.h"
#include "tests/cc/run_together.h"

namespace servecore {
namespace {

class Counter final : public WaitObserver {
 public:
  void BeforeWait() noexcept override { ++count; }

  std::atomic<int> count = 0;
};

TEST(SharedMutexTest, WritersExcludeEverybody) {
  SharedMutex mutex;
  int value = 0;
  std::atomic<int> num_torn = 0;
  RunTogether(4, [&](int t) {
    for (int i = 0; i < 5000; ++i) {
      if (t < 2) {
        const std::lock_guard lock(mutex);
        ++value;
        ++value;
      } else {
        const std::shared_lock lock(mutex);
        if (value % 2 != 0) ++num_torn;
      }
    }
  });
  EXPECT_EQ(value, 20000);
  EXPECT_EQ(num_torn, 0);
}

TEST(SharedMutexTest, ReadersShareIt) {
  SharedMutex mutex;
  const std::shared_lock lock(mutex);
  std::thread([&mutex] {
    ASSERT_TRUE(mutex.try_lock_shared());
    mutex.unlock_shared();
    EXPECT_FALSE(mutex.try_lock());
  }).join();
}

TEST(SharedMutexTest, AWriterExcludesReadersAndWriters) {
  SharedMutex mutex;
  const std::lock_guard lock(mutex);
  std::thread([&mutex] {
    EXPECT_FALSE(mutex.try_lock_shared());
    EXPECT_FALSE(mutex.try_lock());
  }).join();
}

TEST(SharedMutexTest, WaitingTellsTheObserver) {
  SharedMutex mutex;
  for (const bool shared : {false, true}) {
    Counter observer;
    std::unique_lock lock(mutex);
    std::thread waiter([&] {
      const ScopedWaitObserver scope(&observer);
      if (shared) {
        const std::shared_lock waited(mutex);
      } else {
        const std::lock_guard waited(mutex);
      }
    });
    while (observer.count == 0) std::this_thread::yield();
    lock.unlock();
    waiter.join();
    EXPECT_EQ(observer.count, 1);
  }
}

// Readers that come while a writer waits come after it. With a lock that lets
// them pass, readers who overlap without a gap keep the writer out for ever.
TEST(SharedMutexTest, AWaitingWriterGoesBeforeLaterReaders) {
  SharedMutex mutex;
  Counter observer;
  mutex.lock_shared();
  std::thread writer([&] {
    const ScopedWaitObserver scope(&observer);
    const std::lock_guard lock(mutex);
  });
  while (observer.count == 0) std::this_thread::yield();
  // The writer has said that it will wait, and does so soon.
  bool refused = false;
  while (!refused) {
    std::thread([&] {
      refused = !mutex.try_lock_shared();
      if (!refused) mutex.unlock_shared();
    }).join();
  }
  mutex.unlock_shared();
  writer.join();
}

}  // namespace
}  // namespace servecore
