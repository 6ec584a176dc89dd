// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// RotaryEmbedding of 32 heads of 128 elements a token, no k, beside memcpy of
// the same bytes, on one thread.
//
// The limit is memory: q is read and written, which is what memcpy moves. In
// place there is no line to read for a store, so DRAM-size tensors may be
// faster than memcpy.
//
//   bazelw run //cc/ops:rotary_embedding_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "cc/ops/benchmark_tensors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/rotary_embedding.h"

namespace servecore::ops {
namespace {

constexpr std::int64_t kHeadDim = 128;

template <class T, bool neox>
void BM_RotaryEmbedding(benchmark::State& state) {
  const std::int64_t tokens = state.range(0);
  const std::int64_t heads = state.range(1) / kHeadDim;
  const Tensor<T> q(tokens * heads, kHeadDim);
  const Tensor<T> cache(tokens, kHeadDim);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  const RotaryEmbeddingArgs args{.dtype = kDType<T>,
                                 .q = {q.rows(), heads},
                                 .k = {{nullptr, q.layout()}, heads},
                                 .positions = positions.data(),
                                 .num_tokens = tokens,
                                 .cache = cache.const_rows(),
                                 .cache_dtype = kDType<T>,
                                 .neox = neox};
  for (auto _ : state) {
    RotaryEmbedding(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(q.bytes()));
}

BENCHMARK(BM_RotaryEmbedding<BFloat16, true>)->Apply(Shapes);
BENCHMARK(BM_RotaryEmbedding<BFloat16, false>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_RotaryEmbedding<float, true>)->Apply(Shapes);
BENCHMARK(BM_RotaryEmbedding<float, false>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<float>)->Apply(Shapes);

}  // namespace
}  // namespace servecore::ops
