// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cc/ops/checks.h"
#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"
#include "cc/ops/row_layout.h"

// clang-format off: what follows is read once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cc/ops/rmsnorm.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "cc/ops/columns.h"
#include "cc/ops/lanes.h"
#include "cc/ops/rmsnorm_rows.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {
namespace {

// Bytes of out from which on it is written past the caches: what is written is
// pushed out of them before anyone reads it, and a store into a cache reads the
// line first, a third of the traffic.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;

// ScaleRow past the caches, and a start on reading `next_x`, the row after,
// while this one is computed.
template <class T, class W>
HWY_NOINLINE void StreamRow(const T* x, Wide<T> scale, const W* weight, T* out,
                            std::int64_t size, const T* next_x) {
  constexpr auto kCast = CastBeforeWeight::kNo;
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  constexpr std::int64_t kStep = kTwo<T> > kLine ? kTwo<T> : kLine;
  const auto past = reinterpret_cast<std::uintptr_t>(out) % 64;
  std::int64_t i =
      past == 0 ? 0 : static_cast<std::int64_t>((64 - past) / sizeof(T));
  i = std::min(i, size);
  ScaleRow<T, W, kCast>(x, scale, weight, out, 0, i);
  for (; i + kStep <= size; i += kStep) {
    for (std::int64_t j = 0; j < kStep; j += kLine) {
      hwy::Prefetch(next_x + i + j);
    }
    ScaleVectors<T, W, kCast, Via::kStream>(x, scale, weight, out, i,
                                            i + kStep);
  }
  ScaleRow<T, W, kCast>(x, scale, weight, out, i, size);
}

template <class T, class W>
void DenseRows(const RmsNormArgs& args, std::int64_t row_begin,
               std::int64_t row_end) {
  const std::int64_t dim = args.x.layout.dim();
  const auto* weight = static_cast<const W*>(args.weight.data);
  const bool stream =
      !args.cast_before_weight &&
      args.out.layout.rows() >
          kStreamBytes / static_cast<std::int64_t>(sizeof(T)) / dim;
  RowCursor x_row(args.x.layout, row_begin);
  RowCursor out_row(args.out.layout, row_begin);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const T* x = static_cast<const T*>(args.x.data) + x_row.offset();
    T* out = static_cast<T*>(args.out.data) + out_row.offset();
    x_row.Next();
    out_row.Next();
    const Wide<T> scale = InverseRms<T>(SumOfSquares(x, dim), dim, args.eps);
    if (stream) {
      const T* next = static_cast<const T*>(args.x.data) + x_row.offset();
      StreamRow(x, scale, weight, out, dim, next);
    } else if (args.cast_before_weight) {
      ScaleRow<T, W, CastBeforeWeight::kYes>(x, scale, weight, out, 0, dim);
    } else {
      ScaleRow<T, W, CastBeforeWeight::kNo>(x, scale, weight, out, 0, dim);
    }
  }
  if (stream) hwy::FlushStream();
}

// One row of any strides, or some of its columns.
template <class T, class W>
struct StridedRow {
  explicit StridedRow(const RmsNormArgs& args)
      : x(args.x.layout.stride()),
        weight(args.weight.stride),
        out(args.out.layout.stride()) {}

  double SumOfSquares(const T* x_row, std::int64_t begin, std::int64_t end) {
    double sum = 0.0;
    for (std::int64_t i = begin; i < end; i += kPiece) {
      const std::int64_t size = end - i < kPiece ? end - i : kPiece;
      sum += BlockSumOfSquares(x.Read(x_row, i, size), size);
    }
    return sum;
  }

  void Scale(const RmsNormArgs& args, const T* x_row, double sum_of_squares,
             T* out_row, std::int64_t begin, std::int64_t end) {
    const auto* weights = static_cast<const W*>(args.weight.data);
    const Wide<T> scale =
        InverseRms<T>(sum_of_squares, args.x.layout.dim(), args.eps);
    for (std::int64_t i = begin; i < end; i += kPiece) {
      const std::int64_t size = end - i < kPiece ? end - i : kPiece;
      const T* from = x.Read(x_row, i, size);
      const W* by = weight.Read(weights, i, size);
      T* to = out.At(out_row, i);
      if (args.cast_before_weight) {
        ScaleRow<T, W, CastBeforeWeight::kYes>(from, scale, by, to, 0, size);
      } else {
        ScaleRow<T, W, CastBeforeWeight::kNo>(from, scale, by, to, 0, size);
      }
      out.Write(out_row, i, size);
    }
  }

  InColumns<T> x;
  InColumns<W> weight;
  OutColumns<T> out;
};

static_assert(kPiece == kSumBlock && kPiece == kRmsNormColumns,
              "a row's sum must not depend on its layout");

