// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// FusedAddRmsNorm beside memcpy of one of its tensors, on one thread.
//
// The limit is memory: x and residual are each read and written once, twice
// what memcpy moves.
//
//   bazelw run //cc/ops:fused_add_rmsnorm_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>

#include "cc/ops/benchmark_tensors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/fused_add_rmsnorm.h"

namespace servecore::ops {
namespace {

template <class T>
void BM_FusedAddRmsNorm(benchmark::State& state) {
  const Tensor<T> x(state.range(0), state.range(1));
  const Tensor<T> residual(state.range(0), state.range(1));
  const Tensor<T> weight(1, state.range(1));
  for (auto _ : state) {
    FusedAddRmsNorm({.dtype = kDType<T>,
                     .x = x.rows(),
                     .residual = residual.rows(),
                     .weight = weight.weights(),
                     .eps = 1e-6});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(x.bytes()));
}

BENCHMARK(BM_FusedAddRmsNorm<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_FusedAddRmsNorm<float>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<float>)->Apply(Shapes);

}  // namespace
}  // namespace servecore::ops
