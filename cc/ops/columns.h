// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Rows whose elements do not lie side by side, in pieces that do. Compiled once
// for each target: see hwy/foreach_target.h.

#if defined(SERVECORE_CC_OPS_COLUMNS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SERVECORE_CC_OPS_COLUMNS_H_
#undef SERVECORE_CC_OPS_COLUMNS_H_
#else
#define SERVECORE_CC_OPS_COLUMNS_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {

// Columns in a piece.
inline constexpr std::int64_t kPiece = 2048;

// A row to read. A row of stride 1 is read where it lies.
template <class T>
class InColumns {
 public:
  explicit InColumns(std::int64_t stride) : stride_(stride) {}

  // `size` elements from `begin` on of the row at `row`, at most kPiece; valid
  // until the next call.
  const T* Read(const T* row, std::int64_t begin, std::int64_t size) {
    if (stride_ == 1) return row + begin;
    for (std::int64_t i = 0; i < size; ++i) {
      piece_[i] = row[(begin + i) * stride_];
    }
    return piece_;
  }

 private:
  std::int64_t stride_;
  T piece_[kPiece];
};

// A row to write.
template <class T>
class OutColumns {
 public:
  explicit OutColumns(std::int64_t stride) : stride_(stride) {}

  // Where to write the columns from `begin` on, at most kPiece of them.
  T* At(T* row, std::int64_t begin) {
    return stride_ == 1 ? row + begin : piece_;
  }

  // Takes what was written there.
  void Write(T* row, std::int64_t begin, std::int64_t size) const {
    if (stride_ == 1) return;
    for (std::int64_t i = 0; i < size; ++i) {
      row[(begin + i) * stride_] = piece_[i];
    }
  }

 private:
  std::int64_t stride_;
  T piece_[kPiece];
};

}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SERVECORE_CC_OPS_COLUMNS_H_
