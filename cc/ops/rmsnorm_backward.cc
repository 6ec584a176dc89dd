// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rmsnorm_backward.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "cc/base/errors.h"
#include "cc/ops/checks.h"
#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"

#ifndef SERVECORE_CC_OPS_RMSNORM_BACKWARD_CC_
#define SERVECORE_CC_OPS_RMSNORM_BACKWARD_CC_
namespace servecore::ops {
namespace {

// Rows whose columns are summed in one scratch row. Enough groups for 64
// threads; at least 16 rows, so that the scratch stays small beside x, and at
// most 512, so that float32 sums stay exact enough.
std::int64_t RowsOfGroup(std::int64_t rows) {
  return std::clamp<std::int64_t>((rows / 64 + 3) / 4 * 4, 16, 512);
}

// Scratch rows are as long as whole vectors of any target.
std::int64_t ScratchColumns(std::int64_t dim) { return (dim + 63) / 64 * 64; }

}  // namespace
}  // namespace servecore::ops
#endif  // SERVECORE_CC_OPS_RMSNORM_BACKWARD_CC_

// clang-format off: what follows is read once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cc/ops/rmsnorm_backward.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "cc/ops/columns.h"
#include "cc/ops/lanes.h"
#include "cc/ops/rmsnorm_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {
namespace {

// sum(x * x) and sum(grad * weight * x) of a row.
struct RowSums {
  double squares = 0.0;
  double grads = 0.0;
};

template <class T, class W>
HWY_INLINE void AddTerms(const T* grad, const T* x, const W* weight,
                         Two<T>& squares, Two<T>& grads) {
  constexpr Order kOrder = kOrderFor<T, W>;
  const Two<T> g = LoadTwo<kOrder>(grad);
  const Two<T> v = LoadTwo<kOrder>(x);
  const Two<W> w = LoadTwo<kOrder>(weight);
  AddSquares<T>(v, squares);
  grads.a = hn::MulAdd(hn::Mul(g.a, w.a), v.a, grads.a);
  grads.b = hn::MulAdd(hn::Mul(g.b, w.b), v.b, grads.b);
}

// At most kSumBlock elements.
template <class T, class W>
HWY_INLINE void AddBlock(const T* grad, const T* x, const W* weight,
                         std::int64_t size, RowSums& sums) {
  Sums<T> squares;
  Sums<T> grads;
  std::int64_t i = 0;
  for (; i + 2 * kTwo<T> <= size; i += 2 * kTwo<T>) {
    AddTerms(grad + i, x + i, weight + i, squares.two[0], grads.two[0]);
    AddTerms(grad + i + kTwo<T>, x + i + kTwo<T>, weight + i + kTwo<T>,
             squares.two[1], grads.two[1]);
  }
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    AddTerms(grad + i, x + i, weight + i, squares.two[0], grads.two[0]);
  }
  if (i < size) {
    const Tail<T> grad_tail(grad + i, size - i);
    const Tail<T> x_tail(x + i, size - i);
    const Tail<W> weight_tail(weight + i, size - i);
    AddTerms<T, W>(grad_tail.data, x_tail.data, weight_tail.data,
                   squares.two[1], grads.two[1]);
  }
  sums.squares += squares.Total();
  sums.grads += grads.Total();
}

// grad_x = grad * weight * scale - x * pull.
template <class T>
struct RowFactors {
  Wide<T> scale;
  Wide<T> pull;

  HWY_INLINE RowFactors() = default;
  HWY_INLINE RowFactors(const RowSums& sums, std::int64_t dim, double eps) {
    const auto n = static_cast<double>(dim);
    const double inverse = 1.0 / __builtin_sqrt(sums.squares / n + eps);
    scale = static_cast<Wide<T>>(inverse);
    pull = static_cast<Wide<T>>(inverse * inverse * inverse * sums.grads / n);
  }
};

// Whether grad_weight is wanted.
enum class SumColumns : std::uint8_t { kNo, kYes };

// The same columns of some rows of grad_out, x and grad_x, each of which lies
// side by side.
template <class T>
struct RowPointers {
  const T* grad;
  const T* x;
  T* grad_x;
  RowFactors<T> factors;
};

