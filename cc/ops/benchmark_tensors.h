// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_BENCHMARK_TENSORS_H_
#define SERVECORE_CC_OPS_BENCHMARK_TENSORS_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cc/base/aligned.h"
#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"
#include "cc/ops/row_layout.h"

namespace servecore::ops {

template <class T>
inline constexpr DType kDType = DType::kFloat32;
template <>
inline constexpr DType kDType<double> = DType::kFloat64;
template <>
inline constexpr DType kDType<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDType<Float16> = DType::kFloat16;

// A contiguous tensor of halves.
template <class T>
class Tensor {
 public:
  Tensor(std::int64_t rows, std::int64_t dim)
      : sizes_{rows, dim}, memory_(MakeAligned(bytes())) {
    std::fill_n(data(), rows * dim, Half());
  }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(sizes_[0] * sizes_[1]) * sizeof(T);
  }
  [[nodiscard]] RowLayout layout() const {
    const std::array<std::int64_t, 2> strides{sizes_[1], 1};
    return {sizes_, strides};
  }
  [[nodiscard]] Rows rows() const { return {data(), layout()}; }
  [[nodiscard]] ConstRows const_rows() const { return {data(), layout()}; }
  [[nodiscard]] ColumnWeights weights() const { return {data(), kDType<T>}; }

 private:
  static T Half() {
    if constexpr (kDType<T> == DType::kBFloat16) {
      return ToBFloat16(0.5F);
    } else if constexpr (kDType<T> == DType::kFloat16) {
      return ToFloat16(0.5F);
    } else {
      return T{0.5};
    }
  }

  std::array<std::int64_t, 2> sizes_;
  AlignedMemory memory_;
};

// memcpy of a tensor: the bytes of an op with one input and one output.
template <class T>
void BM_Memcpy(benchmark::State& state) {
  const Tensor<T> x(state.range(0), state.range(1));
  const Tensor<T> out(state.range(0), state.range(1));
  for (auto _ : state) {
    std::memcpy(out.data(), x.data(), x.bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(x.bytes()));
}

// One row, an L2-size tensor and a DRAM-size one.
inline void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "dim"});
  benchmark->Args({1, 4096})->Args({32, 4096})->Args({2048, 4096});
}

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_BENCHMARK_TENSORS_H_
