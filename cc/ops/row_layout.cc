// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/row_layout.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace servecore::ops {

RowLayout::RowLayout(std::span<const std::int64_t> sizes,
                     std::span<const std::int64_t> strides) {
  if (sizes.size() != strides.size()) {
    throw std::invalid_argument(
        "RowLayout: " + std::to_string(sizes.size()) + " sizes, but " +
        std::to_string(strides.size()) + " strides; give one stride per size");
  }
  if (sizes.empty() || sizes.size() > kMaxRank) {
    throw std::invalid_argument(
        "RowLayout: rank " + std::to_string(sizes.size()) +
        "; allowed are 1 to " + std::to_string(kMaxRank) + " dimensions");
  }
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      throw std::invalid_argument("RowLayout: size " + std::to_string(size) +
                                  "; sizes must not be negative");
    }
  }
  const std::size_t leading = sizes.size() - 1;
  dim_ = sizes[leading];
  stride_ = strides[leading];
  for (std::size_t i = 0; i < leading; ++i) {
    rows_ *= sizes[i];
    if (sizes[i] == 1) continue;
    if (rank_ > 0 && strides_[rank_ - 1] == sizes[i] * strides[i]) {
      sizes_[rank_ - 1] *= sizes[i];
      strides_[rank_ - 1] = strides[i];
    } else {
      sizes_[rank_] = sizes[i];
      strides_[rank_] = strides[i];
      ++rank_;
    }
  }
}

// index_ is filled for the leading dimensions in use only: clearing all of it
// would cost more than normalising a short row.
RowCursor::RowCursor(const RowLayout& layout, std::int64_t row)
    : sizes_(layout.leading_sizes()), strides_(layout.leading_strides()) {
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    // A tensor without rows has a size of 0 somewhere and only row 0 to start
    // from, whose offset nobody reads.
    if (sizes_[i] == 0) {
      index_[i] = 0;
      continue;
    }
    index_[i] = row % sizes_[i];
    row /= sizes_[i];
    offset_ += index_[i] * strides_[i];
  }
}

void RowCursor::Next() {
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    offset_ += strides_[i];
    if (++index_[i] < sizes_[i]) return;
    offset_ -= index_[i] * strides_[i];
    index_[i] = 0;
  }
}

}  // namespace servecore::ops