template <class T, class W, SumColumns sum_columns>
HWY_INLINE void RowTwo(const T* grad, const T* x, T* grad_x,
                       const RowFactors<T>& factors, Two<W> weight,
                       Two<T>& sum) {
  constexpr Order kOrder = kOrderFor<T, W>;
  const Tag<T> d;
  const Two<T> g = LoadTwo<kOrder>(grad);
  const Two<T> v = LoadTwo<kOrder>(x);
  const auto scale = hn::Set(d, factors.scale);
  const auto pull = hn::Set(d, factors.pull);
  const Two<T> scaled{hn::Mul(g.a, scale), hn::Mul(g.b, scale)};
  if constexpr (sum_columns == SumColumns::kYes) {
    sum.a = hn::MulAdd(scaled.a, v.a, sum.a);
    sum.b = hn::MulAdd(scaled.b, v.b, sum.b);
  }
  StoreTwo<kOrder, Via::kCache, kNansOf<T, W>>(
      Two<T>{hn::MulSub(scaled.a, weight.a, hn::Mul(v.a, pull)),
             hn::MulSub(scaled.b, weight.b, hn::Mul(v.b, pull))},
      grad_x);
}

// One vector pair of columns of `num_rows` rows.
template <class T, class W, SumColumns sum_columns>
HWY_INLINE void RowsTwo(const RowPointers<T>* rows, int num_rows,
                        std::int64_t at, const W* weight, Wide<T>* sums) {
  const Two<W> w = LoadTwo<kOrderFor<T, W>>(weight);
  Two<T> sum = Sums<T>().two[0];
  if constexpr (sum_columns == SumColumns::kYes) {
    sum = {LoadOne(sums), LoadOne(sums + kLanes<T>)};
  }
  for (int r = 0; r < num_rows; ++r) {
    RowTwo<T, W, sum_columns>(rows[r].grad + at, rows[r].x + at,
                              rows[r].grad_x + at, rows[r].factors, w, sum);
  }
  if constexpr (sum_columns == SumColumns::kYes) {
    StoreTwo<Order::kNatural, Via::kCache, Nans::kAny>(
        Two<Wide<T>>{sum.a, sum.b}, sums);
  }
}

// The second pass over some rows: grad_x, and what the rows add to `sums`,
// which are whole vectors in the order that kOrderFor says.
template <class T, class W, SumColumns sum_columns>
HWY_NOINLINE void SecondPass(const RowPointers<T>* rows, int num_rows,
                             const W* weight, Wide<T>* sums,
                             std::int64_t size) {
  std::int64_t i = 0;
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    RowsTwo<T, W, sum_columns>(rows, num_rows, i, weight + i, sums + i);
  }
  if (i == size) return;
  const Tail<W> weight_tail(weight + i, size - i);
  for (int r = 0; r < num_rows; ++r) {
    Tail<T> grad_tail(rows[r].grad + i, size - i);
    Tail<T> x_tail(rows[r].x + i, size - i);
    const RowPointers<T> tail{grad_tail.data, x_tail.data, x_tail.data,
                              rows[r].factors};
    RowsTwo<T, W, sum_columns>(&tail, 1, 0, weight_tail.data, sums + i);
    x_tail.Store(rows[r].grad_x + i, size - i);
  }
}

// Walks the rows of all three tensors.
template <class T>
class RowWalk {
 public:
  RowWalk(const RmsNormBackwardArgs& args, std::int64_t row)
      : args_(args),
        grad_(args.grad_out.layout, row),
        x_(args.x.layout, row),
        // Not read without grad_x, but every walk needs a layout.
        grad_x_(
            args.grad_x.data == nullptr ? args.x.layout : args.grad_x.layout,
            row) {}

  RowPointers<T> Next() {
    RowPointers<T> row;
    row.grad = static_cast<const T*>(args_.grad_out.data) + grad_.offset();
    row.x = static_cast<const T*>(args_.x.data) + x_.offset();
    row.grad_x = args_.grad_x.data == nullptr
                     ? nullptr
                     : static_cast<T*>(args_.grad_x.data) + grad_x_.offset();
    grad_.Next();
    x_.Next();
    grad_x_.Next();
    return row;
  }

 private:
  const RmsNormBackwardArgs& args_;
  RowCursor grad_;
  RowCursor x_;
  RowCursor grad_x_;
};

// Rows that share the loads of the weight and the sums.
constexpr int kTogether = 4;

template <class T, class W, SumColumns sum_columns>
void DenseRows(const RmsNormBackwardArgs& args, std::int64_t begin,
               std::int64_t end, Wide<T>* sums) {
  const std::int64_t dim = args.x.layout.dim();
  const auto* weight = static_cast<const W*>(args.weight.data);
  RowWalk<T> walk(args, begin);
  RowPointers<T> rows[kTogether];
  int num_rows = 0;
  for (std::int64_t row = begin; row < end; row += num_rows) {
    num_rows = end - row < kTogether ? static_cast<int>(end - row) : kTogether;
    for (int r = 0; r < num_rows; ++r) {
      rows[r] = walk.Next();
      RowSums row_sums;
      for (std::int64_t i = 0; i < dim; i += kSumBlock) {
        AddBlock(rows[r].grad + i, rows[r].x + i, weight + i,
                 dim - i < kSumBlock ? dim - i : kSumBlock, row_sums);
      }
      rows[r].factors = RowFactors<T>(row_sums, dim, args.eps);
    }
    SecondPass<T, W, sum_columns>(rows, num_rows, weight, sums, dim);
  }
}

