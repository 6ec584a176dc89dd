// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// RmsNorm beside memcpy of the same tensor, on one thread.
//
// The limit is memory: out cannot be had without reading x once and writing out
// once, which is what memcpy does. In cache the limit is instructions: of
// bfloat16, 32 elements take a load, 4 operations and 2 of them again for the
// sum, then 2 loads, 16 operations and a store; a core of this machine does two
// of 512 bits a cycle.
//
// How far we are, one thread of a shared AVX-512 core with BF16, time over
// memcpy's, bfloat16 and float32: 32x4096 (L2) 3.2 and 1.8, 15.4 and 20.0 us;
// 2048x4096 (DRAM) 1.2 and 1.0, 1.0 and 2.3 ms. One row of 4096 takes 0.46 and
// 0.55 us, its two layouts included. In L2, x and out of float32 fill all of
// it. Prefetching the next row, sharing loads of weight between 2 or 4 rows,
// and sums by dot products of bfloat16 were measured and gave nothing.
//
//   bazelw run //cc/ops:rmsnorm_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>

#include "cc/ops/benchmark_tensors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/rmsnorm.h"

namespace servecore::ops {
namespace {

template <class T>
void BM_RmsNorm(benchmark::State& state) {
  const Tensor<T> x(state.range(0), state.range(1));
  const Tensor<T> weight(1, state.range(1));
  const Tensor<T> out(state.range(0), state.range(1));
  for (auto _ : state) {
    RmsNorm({.dtype = kDType<T>,
             .x = x.const_rows(),
             .weight = weight.weights(),
             .out = out.rows(),
             .eps = 1e-6});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(x.bytes()));
}

BENCHMARK(BM_RmsNorm<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_RmsNorm<float>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<float>)->Apply(Shapes);
BENCHMARK(BM_RmsNorm<Float16>)->Apply(Shapes);
BENCHMARK(BM_RmsNorm<double>)->Apply(Shapes);

}  // namespace
}  // namespace servecore::ops
