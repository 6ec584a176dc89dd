// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/overlap.h"

#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

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
struct Extent {
  std::uintptr_t begin = 0;           // of the lowest element
  std::vector<Dimension> dimensions;  // of more than one place; widest first
  std::int64_t item = 0;              // bytes of an element

  // Bytes from the first to the end of the last, without the outermost
  // `num_outer` dimensions.
  std::uintptr_t SizeWithout(std::size_t num_outer) const {
    std::int64_t size = item;
    for (std::size_t i = num_outer; i < dimensions.size(); ++i) {
      size += (dimensions[i].size - 1) * dimensions[i].stride;
    }
    return static_cast<std::uintptr_t>(size);
  }
};

Extent ExtentOf(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  Extent extent;
  extent.item = static_cast<std::int64_t>(tensor.element_size());
  extent.dimensions.reserve(sizes.size());
  std::int64_t below = 0;  // bytes before the first element; strides may fall
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    const std::int64_t stride = strides[i] * extent.item;
    if (stride < 0) below += (sizes[i] - 1) * -stride;
    extent.dimensions.push_back({.size = sizes[i], .stride = std::abs(stride)});
  }
  std::ranges::sort(extent.dimensions, std::greater<>(), &Dimension::stride);
  extent.begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) -
                 static_cast<std::uintptr_t>(below);
  return extent;
}

// Whether no two elements share memory, as far as nesting shows: what lies
// inside each dimension fits between two places of it.
bool IsNested(const Extent& extent) {
  for (std::size_t i = 0; i < extent.dimensions.size(); ++i) {
    if (static_cast<std::uintptr_t>(extent.dimensions[i].stride) <
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
  const Extent& low = a.begin <= b.begin ? a : b;
  const Extent& high = a.begin <= b.begin ? b : a;
  const std::uintptr_t shift = high.begin - low.begin;
  for (std::size_t i = 0;; ++i) {
    if (low.SizeWithout(i) <= shift) return true;
    if (i >= a.dimensions.size() || i >= b.dimensions.size() ||
        a.dimensions[i] != b.dimensions[i]) {
      return false;
    }
    const std::uintptr_t both =
        std::max(low.SizeWithout(i + 1), shift + high.SizeWithout(i + 1));
    if (both > static_cast<std::uintptr_t>(a.dimensions[i].stride)) {
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

void CheckWritable(const char* op, const Argument& written) {
  if (written.tensor.numel() == 0) return;
  if (IsNested(ExtentOf(written.tensor))) return;
  Fail(op, ": ", written.name, " has shape ", ShapeName(written.tensor),
       " and strides ", StridesName(written.tensor),
       ", so several of its elements may share memory; what is written must "
       "have memory of its own for each element, use .clone() or "
       ".contiguous()");
}

void CheckApart(const char* op, const Argument& written,
                std::initializer_list<Argument> others) {
  if (written.tensor.numel() == 0) return;
  const Extent extent = ExtentOf(written.tensor);
  for (const Argument& other : others) {
    if (other.tensor.numel() == 0) continue;
    if (AreApart(extent, ExtentOf(other.tensor))) continue;
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
