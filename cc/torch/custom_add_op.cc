// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::custom_add(a, b): a + b without broadcasting or type promotion.
//
// It is a composite of torch's own ops, so it runs on every device that torch
// runs on, and gradients, transforms and compilers see through it. What it adds
// is the checks: torch.add would quietly broadcast or promote.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <vector>

#include "cc/torch/checks.h"

namespace servecore::torch_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr const char* kOp = "servecore::custom_add";
constexpr const char* kOutOp = "servecore::custom_add_out";

void Check(const char* op, const Tensor& a, const Tensor& b) {
  if (!SameDevice(a, b)) {
    Fail(op, ": a is on ", DeviceName(a), ", b is on ", DeviceName(b),
         "; both must be on one device, move one with .to()");
  }
  if (a.scalar_type() != b.scalar_type()) {
    Fail(op, ": a has dtype ", DtypeName(a.scalar_type()), ", b has dtype ",
         DtypeName(b.scalar_type()),
         "; both must have one dtype, convert one with .to()");
  }
  if (!SameShape(a, b, Sizes::kSymbolic)) {
    Fail(op, ": a has shape ", ShapeName(a), ", b has shape ", ShapeName(b),
         "; both must have one shape, broadcast one with .expand_as()");
  }
}

bool IsFractional(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::UInt16:
    case ScalarType::UInt32:
    case ScalarType::UInt64:
    case ScalarType::Bool:
      return false;
    default:
      return true;
  }
}

Tensor Stack(const std::vector<Tensor>& tensors) {
  std::array<StableIValue, 2> arguments{
      torch::stable::detail::from(tensors),
      torch::stable::detail::from(std::int64_t{0})};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::stack", "", arguments.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(arguments[0]);
}

// torch.add(a, b), which the stable ABI cannot call: add takes a Scalar, and a
// Scalar does not cross it. subtract is there with its factor as a double, and
// torch computes it by add's kernel with the sign of the factor turned, so
// a - (-1.0) * b is a + b to the last bit. Integers refuse a fractional factor;
// they are stacked and summed, which is exact for them, and contiguous.
Tensor Add(const Tensor& a, const Tensor& b) {
  const ScalarType dtype = a.scalar_type();
  if (IsFractional(dtype)) return torch::stable::subtract(a, b, -1.0);
  const std::array<std::int64_t, 1> first_dim{0};
  return torch::stable::sum(Stack({a, b}), first_dim, /*keepdim=*/false, dtype);
}

// Ownership: the result is a new tensor; a and b are only read.
// Copies: none beyond the result for floating-point and complex tensors;
// integer and boolean ones are copied once more into a stack of both. Stream:
// torch's current stream of the inputs' device.
Tensor CustomAdd(const Tensor& a, const Tensor& b) {
  Check(kOp, a, b);
  return Add(a, b);
}

// The same, copied into `out`, which may be a or b.
void CustomAddOut(const Tensor& a, const Tensor& b, Tensor out) {
  Check(kOutOp, a, b);
  CheckDevices(kOutOp, {{"a", a}, {"out", out}});
  CheckLike(kOutOp, {"out", out}, {"a", a}, Sizes::kSymbolic);
  torch::stable::copy_(out, Add(a, b));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeImplicitAutograd, m) {
  m.impl("custom_add", TORCH_BOX(&CustomAdd));
  m.impl("custom_add_out", TORCH_BOX(&CustomAddOut));
}

}  // namespace
}  // namespace servecore::torch_ops