template <class T, class W>
void StridedRows(const RmsNormArgs& args, std::int64_t row_begin,
                 std::int64_t row_end) {
  const std::int64_t dim = args.x.layout.dim();
  RowCursor x_row(args.x.layout, row_begin);
  RowCursor out_row(args.out.layout, row_begin);
  StridedRow<T, W> strided(args);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const T* x = static_cast<const T*>(args.x.data) + x_row.offset();
    T* out = static_cast<T*>(args.out.data) + out_row.offset();
    const double sum = strided.SumOfSquares(x, 0, dim);
    strided.Scale(args, x, sum, out, 0, dim);
    x_row.Next();
    out_row.Next();
  }
}

// What is to be done, for the template that the dtypes choose.
struct RowRange {
  std::int64_t begin;
  std::int64_t end;

  template <class T, class W>
  void Run(const RmsNormArgs& args) const {
    if (args.x.layout.stride() == 1 && args.out.layout.stride() == 1 &&
        args.weight.stride == 1) {
      DenseRows<T, W>(args, begin, end);
    } else {
      StridedRows<T, W>(args, begin, end);
    }
  }
};

struct ColumnSum {
  std::int64_t row;
  std::int64_t begin;
  std::int64_t end;

  template <class T, class W>
  double Run(const RmsNormArgs& args) const {
    const T* x = static_cast<const T*>(args.x.data) +
                 RowCursor(args.x.layout, row).offset();
    if (args.x.layout.stride() == 1) {
      return SumOfSquares(x + begin, end - begin);
    }
    return StridedRow<T, W>(args).SumOfSquares(x, begin, end);
  }
};

struct ColumnScale {
  std::int64_t row;
  double sum_of_squares;
  std::int64_t begin;
  std::int64_t end;

  template <class T, class W>
  void Run(const RmsNormArgs& args) const {
    StridedRow<T, W>(args).Scale(args,
                                 static_cast<const T*>(args.x.data) +
                                     RowCursor(args.x.layout, row).offset(),
                                 sum_of_squares,
                                 static_cast<T*>(args.out.data) +
                                     RowCursor(args.out.layout, row).offset(),
                                 begin, end);
  }
};

void RmsNormRows(const RmsNormArgs& args, std::int64_t row_begin,
                 std::int64_t row_end) {
  ByDTypes(args.dtype, args.weight.dtype, RowRange{row_begin, row_end}, args);
}

double RmsNormColumnSum(const RmsNormArgs& args, std::int64_t row,
                        std::int64_t col_begin, std::int64_t col_end) {
  return ByDTypes(args.dtype, args.weight.dtype,
                  ColumnSum{row, col_begin, col_end}, args);
}

void RmsNormColumnScale(const RmsNormArgs& args, std::int64_t row, double sum,
                        std::int64_t col_begin, std::int64_t col_end) {
  ByDTypes(args.dtype, args.weight.dtype,
           ColumnScale{row, sum, col_begin, col_end}, args);
}

}  // namespace
}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "cc/ops/dispatch.h"

namespace servecore::ops {
namespace {

constexpr const char* kOp = "RmsNorm";

void Check(const RmsNormArgs& args) {
  CheckSameRows(kOp, "x", args.x.layout, "out", args.out.layout);
  CheckWeightDType(kOp, "weight", args.weight.dtype, args.dtype);
}

void CheckColumns(const RmsNormArgs& args, std::int64_t row,
                  std::int64_t col_begin, std::int64_t col_end) {
  Check(args);
  CheckRange(kOp, "rows", row, row + 1, args.x.layout.rows());
  CheckRange(kOp, "columns", col_begin, col_end, args.x.layout.dim());
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, std::int64_t row_begin,
             std::int64_t row_end) {
  Check(args);
  CheckRange(kOp, "rows", row_begin, row_end, args.x.layout.rows());
  if (args.x.layout.dim() == 0 || row_begin == row_end) return;
  SERVECORE_DISPATCH(RmsNormRows)(args, row_begin, row_end);
}

void RmsNorm(const RmsNormArgs& args) {
  RmsNorm(args, 0, args.x.layout.rows());
}

double RmsNormSumOfSquares(const RmsNormArgs& args, std::int64_t row,
                           std::int64_t col_begin, std::int64_t col_end) {
  CheckColumns(args, row, col_begin, col_end);
  if (col_begin == col_end) return 0.0;
  return SERVECORE_DISPATCH(RmsNormColumnSum)(args, row, col_begin, col_end);
}

void RmsNormScale(const RmsNormArgs& args, std::int64_t row,
                  double sum_of_squares, std::int64_t col_begin,
                  std::int64_t col_end) {
  CheckColumns(args, row, col_begin, col_end);
  if (col_begin == col_end) return;
  SERVECORE_DISPATCH(RmsNormColumnScale)
  (args, row, sum_of_squares, col_begin, col_end);
}

}  // namespace servecore::ops

#endif  // HWY_ONCE
