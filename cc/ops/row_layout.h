// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_ROW_LAYOUT_H_
#define SERVECORE_CC_OPS_ROW_LAYOUT_H_

#include <array>
#include <cstdint>
#include <span>

namespace servecore::ops {

// Where the rows of a strided tensor lie in memory. A row is the last
// dimension; the leading dimensions, in row-major order, number the rows.
//
// Kernels take one layout per operand, so that an input and an output may lie
// differently and neither has to be copied first. Leading dimensions of size 1
// are dropped and neighbours that form one arithmetic progression are merged,
// so a contiguous tensor of any rank ends up with at most one leading
// dimension, and finding the next row is one addition.
//
// Units: all sizes, strides and offsets are in elements, and 64 bits wide.
// Strides may be zero or negative.
//
// Ownership: a value; it holds no pointer to data or to the arrays it was made
// from.
// Thread safety: immutable after construction.
class RowLayout {
 public:
  // The rank of the largest tensor torch can make.
  static constexpr std::size_t kMaxRank = 64;

  // `sizes` and `strides` describe the whole tensor, rows included. Takes
  // O(rank). Throws std::invalid_argument when they differ in length, are
  // empty, are longer than kMaxRank, or when a size is negative.
  RowLayout(std::span<const std::int64_t> sizes,
            std::span<const std::int64_t> strides);

  // Number of rows: the product of the leading sizes, 1 when there are none.
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  // Elements in a row.
  [[nodiscard]] std::int64_t dim() const { return dim_; }
  // Distance between neighbours in a row.
  [[nodiscard]] std::int64_t stride() const { return stride_; }

  // The leading dimensions that are left after merging, outermost first.
  [[nodiscard]] std::span<const std::int64_t> leading_sizes() const {
    return {sizes_.data(), rank_};
  }
  [[nodiscard]] std::span<const std::int64_t> leading_strides() const {
    return {strides_.data(), rank_};
  }

 private:
  std::int64_t rows_ = 1;
  std::int64_t dim_ = 0;
  std::int64_t stride_ = 1;
  std::size_t rank_ = 0;
  // Filled for the dimensions in use only: clearing all of it would cost more
  // than normalising a short row.
  std::array<std::int64_t, kMaxRank> sizes_;
  std::array<std::int64_t, kMaxRank> strides_;
};

// Walks the rows of a layout in order, giving the offset of each row's first
// element. Starting costs one division per leading dimension, every further
// row an addition.
//
// Lifetime: must not outlive the layout it was made from.
// Thread safety: one cursor per thread.
class RowCursor {
 public:
  // Starts at `row`, which must lie in [0, layout.rows()].
  RowCursor(const RowLayout& layout, std::int64_t row);

  // Offset of the current row's first element.
  [[nodiscard]] std::int64_t offset() const { return offset_; }

  // Moves to the next row. After the last row the offset is that of row 0.
  void Next();

 private:
  std::span<const std::int64_t> sizes_;
  std::span<const std::int64_t> strides_;
  std::int64_t offset_ = 0;
  std::array<std::int64_t, RowLayout::kMaxRank> index_;
};

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_ROW_LAYOUT_H_
