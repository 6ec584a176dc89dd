// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_FUSED_ADD_RMSNORM_H_
#define SERVECORE_CUDA_FUSED_ADD_RMSNORM_H_

#include "cuda/fused_add_rmsnorm_args.h"

// What cudaStream_t points to. Named here so that callers need no CUDA headers.
struct CUstream_st;

namespace servecore::cuda {

// Launches fused_add_rmsnorm_ for `args` on `stream` of the current device.
//
// Stream, copies, thread safety, errors: as LaunchRmsNorm, whose plan it has
// with residual for x and x for out. Complexity: one read and one write of x
// and of residual; a second read of residual for rows that are too long for
// registers.
void LaunchFusedAddRmsNorm(const FusedAddRmsNormArgs& args,
                           CUstream_st* stream);

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_FUSED_ADD_RMSNORM_H_
