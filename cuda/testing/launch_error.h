// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_LAUNCH_ERROR_H_
#define SERVECORE_CUDA_TESTING_LAUNCH_ERROR_H_

#include <stdexcept>

namespace servecore::cuda::testing {

// A kernel did what CUDA leaves undefined. The message names the block, its
// threads, and where in the source they are.
class LaunchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_LAUNCH_ERROR_H_
