// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/fused_add_rmsnorm.h"

#include <cstdint>

#include "cc/ops/checks.h"
#include "cc/ops/row_layout.h"

// clang-format off: what follows is read once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cc/ops/fused_add_rmsnorm.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "cc/ops/columns.h"
#include "cc/ops/lanes.h"
#include "cc/ops/rmsnorm_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE Two<T> Sum(Two<T> x, Two<T> y) {
  return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)};
}

// sum[i] = x[i] + sum[i]
template <class T>
HWY_INLINE void AddTo(const T* x, T* sum, std::int64_t size) {
  constexpr Order kOrder = kOrderFor<T>;
  std::int64_t i = 0;
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(
        Sum<T>(LoadTwo<kOrder>(x + i), LoadTwo<kOrder>(sum + i)), sum + i);
  }
  if (i < size) {
    const Tail<T> x_tail(x + i, size - i);
    Tail<T> sum_tail(sum + i, size - i);
    StoreTwo<kOrder, Via::kCache, Nans::kOfBFloat16>(
        Sum<T>(LoadTwo<kOrder>(x_tail.data), LoadTwo<kOrder>(sum_tail.data)),
        sum_tail.data);
    sum_tail.Store(sum + i, size - i);
  }
}

// A row where x, residual and weight lie side by side in themselves.
template <class T, class W>
struct DenseRow {
  explicit DenseRow(const FusedAddRmsNormArgs& args)
      : dim(args.x.layout.dim()),
        weight(static_cast<const W*>(args.weight.data)) {}

  double Add(const T* x, T* residual) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < dim; i += kSumBlock) {
      const std::int64_t size = dim - i < kSumBlock ? dim - i : kSumBlock;
      AddTo(x + i, residual + i, size);
      sum += BlockSumOfSquares(residual + i, size);
    }
    return sum;
  }

  template <CastBeforeWeight cast>
  void Scale(const T* residual, Wide<T> scale, T* x) {
    ScaleRow<T, W, cast>(residual, scale, weight, x, 0, dim);
  }

  std::int64_t dim;
  const W* weight;
};

template <class T, class W>
struct StridedRow {
  explicit StridedRow(const FusedAddRmsNormArgs& args)
      : dim(args.x.layout.dim()),
        weight(static_cast<const W*>(args.weight.data)),
        x_in(args.x.layout.stride()),
        x_out(args.x.layout.stride()),
        residual_in(args.residual.layout.stride()),
        residual_out(args.residual.layout.stride()),
        weight_in(args.weight.stride) {}

  double Add(const T* x, T* residual) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      const T* before = residual_in.Read(residual, i, size);
      T* after = residual_out.At(residual, i);
      if (after != before) Copy(before, after, size);
      AddTo(x_in.Read(x, i, size), after, size);
      sum += BlockSumOfSquares(static_cast<const T*>(after), size);
      residual_out.Write(residual, i, size);
    }
    return sum;
  }

  template <CastBeforeWeight cast>
  void Scale(const T* residual, Wide<T> scale, T* x) {
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      ScaleRow<T, W, cast>(residual_in.Read(residual, i, size), scale,
                           weight_in.Read(weight, i, size), x_out.At(x, i), 0,
                           size);
      x_out.Write(x, i, size);
    }
  }

  static void Copy(const T* from, T* to, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) to[i] = from[i];
  }

  std::int64_t dim;
  const W* weight;
  InColumns<T> x_in;
  OutColumns<T> x_out;
  InColumns<T> residual_in;
  OutColumns<T> residual_out;
  InColumns<W> weight_in;
};

static_assert(kPiece == kSumBlock, "a row's sum must not depend on its layout");

struct RowRange {
  std::int64_t begin;
  std::int64_t end;

  template <class T, class W>
  void Run(const FusedAddRmsNormArgs& args) const {
    if (args.x.layout.stride() == 1 && args.residual.layout.stride() == 1 &&
        args.weight.stride == 1) {
      Loop<DenseRow<T, W>, T>(args);
    } else {
      Loop<StridedRow<T, W>, T>(args);
    }
  }

  template <class Row, class T>
  void Loop(const FusedAddRmsNormArgs& args) const {
    Row row(args);
    RowCursor x_row(args.x.layout, begin);
    RowCursor residual_row(args.residual.layout, begin);
    for (std::int64_t i = begin; i < end; ++i) {
      T* x = static_cast<T*>(args.x.data) + x_row.offset();
      T* residual = static_cast<T*>(args.residual.data) + residual_row.offset();
      const Wide<T> scale =
          InverseRms<T>(row.Add(x, residual), row.dim, args.eps);
      if (args.cast_before_weight) {
        row.template Scale<CastBeforeWeight::kYes>(residual, scale, x);
      } else {
        row.template Scale<CastBeforeWeight::kNo>(residual, scale, x);
      }
      x_row.Next();
      residual_row.Next();
    }
  }
};

void FusedAddRmsNormRows(const FusedAddRmsNormArgs& args,
                         std::int64_t row_begin, std::int64_t row_end) {
  ByDTypes(args.dtype, args.weight.dtype, RowRange{row_begin, row_end}, args);
}

}  // namespace
}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "cc/ops/dispatch.h"

namespace servecore::ops {

void FusedAddRmsNorm(const FusedAddRmsNormArgs& args, std::int64_t row_begin,
                     std::int64_t row_end) {
  constexpr const char* kOp = "FusedAddRmsNorm";
  CheckSameRows(kOp, "x", args.x.layout, "residual", args.residual.layout);
  CheckWeightDType(kOp, "weight", args.weight.dtype, args.dtype);
  CheckRange(kOp, "rows", row_begin, row_end, args.x.layout.rows());
  if (args.x.layout.dim() == 0 || row_begin == row_end) return;
  SERVECORE_DISPATCH(FusedAddRmsNormRows)(args, row_begin, row_end);
}

void FusedAddRmsNorm(const FusedAddRmsNormArgs& args) {
  FusedAddRmsNorm(args, 0, args.x.layout.rows());
}

}  // namespace servecore::ops

#endif  // HWY_ONCE
