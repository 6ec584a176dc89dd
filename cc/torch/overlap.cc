// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/overlap.h"

#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include "cc/ops/row_layout.h"
#include "cc/torch/checks.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

struct Dimension {
  std::int64_t size;
  std::int64_t stride;  // bytes, not negative

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

// The bytes that a tensor with elements lies on.
class Extent {
 public:
  explicit Extent(const Tensor& tensor);

  std::uintptr_t begin() const { return begin_; }

  // Those of more than one place, widest first.
  std::span<const Dimension> dimensions() const {
    return std::span(dimensions_).first(rank_);
  }

  // Bytes from the first to the end of the last, without the outermost
  // `num_outer` dimensions.
  std::uintptr_t SizeWithout(std::size_t num_outer) const {
    std::int64_t size = item_;
    for (const Dimension& dimension : dimensions().subspan(num_outer)) {
      size += (dimension.size - 1) * dimension.stride;
    }
    return static_cast<std::uintptr_t>(size);
  }

 private:
  std::uintptr_t begin_;  // of the lowest element
  std::int64_t item_;     // bytes of an element
  std::size_t rank_ = 0;
  // Filled for `rank_` of them: a call has several of these, and clearing or
  // allocating each would take longer than looking at it.
  std::array<Dimension, ops::RowLayout::kMaxRank> dimensions_;
};

Extent::Extent(const Tensor& tensor)
    : begin_(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr())),
      item_(static_cast<std::int64_t>(tensor.element_size())) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  // torch makes no tensor of more.
  for (std::size_t i = 0; i < std::min(sizes.size(), dimensions_.size()); ++i) {
    if (sizes[i] == 1) continue;
    const std::int64_t stride = strides[i] * item_;
    // Strides may fall.
    if (stride < 0) {
      begin_ -= static_cast<std::uintptr_t>((sizes[i] - 1) * -stride);
    }
    dimensions_[rank_] = {.size = sizes[i], .stride = std::abs(stride)};
    ++rank_;
  }
  std::ranges::sort(std::span(dimensions_).first(rank_), std::greater<>(),
                    &Dimension::stride);
}

// Whether no two elements share memory, as far as nesting shows: what lies
// inside each dimension fits between two places of it.
bool IsNested(const Extent& extent) {
  const std::span<const Dimension> dimensions = extent.dimensions();
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (static_cast<std::uintptr_t>(dimensions[i].stride) <
        extent.SizeWithout(i + 1)) {
      return false;
    }
  }
  return true;
}

// Whether two extents share no byte, as far as nesting shows. Parts of one
// tensor have their outer dimensions in common, and lie apart within each place
// of these.
bool AreApart(const Extent& a, const Extent& b) {
  const Extent& low = a.begin() <= b.begin() ? a : b;
  const Extent& high = a.begin() <= b.begin() ? b : a;
  const std::uintptr_t shift = high.begin() - low.begin();
  const std::span<const Dimension> dimensions = a.dimensions();
  for (std::size_t i = 0;; ++i) {
    if (low.SizeWithout(i) <= shift) return true;
    if (i >= dimensions.size() || i >= b.dimensions().size() ||
        dimensions[i] != b.dimensions()[i]) {
      return false;
    }
    const std::uintptr_t both =
        std::max(low.SizeWithout(i + 1), shift + high.SizeWithout(i + 1));
    if (both > static_cast<std::uintptr_t>(dimensions[i].stride)) {
      return false;
    }
  }
}

std::string StridesName(const Tensor& tensor) {
  std::string name = "(";
  for (const std::int64_t stride : tensor.strides()) {
    if (name.size() > 1) name += ", ";
    name += std::to_string(stride);
  }
  return name + ")";
}

}  // namespace

void CheckWritable(const char* op, const Argument& written,
                   std::initializer_list<Argument> others) {
  if (written.tensor.numel() == 0) return;
  const Extent extent(written.tensor);
  if (!IsNested(extent)) {
    Fail(op, ": ", written.name, " has shape ", ShapeName(written.tensor),
         " and strides ", StridesName(written.tensor),
         ", so several of its elements may share memory; what is written must "
         "have memory of its own for each element, use .clone() or "
         ".contiguous()");
  }
  for (const Argument& other : others) {
    if (other.tensor.numel() == 0) continue;
    if (AreApart(extent, Extent(other.tensor))) continue;
    Fail(op, ": ", written.name, ", which is written, shares memory with ",
         other.name, "; they must lie apart, .clone() one of them");
  }
}

bool IsSame(const Tensor& a, const Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() &&
         std::ranges::equal(a.sizes(), b.sizes()) &&
         std::ranges::equal(a.strides(), b.strides());
}

}  // namespace servecore::torch_ops