// Rows of any strides, and those whose grad_x is not wanted.
template <class T, class W, SumColumns sum_columns>
void StridedRows(const RmsNormBackwardArgs& args, std::int64_t begin,
                 std::int64_t end, Wide<T>* sums) {
  const std::int64_t dim = args.x.layout.dim();
  const bool has_grad_x = args.grad_x.data != nullptr;
  const auto* weights = static_cast<const W*>(args.weight.data);
  InColumns<T> grad(args.grad_out.layout.stride());
  InColumns<T> x(args.x.layout.stride());
  InColumns<W> weight(args.weight.stride);
  // Of stride 0 it is never asked for the row itself.
  OutColumns<T> grad_x(has_grad_x ? args.grad_x.layout.stride() : 0);
  RowWalk<T> walk(args, begin);
  for (std::int64_t row = begin; row < end; ++row) {
    const RowPointers<T> whole = walk.Next();
    RowSums row_sums;
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      AddBlock(grad.Read(whole.grad, i, size), x.Read(whole.x, i, size),
               weight.Read(weights, i, size), size, row_sums);
    }
    const RowFactors<T> factors(row_sums, dim, args.eps);
    for (std::int64_t i = 0; i < dim; i += kPiece) {
      const std::int64_t size = dim - i < kPiece ? dim - i : kPiece;
      const RowPointers<T> piece{grad.Read(whole.grad, i, size),
                                 x.Read(whole.x, i, size),
                                 grad_x.At(whole.grad_x, i), factors};
      SecondPass<T, W, sum_columns>(
          &piece, 1, weight.Read(weights, i, size),
          sum_columns == SumColumns::kYes ? sums + i : nullptr, size);
      if (has_grad_x) grad_x.Write(whole.grad_x, i, size);
    }
  }
}

static_assert(kPiece == kSumBlock && kPiece % 64 == 0,
              "a row's sums must not depend on its layout");

struct GroupRange {
  std::int64_t begin;
  std::int64_t end;

  template <class T, class W>
  void Run(const RmsNormBackwardArgs& args) const {
    if (args.grad_weight == nullptr) {
      Groups<T, W, SumColumns::kNo>(args);
    } else {
      Groups<T, W, SumColumns::kYes>(args);
    }
  }

  template <class T, class W, SumColumns sum_columns>
  void Groups(const RmsNormBackwardArgs& args) const {
    const bool dense = args.x.layout.stride() == 1 &&
                       args.grad_out.layout.stride() == 1 &&
                       args.weight.stride == 1 && args.grad_x.data != nullptr &&
                       args.grad_x.layout.stride() == 1;
    const std::int64_t rows = args.x.layout.rows();
    const std::int64_t group_rows = RowsOfGroup(rows);
    const std::int64_t columns = ScratchColumns(args.x.layout.dim());
    for (std::int64_t group = begin; group < end; ++group) {
      Wide<T>* sums = nullptr;
      if constexpr (sum_columns == SumColumns::kYes) {
        sums = static_cast<Wide<T>*>(args.scratch) + group * columns;
        for (std::int64_t i = 0; i < columns; ++i) sums[i] = 0;
      }
      const std::int64_t row_begin = group * group_rows;
      const std::int64_t row_end =
          rows - row_begin < group_rows ? rows : row_begin + group_rows;
      if (dense) {
        DenseRows<T, W, sum_columns>(args, row_begin, row_end, sums);
      } else {
        StridedRows<T, W, sum_columns>(args, row_begin, row_end, sums);
      }
    }
  }
};

// The sum over all groups of two vectors of columns.
HWY_INLINE Two<double> AddGroups(const double* sums, std::int64_t groups,
                                 std::int64_t columns) {
  Two<double> total = Sums<double>().two[0];
  for (std::int64_t group = 0; group < groups; ++group) {
    const Two<double> two = LoadTwo<Order::kNatural>(sums + group * columns);
    total.a = hn::Add(total.a, two.a);
    total.b = hn::Add(total.b, two.b);
  }
  return total;
}

HWY_INLINE hn::Vec<Tag<float>> AddGroupsOfOne(const float* sums,
                                              std::int64_t groups,
                                              std::int64_t columns) {
  const Tag<double> d;
  const Tag<float> df;
  auto low = hn::Zero(d);
  auto high = hn::Zero(d);
  for (std::int64_t group = 0; group < groups; ++group) {
    const auto one = LoadOne(sums + group * columns);
    low = hn::Add(low, hn::PromoteLowerTo(d, one));
    high = hn::Add(high, hn::PromoteUpperTo(d, one));
  }
  const hn::Rebind<float, Tag<double>> dh;
  return hn::Combine(df, hn::DemoteTo(dh, high), hn::DemoteTo(dh, low));
}

