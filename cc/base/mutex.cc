// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/mutex.h"

namespace servecore {

constinit thread_local WaitObserver* current_wait_observer = nullptr;

void TellBeforeWait() noexcept {
  if (current_wait_observer != nullptr) current_wait_observer->BeforeWait();
}

void Mutex::LockSlow() {
  TellBeforeWait();
  mutex_.lock();
}

}  // namespace servecore
