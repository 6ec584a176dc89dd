// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_TESTS_CC_STRIDED_TENSOR_H_
#define SERVECORE_TESTS_CC_STRIDED_TENSOR_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"
#include "cc/ops/row_layout.h"

namespace servecore::ops {

using Ints = std::vector<std::int64_t>;

inline constexpr std::array kDTypes = {DType::kFloat32, DType::kBFloat16,
                                       DType::kFloat16, DType::kFloat64};

// The pairs of dtypes of rows and weight that kernels take.
inline constexpr std::array<std::pair<DType, DType>, 6> kDTypePairs = {{
    {DType::kFloat32, DType::kFloat32},
    {DType::kBFloat16, DType::kBFloat16},
    {DType::kBFloat16, DType::kFloat32},
    {DType::kFloat16, DType::kFloat16},
    {DType::kFloat16, DType::kFloat32},
    {DType::kFloat64, DType::kFloat64},
}};

// Bits of a significand, the leading one included.
inline int Precision(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 24;
    case DType::kBFloat16:
      return 8;
    case DType::kFloat16:
      return 11;
    case DType::kFloat64:
      break;
  }
  return 53;
}

// The distance of neighbours around `value`.
inline double Ulp(DType dtype, double value) {
  int least = -126;
  if (dtype == DType::kFloat16) least = -14;
  if (dtype == DType::kFloat64) least = -1022;
  const int exponent =
      value == 0.0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(1.0, exponent - Precision(dtype) + 1);
}

// `value` rounded once, to nearest and ties to even: what a kernel should give.
// Written with arithmetic, so that it shares nothing with what it judges.
inline double RoundedTo(DType dtype, double value) {
  if (dtype == DType::kFloat64 || !std::isfinite(value)) return value;
  const double ulp = Ulp(dtype, value);
  const double rounded = std::nearbyint(value / ulp) * ulp;
  const double limit = std::ldexp(1.0, dtype == DType::kFloat16 ? 16 : 128);
  return std::abs(rounded) >= limit ? std::copysign(HUGE_VAL, value) : rounded;
}

// A tensor of any strides in memory of its own, with elements around it that
// nobody may write.
class StridedTensor {
 public:
  // `base`: the offset of its first element, so that strides may be negative.
  StridedTensor(DType dtype, Ints sizes, Ints strides, std::int64_t base = 0)
      : dtype_(dtype),
        sizes_(std::move(sizes)),
        strides_(std::move(strides)),
        base_(base + kGuard) {
    std::int64_t end = base_;
    for (std::int64_t i = 0; i < numel(); ++i) end = std::max(end, Offset(i));
    memory_.resize(static_cast<std::size_t>(end + 1 + kGuard) * SizeOf(dtype));
  }

  // Contiguous, `misalignment` elements behind an aligned address.
  static StridedTensor Contiguous(DType dtype, Ints sizes,
                                  std::int64_t misalignment = 0) {
    Ints strides(sizes.size(), 1);
    for (std::size_t i = sizes.size() - 1; i-- > 0;) {
      strides[i] = strides[i + 1] * sizes[i + 1];
    }
    return {dtype, std::move(sizes), std::move(strides), misalignment};
  }

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Ints& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t dim() const { return sizes_.back(); }
  [[nodiscard]] RowLayout layout() const { return {sizes_, strides_}; }
  [[nodiscard]] const std::vector<std::byte>& memory() const { return memory_; }

  [[nodiscard]] std::int64_t numel() const {
    return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{1},
                           std::multiplies<>());
  }

  [[nodiscard]] void* data() { return Address(base_); }
  [[nodiscard]] ConstRows const_rows() { return {data(), layout()}; }
  [[nodiscard]] Rows rows() { return {data(), layout()}; }
  [[nodiscard]] ColumnWeights weights() {
    return {data(), dtype_, strides_.back()};
  }

  // The element of index `flat` in row-major order.
  [[nodiscard]] double At(std::int64_t flat) const {
    const std::byte* from =
        memory_.data() +
        static_cast<std::size_t>(Offset(flat)) * SizeOf(dtype_);
    switch (dtype_) {
      case DType::kFloat32:
        return Read<float>(from);
      case DType::kBFloat16:
        return ToFloat(Read<BFloat16>(from));
      case DType::kFloat16:
        return ToFloat(Read<Float16>(from));
      case DType::kFloat64:
        break;
    }
    return Read<double>(from);
  }

  void Set(std::int64_t flat, double value) {
    void* to = Address(Offset(flat));
    const auto narrow = static_cast<float>(value);
    switch (dtype_) {
      case DType::kFloat32:
        Write(to, narrow);
        break;
      case DType::kBFloat16:
        Write(to, ToBFloat16(narrow));
        break;
      case DType::kFloat16:
        Write(to, ToFloat16(narrow));
        break;
      case DType::kFloat64:
        Write(to, value);
        break;
    }
  }

  // Fills all memory, the elements and what lies between them, with noise: what
  // is not read must not matter, and what is not written must stay.
  StridedTensor& Randomise(std::mt19937& generator) {
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < memory_.size(); i += 2) {
      const auto bits = static_cast<std::uint16_t>(generator());
      std::memcpy(&memory_[i], &bits, 2);
    }
    for (std::int64_t i = 0; i < numel(); ++i) Set(i, normal(generator));
    return *this;
  }

  // The elements' bytes in row-major order.
  [[nodiscard]] std::vector<std::byte> Bytes() const {
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < numel(); ++i) {
      const auto offset = Offset(i) * static_cast<std::int64_t>(SizeOf(dtype_));
      bytes.insert(
          bytes.end(), memory_.begin() + offset,
          memory_.begin() + offset + static_cast<std::int64_t>(SizeOf(dtype_)));
    }
    return bytes;
  }

  // That memory outside the elements is what it was in `before`.
  void ExpectOthersUntouched(const StridedTensor& before) const {
    std::vector<std::byte> restored = memory_;
    for (std::int64_t i = 0; i < numel(); ++i) {
      const auto offset = static_cast<std::size_t>(Offset(i)) * SizeOf(dtype_);
      std::memcpy(&restored[offset], &before.memory_[offset], SizeOf(dtype_));
    }
    EXPECT_TRUE(restored == before.memory_)
        << "memory between or around the elements was written";
  }

 private:
  static constexpr std::int64_t kGuard = 64;

  template <class T>
  static T Read(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  template <class T>
  static void Write(void* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }

  void* Address(std::int64_t offset) {
    return memory_.data() + static_cast<std::size_t>(offset) * SizeOf(dtype_);
  }

  // Without RowLayout's help.
  [[nodiscard]] std::int64_t Offset(std::int64_t flat) const {
    std::int64_t offset = base_;
    for (std::size_t i = sizes_.size(); i-- > 0;) {
      offset += flat % sizes_[i] * strides_[i];
      flat /= sizes_[i];
    }
    return offset;
  }

  DType dtype_;
  Ints sizes_;
  Ints strides_;
  std::int64_t base_;
  std::vector<std::byte> memory_;
};

