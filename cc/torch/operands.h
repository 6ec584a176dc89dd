// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_OPERANDS_H_
#define SERVECORE_CC_TORCH_OPERANDS_H_

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"
#include "cc/ops/row_layout.h"

// Tensors as the kernels of cc/ops want them.
//
// Ownership, Lifetime: what these give borrows the tensor's memory.
// Copies: nothing, unless said.
namespace servecore::torch_ops {

// Nothing where the kernels know no such dtype.
std::optional<ops::DType> DTypeOf(const torch::stable::Tensor& tensor);

// Fails unless DTypeOf gives one.
ops::DType CheckedDType(const char* op, const char* name,
                        const torch::stable::Tensor& tensor);

// Where the rows of a tensor, which has at least one dimension, lie.
ops::RowLayout LayoutOf(const torch::stable::Tensor& tensor);
ops::ConstRows ConstRowsOf(const torch::stable::Tensor& tensor);
ops::Rows RowsOf(const torch::stable::Tensor& tensor);

// A vector of one of the kernels' dtypes.
ops::ColumnWeights ColumnWeightsOf(const torch::stable::Tensor& tensor);

// A new tensor, uninitialised: of `tensor`'s shape, dtype and device, and
// contiguous whatever its strides are. Of a symbolic shape, too.
torch::stable::Tensor NewContiguous(const torch::stable::Tensor& tensor);

// Elements a thread should have before a second one pays; torch's own value.
inline constexpr std::int64_t kGrainElements = 32768;

// Calls work(begin, end) for ranges that make up [0, num_items), on torch's own
// threads where there are more elements than one should have.
//
// Thread safety: `work` is called by several threads at once.
template <class Work>
void ForRanges(std::int64_t num_items, std::int64_t elements_per_item,
               const Work& work) {
  const std::int64_t grain = std::max<std::int64_t>(
      1, kGrainElements / std::max<std::int64_t>(1, elements_per_item));
  if (num_items <= grain) {
    work(std::int64_t{0}, num_items);
  } else {
    torch::stable::parallel_for(0, num_items, grain, work);
  }
}

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_OPERANDS_H_
