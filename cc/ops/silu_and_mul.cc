// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/silu_and_mul.h"

#include <cstdint>
#include <stdexcept>

#include "cc/base/errors.h"
#include "cc/ops/checks.h"
#include "cc/ops/row_layout.h"

// clang-format off: what follows is read once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cc/ops/silu_and_mul.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "cc/ops/columns.h"
#include "cc/ops/lanes.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {
namespace {

// 1 / (1 + exp(-a)) and 1 minus that, without a difference and without an exp
// that overflows: exp(-|a|) serves both signs.
template <class V>
struct Sigmoid {
  template <class D>
  HWY_INLINE Sigmoid(D d, V a) {
    const V one = hn::Set(d, hn::TFromD<D>{1});
    const V exp = hn::Exp(d, hn::Neg(hn::Abs(a)));
    const V reciprocal = hn::Div(one, hn::Add(one, exp));
    const V other = hn::Mul(exp, reciprocal);
    const auto positive = hn::Ge(a, hn::Zero(d));
    value = hn::IfThenElse(positive, reciprocal, other);
    complement = hn::IfThenElse(positive, other, reciprocal);
  }

  V value;
  V complement;
};

template <class D, class V>
HWY_INLINE V Gate(D d, V a, V b) {
  return hn::Mul(hn::Mul(a, Sigmoid<V>(d, a).value), b);
}

template <class T>
HWY_INLINE Two<T> Gates(Two<T> a, Two<T> b) {
  const Tag<T> d;
  return {Gate(d, a.a, b.a), Gate(d, a.b, b.b)};
}

// out[i] = silu(a[i]) * b[i]; out may be a or b.
template <class T>
HWY_INLINE void GateRow(const T* a, const T* b, T* out, std::int64_t size) {
  constexpr Order kOrder = kOrderFor<T>;
  std::int64_t i = 0;
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(
        Gates<T>(LoadTwo<kOrder>(a + i), LoadTwo<kOrder>(b + i)), out + i);
  }
  if (i < size) {
    Tail<T> tail(a + i, size - i);
    const Tail<T> b_tail(b + i, size - i);
    StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(
        Gates<T>(LoadTwo<kOrder>(tail.data), LoadTwo<kOrder>(b_tail.data)),
        tail.data);
    tail.Store(out + i, size - i);
  }
}

template <class D, class V>
HWY_INLINE void Differentiate(D d, V grad, V& a, V& b) {
  const Sigmoid<V> sigmoid(d, a);
  const V one = hn::Set(d, hn::TFromD<D>{1});
  const V slope =
      hn::Mul(sigmoid.value, hn::MulAdd(a, sigmoid.complement, one));
  const V grad_a = hn::Mul(hn::Mul(grad, b), slope);
  b = hn::Mul(hn::Mul(a, sigmoid.value), grad);
  a = grad_a;
}

template <class T>
HWY_INLINE void DifferentiateTwo(const T* grad, const T* a, const T* b,
                                 T* grad_a, T* grad_b) {
  constexpr Order kOrder = kOrderFor<T>;
  const Tag<T> d;
  const Two<T> grads = LoadTwo<kOrder>(grad);
  Two<T> as = LoadTwo<kOrder>(a);
  Two<T> bs = LoadTwo<kOrder>(b);
  Differentiate(d, grads.a, as.a, bs.a);
  Differentiate(d, grads.b, as.b, bs.b);
  StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(as, grad_a);
  StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(bs, grad_b);
}

// grad_a may be a and grad_b b.
template <class T>
HWY_INLINE void DifferentiateRow(const T* grad, const T* a, const T* b,
                                 T* grad_a, T* grad_b, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    DifferentiateTwo(grad + i, a + i, b + i, grad_a + i, grad_b + i);
  }
  if (i < size) {
    const Tail<T> grad_tail(grad + i, size - i);
    Tail<T> a_tail(a + i, size - i);
    Tail<T> b_tail(b + i, size - i);
    DifferentiateTwo<T>(grad_tail.data, a_tail.data, b_tail.data, a_tail.data,
                        b_tail.data);
    a_tail.Store(grad_a + i, size - i);
    b_tail.Store(grad_b + i, size - i);
  }
}

struct Forward {
  std::int64_t begin;
  std::int64_t end;

  template <class T>
  void Run(const SiluAndMulArgs& args) const {
    const std::int64_t dim = args.out.layout.dim();
    const std::int64_t x_stride = args.x.layout.stride();
    const bool dense = x_stride == 1 && args.out.layout.stride() == 1;
    RowCursor x_row(args.x.layout, begin);
    RowCursor out_row(args.out.layout, begin);
    for (std::int64_t row = begin; row < end; ++row) {
      const T* a = static_cast<const T*>(args.x.data) + x_row.offset();
      const T* b = a + dim * x_stride;
      T* out = static_cast<T*>(args.out.data) + out_row.offset();
      if (dense) {
        GateRow(a, b, out, dim);
      } else {
        Strided(args, a, b, out);
      }
      x_row.Next();
      out_row.Next();
    }
  }