// That `value` is what arithmetic with a relative error of `tolerance` makes of
// `exact`, rounded to the dtype once. `scale`: where terms cancel, the size of
// the larger one; otherwise `exact`.
inline ::testing::AssertionResult Near(DType dtype, double value, double exact,
                                       double tolerance, double scale) {
  const double allowed = Ulp(dtype, exact) / 2 + tolerance * std::abs(scale);
  if (std::abs(value - exact) <= allowed) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << NameOf(dtype) << " " << value << ", exactly " << exact
         << "; allowed to differ by " << allowed;
}

// One element per column, `stride` apart.
inline StridedTensor Weight(DType dtype, std::int64_t dim,
                            std::int64_t stride) {
  return {dtype, {dim}, {stride}, stride < 0 ? -stride * (dim - 1) : 1};
}

// The message of the std::invalid_argument that `call` throws.
template <class Call>
std::string MessageOf(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

// How two tensors of one shape lie.
struct Layouts {
  const char* name;
  Ints sizes;
  Ints x_strides;
  std::int64_t x_base;
  Ints out_strides;
  std::int64_t out_base;
  std::int64_t weight_stride;
};

// Rows of odd lengths and of whole vectors, misaligned, padded, transposed,
// reversed, expanded, with columns apart; `weight_stride` for a tensor of one
// element per column.
inline std::vector<Layouts> AllLayouts() {
  std::vector<Layouts> all;
  for (const std::int64_t dim : {1, 2, 7, 31, 32, 33, 64, 100, 127, 130, 256,
                                 2047, 2048, 2049, 4096, 5003}) {
    const std::int64_t odd = dim % 5;
    all.push_back(
        {"contiguous", {3, dim}, {dim, 1}, odd, {dim, 1}, dim % 3, 1});
  }
  all.push_back({"one dimension", {100}, {1}, 0, {1}, 1, 1});
  all.push_back({"four dimensions",
                 {2, 1, 3, 40},
                 {120, 7, 40, 1},
                 0,
                 {120, 7, 40, 1},
                 0,
                 1});
  all.push_back(
      {"transposed in", {3, 4, 40}, {40, 120, 1}, 0, {160, 40, 1}, 0, 1});
  all.push_back(
      {"transposed out", {3, 4, 40}, {160, 40, 1}, 0, {40, 120, 1}, 0, 1});
  all.push_back({"columns apart in", {3, 37}, {200, 5}, 0, {37, 1}, 0, 1});
  all.push_back({"columns apart out", {3, 37}, {37, 1}, 0, {1, 3}, 0, 1});
  all.push_back({"long columns apart", {2, 5003}, {1, 2}, 0, {1, 2}, 0, 2});
  all.push_back({"padded rows", {4, 33}, {50, 1}, 3, {35, 1}, 1, 1});
  all.push_back({"expanded", {4, 33}, {0, 1}, 0, {33, 1}, 0, 1});
  all.push_back({"one value a row", {4, 33}, {1, 0}, 0, {33, 1}, 0, 1});
  all.push_back({"reversed", {4, 33}, {-33, -1}, 131, {-33, 1}, 99, -1});
  all.push_back({"strided weight", {2, 33}, {33, 1}, 0, {33, 1}, 0, 3});
  all.push_back({"one weight", {2, 33}, {33, 1}, 0, {33, 1}, 0, 0});
  return all;
}

}  // namespace servecore::ops

#endif  // SERVECORE_TESTS_CC_STRIDED_TENSOR_H_