HWY_INLINE Two<float> AddGroups(const float* sums, std::int64_t groups,
                                std::int64_t columns) {
  return {AddGroupsOfOne(sums, groups, columns),
          AddGroupsOfOne(sums + kLanes<float>, groups, columns)};
}

struct ColumnRange {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t groups;

  template <class T, class W>
  void Run(const RmsNormBackwardArgs& args) const {
    const std::int64_t columns = ScratchColumns(args.x.layout.dim());
    const auto* sums = static_cast<const Wide<T>*>(args.scratch);
    auto* to = static_cast<W*>(args.grad_weight);
    // Sums are in the order of the rows' vectors, so whole ones are taken.
    for (std::int64_t i = begin / kTwo<T> * kTwo<T>; i < end; i += kTwo<T>) {
      const auto total = AddGroups(sums + i, groups, columns);
      Tail<W> values;
      StoreTwo<kOrderFor<T, W>, Via::kCache, Nans::kAny>(
          Two<W>{total.a, total.b}, values.data);
      const std::int64_t first = begin > i ? begin - i : 0;
      const std::int64_t last = end - i < kTwo<T> ? end - i : kTwo<T>;
      for (std::int64_t j = first; j < last; ++j) to[i + j] = values.data[j];
    }
  }
};

void RmsNormBackwardGroupRange(const RmsNormBackwardArgs& args,
                               std::int64_t group_begin,
                               std::int64_t group_end) {
  ByDTypes(args.dtype, args.weight.dtype, GroupRange{group_begin, group_end},
           args);
}

void RmsNormBackwardColumnRange(const RmsNormBackwardArgs& args,
                                std::int64_t col_begin, std::int64_t col_end,
                                std::int64_t groups) {
  ByDTypes(args.dtype, args.weight.dtype,
           ColumnRange{col_begin, col_end, groups}, args);
}

}  // namespace
}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "cc/ops/dispatch.h"

namespace servecore::ops {
namespace {

constexpr const char* kOp = "RmsNormBackward";

void Check(const RmsNormBackwardArgs& args) {
  CheckSameRows(kOp, "x", args.x.layout, "grad_out", args.grad_out.layout);
  if (args.grad_x.data != nullptr) {
    CheckSameRows(kOp, "x", args.x.layout, "grad_x", args.grad_x.layout);
  }
  CheckWeightDType(kOp, "weight", args.weight.dtype, args.dtype);
  const std::size_t bytes = RmsNormBackwardScratchBytes(args);
  if (args.grad_weight != nullptr && args.scratch == nullptr && bytes > 0) {
    throw std::invalid_argument(
        StrCat(kOp, ": grad_weight is given, scratch is null; give ", bytes,
               " bytes, as RmsNormBackwardScratchBytes says"));
  }
}

}  // namespace

std::int64_t RmsNormBackwardGroups(const RmsNormBackwardArgs& args) {
  const std::int64_t rows = args.x.layout.rows();
  const std::int64_t group_rows = RowsOfGroup(rows);
  return rows / group_rows + (rows % group_rows == 0 ? 0 : 1);
}

std::size_t RmsNormBackwardScratchBytes(const RmsNormBackwardArgs& args) {
  if (args.grad_weight == nullptr) return 0;
  return static_cast<std::size_t>(RmsNormBackwardGroups(args)) *
         static_cast<std::size_t>(ScratchColumns(args.x.layout.dim())) *
         (args.dtype == DType::kFloat64 ? sizeof(double) : sizeof(float));
}

void RmsNormBackward(const RmsNormBackwardArgs& args, std::int64_t group_begin,
                     std::int64_t group_end) {
  Check(args);
  CheckRange(kOp, "groups", group_begin, group_end,
             RmsNormBackwardGroups(args));
  if (args.x.layout.dim() == 0 || group_begin == group_end) return;
  if (args.grad_x.data == nullptr && args.grad_weight == nullptr) return;
  SERVECORE_DISPATCH(RmsNormBackwardGroupRange)(args, group_begin, group_end);
}

void RmsNormBackwardWeight(const RmsNormBackwardArgs& args,
                           std::int64_t col_begin, std::int64_t col_end) {
  Check(args);
  CheckRange(kOp, "columns", col_begin, col_end, args.x.layout.dim());
  if (args.grad_weight == nullptr || col_begin == col_end) return;
  SERVECORE_DISPATCH(RmsNormBackwardColumnRange)
  (args, col_begin, col_end, RmsNormBackwardGroups(args));
}

}  // namespace servecore::ops

#endif  // HWY_ONCE
