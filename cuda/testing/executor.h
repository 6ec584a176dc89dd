// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_EXECUTOR_H_
#define SERVECORE_CUDA_TESTING_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda/testing/launch_error.h"
#include "cuda/testing/order.h"
#include "cuda/testing/vector_types.h"

namespace servecore::cuda::testing {

// Another order gives another result where a kernel lacks a barrier.
struct LaunchOptions {
  Order threads = Order::kForward;
  Order blocks = Order::kForward;
  // Of shuffled orders.
  std::uint64_t seed = 0;
};

// Runs `kernel`, a call of a kernel that includes cuda/device.cuh, as every
// thread of every block, on the CPU:
//
//   Launch(dim3(blocks), dim3(threads), shared_bytes,
//          [&] { RmsNormKernel<4>(args); });
//
// The blocks run one after another, and a block's threads take turns on the
// calling OS thread, from one __syncthreads or warp operation to the next: the
// same options give the same run. To ThreadSanitizer every CUDA thread is a
// thread of its own, and nothing orders two of them but a barrier, __syncwarp
// or __threadfence; blocks are never ordered. Shuffles and votes order nothing,
// as in CUDA. AddressSanitizer and UBSan see a kernel as any other code.
//
// Errors: std::invalid_argument for a launch that no device takes. LaunchError
// where threads of a block wait for each other in vain (one left or waits at
// another barrier), a warp operation leaves out a lane that it needs, or shared
// memory was written beyond its end. An exception out of the kernel ends the
// launch and is thrown on; the block's other threads are unwound, so a kernel
// keeps no lock and no barrier is reached from a destructor.
//
// Lifetime: `kernel` and what it refers to are used until Launch returns.
// Thread safety: one launch at a time runs, others wait for it; no launch from
// inside a kernel. Complexity: a turn of a thread costs tens of nanoseconds.
void Launch(const dim3& grid, const dim3& block, std::size_t shared_bytes,
            const std::function<void()>& kernel,
            const LaunchOptions& options = {});

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_EXECUTOR_H_
