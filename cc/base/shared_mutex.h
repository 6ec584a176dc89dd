// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_SHARED_MUTEX_H_
#define SERVECORE_CC_BASE_SHARED_MUTEX_H_

#include <pthread.h>

namespace servecore {

// A lock that many readers or one writer hold, whose waiting can be observed as
// that of Mutex (cc/base/mutex.h). Meets SharedLockable, so that
// std::shared_lock and std::unique_lock work with it.
//
// A writer that waits goes before readers that come later, so a steady stream
// of readers cannot keep it out; std::shared_mutex lets them. Hence a thread
// that reads must not lock it for reading again.
//
// Thread safety: as std::shared_mutex.
class SharedMutex {
 public:
  SharedMutex();
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;
  ~SharedMutex();

  void lock();
  bool try_lock();
  void unlock();

  void lock_shared();
  bool try_lock_shared();
  void unlock_shared();

 private:
  pthread_rwlock_t lock_;
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_SHARED_MUTEX_H_
