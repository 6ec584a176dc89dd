// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_RMSNORM_H_
#define SERVECORE_CUDA_RMSNORM_H_

#include "cuda/rmsnorm_plan.h"

// What cudaStream_t points to. Named here so that callers need no CUDA headers.
struct CUstream_st;

namespace servecore::cuda {

// Launches rmsnorm for `args` on `stream` of the current device.
//
// Stream: `stream`, a cudaStream_t. Returns before the kernel has run;
// allocates nothing and never synchronises, so it may be captured into a CUDA
// graph. Copies: none; every layout is read and written by its strides. Where
// all rows are dense and aligned, memory is accessed 128 bits at a time. Thread
// safety: concurrent calls are safe. Complexity: one read and one write of x's
// size, two reads for rows longer than 16384 aligned or 8192 other elements. No
// rows or rows of no elements launch nothing. Throws std::runtime_error, naming
// the op, the shape and CUDA's reason, when the launch is refused. Errors of
// the running kernel surface where CUDA reports them: at a later call.
void LaunchRmsNorm(const RmsNormArgs& args, CUstream_st* stream);

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_RMSNORM_H_
