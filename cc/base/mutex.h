// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_MUTEX_H_
#define SERVECORE_CC_BASE_MUTEX_H_

#include <mutex>
#include <utility>

namespace servecore {

// What a thread does before it waits for a Mutex that another thread holds.
//
// It exists for bridges to a runtime with a lock of its own, such as Python's
// GIL: nobody may wait for a Mutex while holding that lock, and to give it up
// around calls that last 20 ns costs more than the calls, since every other
// thread of the runtime then competes for it. So the bridge keeps the runtime's
// lock, and gives it up in BeforeWait, in the rare call that has to wait.
class WaitObserver {
 public:
  // Called on the waiting thread, which may hold other Mutexes, so it waits for
  // nothing itself. Called again when the same thread waits again.
  virtual void BeforeWait() noexcept = 0;

 protected:
  ~WaitObserver() = default;
};

// Each thread's, for the two below.
extern constinit thread_local WaitObserver* current_wait_observer;

// Makes `observer` the current thread's observer until the end of the scope,
// and the one before it again after that.
//
// Ownership: none. Lifetime: the observer outlives the scope.
// Thread safety: concerns the thread that runs the scope and no other.
class ScopedWaitObserver {
 public:
  explicit ScopedWaitObserver(WaitObserver* observer) noexcept
      : previous_(std::exchange(current_wait_observer, observer)) {}
  ScopedWaitObserver(const ScopedWaitObserver&) = delete;
  ScopedWaitObserver& operator=(const ScopedWaitObserver&) = delete;
  ~ScopedWaitObserver() { current_wait_observer = previous_; }

 private:
  WaitObserver* const previous_;
};

// Tells the current thread's observer, if there is one. For lock types, before
// they wait.
void TellBeforeWait() noexcept;

// A std::mutex whose waiting can be observed. Meets Lockable, so that
// std::lock_guard and std::unique_lock work with it.
//
// Thread safety: as std::mutex. Costs nothing beyond it when it is free.
class Mutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) LockSlow();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void LockSlow();

  std::mutex mutex_;
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_MUTEX_H_
