// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_CHECKS_H_
#define SERVECORE_CC_TORCH_CHECKS_H_

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>

// Argument checks shared by every op of the library, and the words they report
// values in. Names follow Python ("torch.float32", "cuda:0", "(4, 7)"), because
// that is where the messages are read.
//
// Every failed check throws std::runtime_error, which torch turns into
// RuntimeError as it does for its own ops. All checks of an op run before it
// allocates or writes anything.
namespace servecore::torch_ops {

// Throws std::runtime_error with the pieces of the message put together.
template <class... Pieces>
[[noreturn]] void Fail(const Pieces&... pieces) {
  std::ostringstream message;
  (message << ... << pieces);
  throw std::runtime_error(message.str());
}

// "torch.float32"; a dtype without a Python name keeps its C++ one.
std::string DtypeName(torch::headeronly::ScalarType dtype);
// "cpu", "cuda:0", "meta".
std::string DeviceName(const torch::stable::Tensor& tensor);
// "(4, 7, 4096)", "(3,)", "()".
std::string ShapeName(const torch::stable::Tensor& tensor);
// "torch.strided", "torch.sparse_coo".
std::string LayoutName(const torch::stable::Tensor& tensor);

bool SameDevice(const torch::stable::Tensor& a, const torch::stable::Tensor& b);

// What torch's C interface calls the tensor's dtype. Reading it is an order of
// magnitude faster than scalar_type().
std::int32_t DtypeCode(const torch::stable::Tensor& tensor);
bool SameDtype(const torch::stable::Tensor& a, const torch::stable::Tensor& b);

// Whether two shapes are equal. Of tensors without data, whose sizes may be
// symbols that torch.compile traces with, only kSymbolic may be asked: reading
// such a size fixes its value and costs a compilation per shape. It leaves the
// comparison to torch, which takes a microsecond.
enum class Sizes : std::uint8_t { kReal, kSymbolic };
bool SameShape(const torch::stable::Tensor& a, const torch::stable::Tensor& b,
               Sizes sizes);

// A tensor by its name in the schema.
// Hidden, as torch says that its stable tensors are.
struct [[gnu::visibility("hidden")]] Argument {
  const char* name;
  const torch::stable::Tensor& tensor;
};

// Fails unless all tensors are on the first one's device.
void CheckDevices(const char* op, std::initializer_list<Argument> arguments);

// Fails unless the tensor has `like`'s dtype and shape.
void CheckLike(const char* op, const Argument& argument, const Argument& like,
               Sizes sizes);

// What an op answers on every backend that has no kernel in this build. Without
// it torch would answer with a page of dispatch keys.
[[noreturn]] void FailWithoutKernel(const char* op,
                                    std::initializer_list<Argument> arguments);

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_CHECKS_H_
