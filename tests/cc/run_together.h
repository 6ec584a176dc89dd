// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_TESTS_CC_RUN_TOGETHER_H_
#define SERVECORE_TESTS_CC_RUN_TOGETHER_H_

#include <thread>
#include <vector>

#include "cc/base/spin_barrier.h"

namespace servecore {

// Runs body(thread) on threads 0 .. num_threads - 1 that begin together, and
// waits for all of them. A body must not throw.
template <class Body>
void RunTogether(int num_threads, Body body) {
  SpinBarrier barrier(num_threads);
  std::vector<std::thread> threads;
  threads.reserve(num_threads);
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&barrier, &body, t] {
      barrier.Wait();
      body(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace servecore

#endif  // SERVECORE_TESTS_CC_RUN_TOGETHER_H_
