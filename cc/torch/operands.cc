// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/operands.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "cc/torch/checks.h"

namespace servecore::torch_ops {

using torch::headeronly::MemoryFormat;
using torch::stable::Tensor;

std::optional<ops::DType> DTypeOf(const Tensor& tensor) {
  static const std::array<std::pair<std::int32_t, ops::DType>, 4> dtypes{{
      {aoti_torch_dtype_float32(), ops::DType::kFloat32},
      {aoti_torch_dtype_bfloat16(), ops::DType::kBFloat16},
      {aoti_torch_dtype_float16(), ops::DType::kFloat16},
      {aoti_torch_dtype_float64(), ops::DType::kFloat64},
  }};
  const std::int32_t code = DtypeCode(tensor);
  for (const auto& [known, dtype] : dtypes) {
    if (known == code) return dtype;
  }
  return std::nullopt;
}

ops::DType CheckedDType(const char* op, const char* name,
                        const Tensor& tensor) {
  const std::optional<ops::DType> dtype = DTypeOf(tensor);
  if (!dtype.has_value()) {
    Fail(op, ": ", name, " has dtype ", DtypeName(tensor.scalar_type()),
         "; allowed are torch.float32, torch.bfloat16, torch.float16 and "
         "torch.float64, convert with .to()");
  }
  return *dtype;
}

ops::RowLayout LayoutOf(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  return {{sizes.data(), sizes.size()}, {strides.data(), strides.size()}};
}

ops::ConstRows ConstRowsOf(const Tensor& tensor) {
  return {.data = tensor.const_data_ptr(), .layout = LayoutOf(tensor)};
}

ops::Rows RowsOf(const Tensor& tensor) {
  return {.data = tensor.mutable_data_ptr(), .layout = LayoutOf(tensor)};
}

ops::ColumnWeights ColumnWeightsOf(const Tensor& tensor) {
  return {.data = tensor.const_data_ptr(),
          .dtype = *DTypeOf(tensor),
          .stride = tensor.stride(0)};
}

Tensor NewContiguous(const Tensor& tensor) {
  // empty_like instead of new_empty(tensor.sizes()): reading sizes() would fix
  // every symbolic size that torch.compile is tracing with.
  std::array<StableIValue, 6> stack{
      torch::stable::detail::from(tensor),
      torch::stable::detail::from(std::nullopt),  // dtype
      torch::stable::detail::from(std::nullopt),  // layout
      torch::stable::detail::from(std::nullopt),  // device
      torch::stable::detail::from(std::nullopt),  // pin_memory
      torch::stable::detail::from(
          std::optional<MemoryFormat>(MemoryFormat::Contiguous))};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::empty_like", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace servecore::torch_ops
