// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_SPIN_BARRIER_H_
#define SERVECORE_CC_BASE_SPIN_BARRIER_H_

#include <atomic>
#include <thread>

namespace servecore {

// Makes a fixed number of threads of a test meet, so that what they do next
// overlaps even where each does it in a microsecond. It does not sleep, because
// threads woken one after another would miss each other; it yields, because
// there may be fewer cores than threads.
//
// Lifetime: that of the longest of its threads at least.
// Thread safety: Wait is called by exactly `num_threads` threads a round.
class SpinBarrier {
 public:
  explicit SpinBarrier(int num_threads) : num_threads_(num_threads) {}

  // Returns once all threads have called it; it may then be used again.
  void Wait() {
    const unsigned round = round_.load(std::memory_order_acquire);
    if (num_waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 ==
        num_threads_) {
      num_waiting_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) {
      std::this_thread::yield();
    }
  }

 private:
  const int num_threads_;
  std::atomic<int> num_waiting_{0};
  std::atomic<unsigned> round_{0};
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_SPIN_BARRIER_H_
