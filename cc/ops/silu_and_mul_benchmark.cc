// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// SiluAndMul beside memcpy of its output, on one thread. Rows of the output are
// `dim` long, those of the input twice as long.
//
// The limit is memory in DRAM, one and a half times what memcpy moves, and in
// cache the exponential and the division: an element of float32 takes about 30
// operations.
//
//   bazelw run //cc/ops:silu_and_mul_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>

#include "cc/ops/benchmark_tensors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/silu_and_mul.h"

namespace servecore::ops {
namespace {

template <class T>
void BM_SiluAndMul(benchmark::State& state) {
  const Tensor<T> x(state.range(0), 2 * state.range(1));
  const Tensor<T> out(state.range(0), state.range(1));
  for (auto _ : state) {
    SiluAndMul({.dtype = kDType<T>, .x = x.const_rows(), .out = out.rows()});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(out.bytes()));
}

BENCHMARK(BM_SiluAndMul<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_SiluAndMul<float>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<float>)->Apply(Shapes);

}  // namespace
}  // namespace servecore::ops
