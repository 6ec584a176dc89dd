// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::silu_and_mul(x), its out variant and its gradient, for CPU and
// Meta.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/ops/silu_and_mul.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"
#include "cc/torch/overlap.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

constexpr const char* kOp = "servecore::silu_and_mul";
constexpr const char* kOutOp = "servecore::silu_and_mul_out";
constexpr const char* kBackwardOp = "servecore::silu_and_mul_backward";

// The first half of x's columns, as a view; the shape of the result. Fails
// unless x has two halves. torch splits it, so sizes may be symbols.
Tensor FirstHalf(const char* op, const Tensor& x) {
  CheckedDType(op, "x", x);
  if (x.dim() > 0) {
    std::array<StableIValue, 3> stack{
        torch::stable::detail::from(x),
        torch::stable::detail::from(std::int64_t{2}),
        torch::stable::detail::from(std::int64_t{-1})};
    STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
        "aten::chunk", "", stack.data(), TORCH_ABI_VERSION));
    const auto halves =
        torch::stable::detail::to<std::vector<Tensor>>(stack[0]);
    if (halves.size() == 2 &&
        SameShape(halves[0], halves[1], Sizes::kSymbolic)) {
      return halves[0];
    }
  }
  Fail(op, ": x has shape ", ShapeName(x),
       "; the last dimension must be even, it holds the gate and as many "
       "factors");
}

// The same for a tensor with data, without a call of torch.
void CheckHalves(const char* op, const Tensor& x) {
  CheckedDType(op, "x", x);
  if (x.dim() == 0 || x.size(-1) % 2 != 0) FirstHalf(op, x);
}

bool IsHalfOf(const Tensor& half, const Tensor& x) {
  const auto sizes = x.sizes();
  const auto half_sizes = half.sizes();
  if (half_sizes.size() != sizes.size()) return false;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (half_sizes[i] != sizes[i]) return false;
  }
  return 2 * half_sizes[sizes.size() - 1] == sizes[sizes.size() - 1];
}

void CheckOut(const char* op, const Argument& out, const Tensor& x) {
  CheckDevices(op, {{"x", x}, out});
  if (!SameDtype(out.tensor, x)) {
    Fail(op, ": x has dtype ", DtypeName(x.scalar_type()), ", ", out.name,
         " has dtype ", DtypeName(out.tensor.scalar_type()),
         "; both must have one dtype, convert one with .to()");
  }
}

void CheckOutShape(const char* op, const Argument& out, const Tensor& x) {
  if (IsHalfOf(out.tensor, x)) return;
  Fail(op, ": x has shape ", ShapeName(x), ", ", out.name, " has shape ",
       ShapeName(out.tensor),
       "; it must be half as long in the last dimension "
       "and equal in the others");
}

void Compute(const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  const ops::SiluAndMulArgs args{
      .dtype = *DTypeOf(x), .x = ConstRowsOf(x), .out = RowsOf(out)};
  ForRanges(args.out.layout.rows(), 2 * args.out.layout.dim(),
            [&args](std::int64_t row_begin, std::int64_t row_end) {
              ops::SiluAndMul(args, row_begin, row_end);
            });
}

// Ownership: the result is a new, contiguous tensor; x is only read.
// Copies: none; x is read by its strides.
// GIL: neither needed nor taken.
// Thread safety: runs rows on torch's intra-op pool; concurrent calls are safe.
Tensor SiluAndMulCpu(const Tensor& x) {
  CheckHalves(kOp, x);
  std::vector<std::int64_t> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() /= 2;
  Tensor out = torch::stable::new_empty(x, sizes);
  Compute(x, out);
  return out;
}

void SiluAndMulOutCpu(const Tensor& x, const Tensor& out) {
  CheckHalves(kOutOp, x);
  CheckOut(kOutOp, {"out", out}, x);
  CheckOutShape(kOutOp, {"out", out}, x);
  CheckWritable(kOutOp, {"out", out}, {{"x", x}});
  Compute(x, out);
}

// Ownership: the result is a new, contiguous tensor of x's shape.
// Copies, GIL, Thread safety: as SiluAndMulCpu.
Tensor SiluAndMulBackwardCpu(const Tensor& grad_out, const Tensor& x) {
  CheckHalves(kBackwardOp, x);
  CheckOut(kBackwardOp, {"grad_out", grad_out}, x);
  CheckOutShape(kBackwardOp, {"grad_out", grad_out}, x);
  Tensor grad_x = NewContiguous(x);
  if (grad_x.numel() == 0) return grad_x;
  const ops::SiluAndMulBackwardArgs args{.dtype = *DTypeOf(x),
                                         .grad_out = ConstRowsOf(grad_out),
                                         .x = ConstRowsOf(x),
                                         .grad_x = RowsOf(grad_x)};
  ForRanges(args.x.layout.rows(), 2 * args.x.layout.dim(),
            [&args](std::int64_t row_begin, std::int64_t row_end) {
              ops::SiluAndMulBackward(args, row_begin, row_end);
            });
  return grad_x;
}

Tensor SiluAndMulMeta(const Tensor& x) {
  return NewContiguous(FirstHalf(kOp, x));
}

// Fails unless `out`, without data, is like the result of silu_and_mul(x).
void CheckOutMeta(const char* op, const Argument& out, const Tensor& x) {
  const Tensor half = FirstHalf(op, x);
  CheckOut(op, out, x);
  if (!SameShape(half, out.tensor, Sizes::kSymbolic)) CheckOutShape(op, out, x);
}

void SiluAndMulOutMeta(const Tensor& x, const Tensor& out) {
  CheckOutMeta(kOutOp, {"out", out}, x);
}

Tensor SiluAndMulBackwardMeta(const Tensor& grad_out, const Tensor& x) {
  CheckOutMeta(kBackwardOp, {"grad_out", grad_out}, x);
  return NewContiguous(x);
}

Tensor SiluAndMulUnavailable(const Tensor& x) {
  FailWithoutKernel(kOp, {{"x", x}});
}

void SiluAndMulOutUnavailable(const Tensor& x, const Tensor& out) {
  FailWithoutKernel(kOutOp, {{"x", x}, {"out", out}});
}

Tensor SiluAndMulBackwardUnavailable(const Tensor& grad_out, const Tensor& x) {
  FailWithoutKernel(kBackwardOp, {{"grad_out", grad_out}, {"x", x}});
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("silu_and_mul", TORCH_BOX(&SiluAndMulCpu));
  m.impl("silu_and_mul_out", TORCH_BOX(&SiluAndMulOutCpu));
  m.impl("silu_and_mul_backward", TORCH_BOX(&SiluAndMulBackwardCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("silu_and_mul", TORCH_BOX(&SiluAndMulMeta));
  m.impl("silu_and_mul_out", TORCH_BOX(&SiluAndMulOutMeta));
  m.impl("silu_and_mul_backward", TORCH_BOX(&SiluAndMulBackwardMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("silu_and_mul", TORCH_BOX(&SiluAndMulUnavailable));
  m.impl("silu_and_mul_out", TORCH_BOX(&SiluAndMulOutUnavailable));
  m.impl("silu_and_mul_backward", TORCH_BOX(&SiluAndMulBackwardUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
