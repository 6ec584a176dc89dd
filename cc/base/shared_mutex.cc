// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/shared_mutex.h"

#include <system_error>

#include "cc/base/mutex.h"

namespace servecore {
namespace {

void ThrowUnlessZero(int error, const char* what) {
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), what);
  }
}

}  // namespace

SharedMutex::SharedMutex() {
  pthread_rwlockattr_t attributes;
  ThrowUnlessZero(pthread_rwlockattr_init(&attributes),
                  "cannot make a SharedMutex");
  pthread_rwlockattr_setkind_np(&attributes,
                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  const int error = pthread_rwlock_init(&lock_, &attributes);
  pthread_rwlockattr_destroy(&attributes);
  ThrowUnlessZero(error, "cannot make a SharedMutex");
}

SharedMutex::~SharedMutex() { pthread_rwlock_destroy(&lock_); }

void SharedMutex::lock() {
  if (try_lock()) return;
  TellBeforeWait();
  ThrowUnlessZero(pthread_rwlock_wrlock(&lock_), "SharedMutex::lock");
}

bool SharedMutex::try_lock() { return pthread_rwlock_trywrlock(&lock_) == 0; }

void SharedMutex::unlock() { pthread_rwlock_unlock(&lock_); }

void SharedMutex::lock_shared() {
  if (try_lock_shared()) return;
  TellBeforeWait();
  ThrowUnlessZero(pthread_rwlock_rdlock(&lock_), "SharedMutex::lock_shared");
}

bool SharedMutex::try_lock_shared() {
  return pthread_rwlock_tryrdlock(&lock_) == 0;
}

void SharedMutex::unlock_shared() { pthread_rwlock_unlock(&lock_); }

}  // namespace servecore