  template <class T>
  static HWY_NOINLINE void Strided(const SiluAndMulArgs& args, const T* a,
                                   const T* b, T* out) {
    const std::int64_t dim = args.out.layout.dim();
    InColumns<T> a_in(args.x.layout.stride());
    InColumns<T> b_in(args.x.layout.stride());
    OutColumns<T> columns(args.out.layout.stride());
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      GateRow(a_in.Read(a, i, size), b_in.Read(b, i, size), columns.At(out, i),
              size);
      columns.Write(out, i, size);
    }
  }
};

struct Backward {
  std::int64_t begin;
  std::int64_t end;

  template <class T>
  void Run(const SiluAndMulBackwardArgs& args) const {
    const std::int64_t dim = args.grad_out.layout.dim();
    const std::int64_t x_stride = args.x.layout.stride();
    const std::int64_t grad_x_stride = args.grad_x.layout.stride();
    const bool dense = x_stride == 1 && grad_x_stride == 1 &&
                       args.grad_out.layout.stride() == 1;
    RowCursor grad_row(args.grad_out.layout, begin);
    RowCursor x_row(args.x.layout, begin);
    RowCursor grad_x_row(args.grad_x.layout, begin);
    for (std::int64_t row = begin; row < end; ++row) {
      const T* grad =
          static_cast<const T*>(args.grad_out.data) + grad_row.offset();
      const T* a = static_cast<const T*>(args.x.data) + x_row.offset();
      const T* b = a + dim * x_stride;
      T* grad_a = static_cast<T*>(args.grad_x.data) + grad_x_row.offset();
      T* grad_b = grad_a + dim * grad_x_stride;
      if (dense) {
        DifferentiateRow(grad, a, b, grad_a, grad_b, dim);
      } else {
        Strided(args, grad, a, b, grad_a, grad_b);
      }
      grad_row.Next();
      x_row.Next();
      grad_x_row.Next();
    }
  }

  template <class T>
  static HWY_NOINLINE void Strided(const SiluAndMulBackwardArgs& args,
                                   const T* grad, const T* a, const T* b,
                                   T* grad_a, T* grad_b) {
    const std::int64_t dim = args.grad_out.layout.dim();
    InColumns<T> grad_in(args.grad_out.layout.stride());
    InColumns<T> a_in(args.x.layout.stride());
    InColumns<T> b_in(args.x.layout.stride());
    OutColumns<T> a_out(args.grad_x.layout.stride());
    OutColumns<T> b_out(args.grad_x.layout.stride());
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      DifferentiateRow(grad_in.Read(grad, i, size), a_in.Read(a, i, size),
                       b_in.Read(b, i, size), a_out.At(grad_a, i),
                       b_out.At(grad_b, i), size);
      a_out.Write(grad_a, i, size);
      b_out.Write(grad_b, i, size);
    }
  }
};

void SiluAndMulRows(const SiluAndMulArgs& args, std::int64_t row_begin,
                    std::int64_t row_end) {
  ByDType(args.dtype, Forward{row_begin, row_end}, args);
}

void SiluAndMulBackwardRows(const SiluAndMulBackwardArgs& args,
                            std::int64_t row_begin, std::int64_t row_end) {
  ByDType(args.dtype, Backward{row_begin, row_end}, args);
}

}  // namespace
}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "cc/ops/dispatch.h"

namespace servecore::ops {
namespace {

void CheckHalves(const char* op, const char* name, const RowLayout& half,
                 const RowLayout& x) {
  if (half.rows() == x.rows() && x.dim() % 2 == 0 &&
      half.dim() == x.dim() / 2) {
    return;
  }
  throw std::invalid_argument(
      StrCat(op, ": x has ", x.rows(), " rows of ", x.dim(), " elements, ",
             name, " has ", half.rows(), " rows of ", half.dim(),
             " elements; it must have as many rows, half as long"));
}

}  // namespace

void SiluAndMul(const SiluAndMulArgs& args, std::int64_t row_begin,
                std::int64_t row_end) {
  constexpr const char* kOp = "SiluAndMul";
  CheckHalves(kOp, "out", args.out.layout, args.x.layout);
  CheckRange(kOp, "rows", row_begin, row_end, args.x.layout.rows());
  if (args.x.layout.dim() == 0 || row_begin == row_end) return;
  SERVECORE_DISPATCH(SiluAndMulRows)(args, row_begin, row_end);
}

void SiluAndMul(const SiluAndMulArgs& args) {
  SiluAndMul(args, 0, args.x.layout.rows());
}

void SiluAndMulBackward(const SiluAndMulBackwardArgs& args,
                        std::int64_t row_begin, std::int64_t row_end) {
  constexpr const char* kOp = "SiluAndMulBackward";
  CheckHalves(kOp, "grad_out", args.grad_out.layout, args.x.layout);
  CheckSameRows(kOp, "x", args.x.layout, "grad_x", args.grad_x.layout);
  CheckRange(kOp, "rows", row_begin, row_end, args.x.layout.rows());
  if (args.x.layout.dim() == 0 || row_begin == row_end) return;
  SERVECORE_DISPATCH(SiluAndMulBackwardRows)(args, row_begin, row_end);
}

void SiluAndMulBackward(const SiluAndMulBackwardArgs& args) {
  SiluAndMulBackward(args, 0, args.x.layout.rows());
}

}  // namespace servecore::ops

#endif  // HWY_ONCE
