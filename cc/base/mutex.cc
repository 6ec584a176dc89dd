// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/mutex.h"

#include <utility>

namespace servecore {
namespace {

constinit thread_local WaitObserver* current_observer = nullptr;

}  // namespace

ScopedWaitObserver::ScopedWaitObserver(WaitObserver* observer) noexcept
    : previous_(std::exchange(current_observer, observer)) {}

ScopedWaitObserver::~ScopedWaitObserver() { current_observer = previous_; }

void TellBeforeWait() noexcept {
  if (current_observer != nullptr) current_observer->BeforeWait();
}

void Mutex::LockSlow() {
  TellBeforeWait();
  mutex_.lock();
}

}  // namespace servecore
