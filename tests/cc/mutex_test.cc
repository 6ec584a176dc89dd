// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace servecore {
namespace {

class Counter final : public WaitObserver {
 public:
  void BeforeWait() noexcept override { ++count; }

  std::atomic<int> count = 0;
};

// Locks and unlocks `mutex` on another thread, which has to wait for it, with
// `observers` in force there from the outermost to the innermost; lets it go on
// as soon as `seen` has been told.
template <class... Observers>
void WaitOnAnotherThread(Mutex& mutex, Counter& seen, Observers&... observers) {
  std::unique_lock<Mutex> lock(mutex);
  std::thread waiter([&mutex, &observers...] {
    [[maybe_unused]] const ScopedWaitObserver scopes[] = {
        ScopedWaitObserver(&observers)...};
    const std::lock_guard<Mutex> waited(mutex);
  });
  while (seen.count == 0) std::this_thread::yield();
  lock.unlock();
  waiter.join();
}

TEST(MutexTest, ExcludesOtherThreads) {
  Mutex mutex;
  int sum = 0;
  const auto add = [&mutex, &sum] {
    for (int i = 0; i < 20000; ++i) {
      const std::lock_guard<Mutex> lock(mutex);
      ++sum;
    }
  };
  std::thread first(add);
  std::thread second(add);
  first.join();
  second.join();
  EXPECT_EQ(sum, 40000);
}

TEST(MutexTest, TryLockSaysWhetherItIsFree) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread([&mutex] { EXPECT_FALSE(mutex.try_lock()); }).join();
  mutex.unlock();
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(MutexTest, FreeMutexTellsNobody) {
  Mutex mutex;
  Counter observer;
  const ScopedWaitObserver scope(&observer);
  {
    const std::lock_guard<Mutex> lock(mutex);
  }
  EXPECT_EQ(observer.count, 0);
}

TEST(MutexTest, WaitingTellsTheObserverOfTheWaitingThread) {
  Mutex mutex;
  Counter waiting;
  Counter holding;
  const ScopedWaitObserver scope(&holding);
  WaitOnAnotherThread(mutex, waiting, waiting);
  EXPECT_EQ(waiting.count, 1);
  EXPECT_EQ(holding.count, 0);
}

TEST(MutexTest, InnermostObserverIsTold) {
  Mutex mutex;
  Counter outer;
  Counter inner;
  WaitOnAnotherThread(mutex, inner, outer, inner);
  EXPECT_EQ(outer.count, 0);
  EXPECT_EQ(inner.count, 1);
}

TEST(MutexTest, EndOfScopeBringsBackTheObserverBefore) {
  Mutex mutex;
  Counter outer;
  Counter inner;
  std::unique_lock<Mutex> lock(mutex);
  std::thread waiter([&] {
    const ScopedWaitObserver outer_scope(&outer);
    {
      const ScopedWaitObserver inner_scope(&inner);
    }
    const std::lock_guard<Mutex> waited(mutex);
  });
  while (outer.count == 0) std::this_thread::yield();
  lock.unlock();
  waiter.join();
  EXPECT_EQ(outer.count, 1);
  EXPECT_EQ(inner.count, 0);
}

TEST(MutexTest, NoObserverIsNeededToWait) {
  Mutex mutex;
  std::atomic<bool> started = false;
  bool locked = false;
  std::unique_lock<Mutex> lock(mutex);
  std::thread waiter([&] {
    started = true;
    const std::lock_guard<Mutex> waited(mutex);
    locked = true;
  });
  while (!started) std::this_thread::yield();
  EXPECT_FALSE(locked);
  lock.unlock();
  waiter.join();
  EXPECT_TRUE(locked);
}

}  // namespace
}  // namespace servecore
