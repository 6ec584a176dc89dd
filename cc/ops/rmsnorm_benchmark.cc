// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// RmsNorm beside memcpy of the same tensor, on one thread.
//
// The limit is memory: out cannot be had without reading x once and writing out
// once, which is what memcpy does. In DRAM memcpy's streaming stores also spare
// the read of out that ordinary stores cost, a third of the traffic. In cache
// the limit is instructions, and baseline x86-64 has vectors of 4 floats where
// memcpy has the machine's widest.
//
// How far we are, one thread of a shared AVX-512 core, time over memcpy's:
// 1x4096 (L1) 5.0, 0.8 us; 32x4096 (L2) 2.3, 24 us; 2048x4096 (DRAM) 1.6, 5 ms.
//
//   bazelw run //cc/ops:rmsnorm_benchmark

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/ops/rmsnorm.h"
#include "cc/ops/row_layout.h"

namespace {

using servecore::ops::RmsNorm;
using servecore::ops::RmsNormArgs;
using servecore::ops::RowLayout;

struct Tensors {
  explicit Tensors(const benchmark::State& state)
      : sizes{state.range(0), state.range(1)},
        x(static_cast<std::size_t>(sizes[0] * sizes[1]), 0.5F),
        weight(static_cast<std::size_t>(sizes[1]), 1.0F),
        out(x.size()) {}

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(x.size() * sizeof(float));
  }

  std::array<std::int64_t, 2> sizes;
  std::vector<float> x;
  std::vector<float> weight;
  std::vector<float> out;
};

void BM_RmsNorm(benchmark::State& state) {
  Tensors tensors(state);
  const std::array<std::int64_t, 2> strides{tensors.sizes[1], 1};
  const RowLayout layout(tensors.sizes, strides);
  const RmsNormArgs args{
      .x = tensors.x.data(),
      .x_layout = layout,
      .weight = tensors.weight.data(),
      .weight_stride = 1,
      .out = tensors.out.data(),
      .out_layout = layout,
      .eps = 1e-6,
  };
  for (auto _ : state) {
    RmsNorm(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * tensors.bytes());
}

void BM_Memcpy(benchmark::State& state) {
  Tensors tensors(state);
  for (auto _ : state) {
    std::memcpy(tensors.out.data(), tensors.x.data(),
                static_cast<std::size_t>(tensors.bytes()));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * tensors.bytes());
}

// One row, an L2-size tensor and a DRAM-size one.
void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "dim"});
  benchmark->Args({1, 4096})->Args({32, 4096})->Args({2048, 4096});
}

BENCHMARK(BM_RmsNorm)->Apply(Shapes);
BENCHMARK(BM_Memcpy)->Apply(Shapes);

}  // namespace
