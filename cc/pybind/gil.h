// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The two ways in which a bound function gives up the GIL.

#ifndef SERVECORE_CC_PYBIND_GIL_H_
#define SERVECORE_CC_PYBIND_GIL_H_

#include <pybind11/pybind11.h>

#include "cc/base/mutex.h"

namespace servecore::pybind {

// Gives up the GIL for the scope: for calls whose work grows with their input.
// No Python object may be touched inside.
using GilReleased = pybind11::gil_scoped_release;

// Gives up the GIL when the scope has to wait for a servecore::Mutex, and takes
// it back at the end of the scope: for calls that take a lock for some
// nanoseconds. No Python object may be touched inside.
//
// To give it up always would cost such a call twice its time when the process
// has one thread, and up to the switch interval (5 ms) when another one
// computes in Python. The rule holds all the same: no C++ lock is waited for
// with the GIL held, and the GIL is waited for after every C++ lock is free.
class GilReleasedOnWait final : public WaitObserver {
 public:
  GilReleasedOnWait() : scope_(this) {}
  GilReleasedOnWait(const GilReleasedOnWait&) = delete;
  GilReleasedOnWait& operator=(const GilReleasedOnWait&) = delete;
  ~GilReleasedOnWait() {
    if (thread_state_ != nullptr) PyEval_RestoreThread(thread_state_);
  }

  void BeforeWait() noexcept override {
    if (thread_state_ == nullptr) thread_state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* thread_state_ = nullptr;  // of a thread without the GIL
  ScopedWaitObserver scope_;
};

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_GIL_H_
