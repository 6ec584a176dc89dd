// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/checks.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace servecore::torch_ops {

using torch::headeronly::DeviceType;
using torch::headeronly::Layout;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

std::string DtypeName(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Byte:
      return "torch.uint8";
    case ScalarType::Char:
      return "torch.int8";
    case ScalarType::Short:
      return "torch.int16";
    case ScalarType::Int:
      return "torch.int32";
    case ScalarType::Long:
      return "torch.int64";
    case ScalarType::Half:
      return "torch.float16";
    case ScalarType::BFloat16:
      return "torch.bfloat16";
    case ScalarType::Float:
      return "torch.float32";
    case ScalarType::Double:
      return "torch.float64";
    case ScalarType::ComplexFloat:
      return "torch.complex64";
    case ScalarType::ComplexDouble:
      return "torch.complex128";
    case ScalarType::Bool:
      return "torch.bool";
    default:
      return torch::headeronly::toString(dtype);
  }
}

std::string DeviceName(const Tensor& tensor) {
  const torch::stable::Device device = tensor.device();
  const std::string index = std::to_string(device.index());
  switch (device.type()) {
    case DeviceType::CPU:
      return "cpu";
    case DeviceType::Meta:
      return "meta";
    case DeviceType::CUDA:
      return "cuda:" + index;
    case DeviceType::XPU:
      return "xpu:" + index;
    case DeviceType::MPS:
      return "mps:" + index;
    default:
      return "device type " + std::to_string(static_cast<int>(device.type())) +
             ", index " + index;
  }
}

std::string ShapeName(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  std::string name = "(";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) name += ", ";
    name += std::to_string(sizes[i]);
  }
  return name + (sizes.size() == 1 ? ",)" : ")");
}

std::string LayoutName(const Tensor& tensor) {
  switch (tensor.layout()) {
    case Layout::Strided:
      return "torch.strided";
    case Layout::Sparse:
      return "torch.sparse_coo";
    case Layout::SparseCsr:
      return "torch.sparse_csr";
    case Layout::SparseCsc:
      return "torch.sparse_csc";
    case Layout::SparseBsr:
      return "torch.sparse_bsr";
    case Layout::SparseBsc:
      return "torch.sparse_bsc";
    case Layout::Mkldnn:
      return "torch._mkldnn";
    case Layout::Jagged:
      return "torch.jagged";
    default:
      return "layout " + std::to_string(static_cast<int>(tensor.layout()));
  }
}

bool SameDevice(const Tensor& a, const Tensor& b) {
  return a.device() == b.device();
}

std::int32_t DtypeCode(const Tensor& tensor) {
  std::int32_t code = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &code));
  return code;
}

bool SameDtype(const Tensor& a, const Tensor& b) {
  return DtypeCode(a) == DtypeCode(b);
}

bool SameShape(const Tensor& a, const Tensor& b, Sizes sizes) {
  if (sizes == Sizes::kReal) {
    const auto a_sizes = a.sizes();
    const auto b_sizes = b.sizes();
    return std::ranges::equal(a_sizes, b_sizes);
  }
  std::array<StableIValue, 2> stack{torch::stable::detail::from(a),
                                    torch::stable::detail::from(b)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::is_same_size", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<bool>(stack[0]);
}

void CheckDevices(const char* op, std::initializer_list<Argument> arguments) {
  const Argument& first = *arguments.begin();
  const torch::stable::Device device = first.tensor.device();
  for (const Argument& argument :
       std::span(arguments.begin(), arguments.size()).subspan(1)) {
    if (argument.tensor.device() == device) continue;
    Fail(op, ": ", first.name, " is on ", DeviceName(first.tensor), ", ",
         argument.name, " is on ", DeviceName(argument.tensor),
         "; both must be on one device, move one with .to()");
  }
}

void CheckLike(const char* op, const Argument& argument, const Argument& like,
               Sizes sizes) {
  if (!SameDtype(argument.tensor, like.tensor)) {
    Fail(op, ": ", like.name, " has dtype ",
         DtypeName(like.tensor.scalar_type()), ", ", argument.name,
         " has dtype ", DtypeName(argument.tensor.scalar_type()),
         "; both must have one dtype, convert one with .to()");
  }
  if (!SameShape(argument.tensor, like.tensor, sizes)) {
    Fail(op, ": ", like.name, " has shape ", ShapeName(like.tensor), ", ",
         argument.name, " has shape ", ShapeName(argument.tensor),
         "; both must have one shape");
  }
}

void FailWithoutKernel(const char* op,
                       std::initializer_list<Argument> arguments) {
  std::string found;
  for (const Argument& argument : arguments) {
    if (!found.empty()) found += ", ";
    found += std::string(argument.name) + " is on " +
             DeviceName(argument.tensor) + " (" + LayoutName(argument.tensor) +
             ")";
  }
  Fail(op, ": ", found,
       ", for which this build has no kernel; allowed are torch.strided "
       "tensors on cpu and meta, and on cuda when servecore is built with "
       "--config=cuda and has the op for it; move the tensors with .cpu() or "
       "use a CUDA build");
}

}  // namespace servecore::torch_ops
