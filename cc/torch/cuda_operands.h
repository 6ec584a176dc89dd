// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_CUDA_OPERANDS_H_
#define SERVECORE_CC_TORCH_CUDA_OPERANDS_H_

#include <torch/csrc/stable/tensor.h>

#include "cc/ops/row_layout.h"
#include "cuda/dtype.h"
#include "cuda/rmsnorm_plan.h"

// What cudaStream_t points to.
struct CUstream_st;

// Tensors as the kernels of cuda/ want them.
//
// Ownership, Lifetime: what these give borrows the tensor's memory.
// Copies: nothing.
namespace servecore::torch_ops {

// Fails unless the kernels of cuda/ know the tensor's dtype: torch.float32,
// torch.bfloat16 or torch.float16.
cuda::DType CheckedDeviceDType(const char* op, const char* name,
                               const torch::stable::Tensor& tensor);

// Whether DeviceRowsOf takes the layout: no more than Rows::kMaxRank leading
// dimensions are left after merging.
bool FitsDeviceRows(const ops::RowLayout& layout);
cuda::Rows DeviceRowsOf(const ops::RowLayout& layout);

// Stream: torch's current stream of the tensor's device.
CUstream_st* CurrentStreamOf(const torch::stable::Tensor& tensor);

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_CUDA_OPERANDS_H_
