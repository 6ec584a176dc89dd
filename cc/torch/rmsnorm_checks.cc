// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/rmsnorm_checks.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "cc/ops/row_layout.h"
#include "cc/torch/checks.h"

namespace servecore::torch_ops {

using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

// `weight_fits(x, weight)` says whether weight, known to have one dimension, is
// as long as x's last.
template <class WeightFits>
void Check(const Tensor& x, const Tensor& weight, double eps,
           WeightFits weight_fits) {
  if (!SameDevice(x, weight)) {
    Fail("servecore::rmsnorm: x is on ", DeviceName(x), ", weight is on ",
         DeviceName(weight),
         "; both must be on one device, move one with .to()");
  }
  if (x.scalar_type() != ScalarType::Float ||
      weight.scalar_type() != ScalarType::Float) {
    Fail("servecore::rmsnorm: x has dtype ", DtypeName(x.scalar_type()),
         ", weight has dtype ", DtypeName(weight.scalar_type()),
         "; both must be torch.float32, convert with .float()");
  }
  if (x.dim() == 0) {
    Fail(
        "servecore::rmsnorm: x has shape (); it must have at least 1 "
        "dimension, the last of which is normalised");
  }
  if (weight.dim() != 1 || !weight_fits(x, weight)) {
    Fail("servecore::rmsnorm: weight has shape ", ShapeName(weight),
         ", x has shape ", ShapeName(x), "; weight must have shape (",
         x.size(-1), ",), one element per column of x");
  }
  if (!std::isfinite(eps) || eps < 0.0) {
    Fail("servecore::rmsnorm: eps is ", eps,
         "; it must be finite and not negative");
  }
}

}  // namespace

void CheckRmsNorm(const Tensor& x, const Tensor& weight, double eps) {
  Check(x, weight, eps, [](const Tensor& rows, const Tensor& columns) {
    return columns.size(0) == rows.size(-1);
  });
}

void CheckRmsNormMeta(const Tensor& x, const Tensor& weight, double eps) {
  Check(x, weight, eps, [](const Tensor& rows, const Tensor& columns) {
    if (rows.dim() == 1) return SameShape(rows, columns);
    std::vector<std::int64_t> leading(rows.dim() - 1);
    std::iota(leading.begin(), leading.end(), std::int64_t{0});
    return SameShape(torch::stable::sum(rows, leading), columns);
  });
}

Tensor NewRmsNormResult(const Tensor& x) {
  // empty_like instead of new_empty(x.sizes()): reading sizes() would fix every
  // symbolic size that torch.compile is tracing with.
  std::array<StableIValue, 6> stack{
      torch::stable::detail::from(x),
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

ops::RowLayout LayoutOf(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  return {{sizes.data(), sizes.size()}, {strides.data(), strides.size()}};
}

}  // namespace servecore::torch_ops
