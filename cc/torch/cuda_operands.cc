// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/cuda_operands.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include "cc/ops/dtype.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"

namespace servecore::torch_ops {

using torch::stable::Tensor;

cuda::DType CheckedDeviceDType(const char* op, const char* name,
                               const Tensor& tensor) {
  const std::optional<ops::DType> dtype = DTypeOf(tensor);
  if (dtype == ops::DType::kFloat32) return cuda::DType::kFloat32;
  if (dtype == ops::DType::kBFloat16) return cuda::DType::kBFloat16;
  if (dtype == ops::DType::kFloat16) return cuda::DType::kFloat16;
  Fail(op, ": ", name, " has dtype ", DtypeName(tensor.scalar_type()),
       " on cuda; allowed there are torch.float32, torch.bfloat16 and "
       "torch.float16");
}

bool FitsDeviceRows(const ops::RowLayout& layout) {
  return layout.leading_sizes().size() <=
         static_cast<std::size_t>(cuda::Rows::kMaxRank);
}

cuda::Rows DeviceRowsOf(const ops::RowLayout& layout) {
  cuda::Rows rows;
  rows.rank = static_cast<int>(layout.leading_sizes().size());
  std::ranges::copy(layout.leading_sizes(), std::begin(rows.sizes));
  std::ranges::copy(layout.leading_strides(), std::begin(rows.strides));
  rows.stride = layout.stride();
  return rows;
}

CUstream_st* CurrentStreamOf(const Tensor& tensor) {
  const auto stream =
      torch::stable::accelerator::getCurrentStream(tensor.get_device_index());
  return static_cast<CUstream_st*>(stream.nativeHandle());
}

}  // namespace servecore::torch_ops
