// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// RmsNormBackward, both gradients, beside memcpy of one of its tensors, on one
// thread.
//
// The limit is memory: grad_out and x are read and grad_x is written, one and a
// half times what memcpy moves.
//
//   bazelw run //cc/ops:rmsnorm_backward_benchmark

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "cc/ops/benchmark_tensors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/rmsnorm_backward.h"

namespace servecore::ops {
namespace {

template <class T>
void BM_RmsNormBackward(benchmark::State& state) {
  const Tensor<T> grad_out(state.range(0), state.range(1));
  const Tensor<T> x(state.range(0), state.range(1));
  const Tensor<T> weight(1, state.range(1));
  const Tensor<T> grad_x(state.range(0), state.range(1));
  const Tensor<T> grad_weight(1, state.range(1));
  RmsNormBackwardArgs args{.dtype = kDType<T>,
                           .grad_out = grad_out.const_rows(),
                           .x = x.const_rows(),
                           .weight = weight.weights(),
                           .eps = 1e-6,
                           .grad_x = grad_x.rows(),
                           .grad_weight = grad_weight.data()};
  std::vector<double> scratch(RmsNormBackwardScratchBytes(args) / 8 + 1);
  args.scratch = scratch.data();
  for (auto _ : state) {
    RmsNormBackward(args, 0, RmsNormBackwardGroups(args));
    RmsNormBackwardWeight(args, 0, state.range(1));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(x.bytes()));
}

BENCHMARK(BM_RmsNormBackward<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<BFloat16>)->Apply(Shapes);
BENCHMARK(BM_RmsNormBackward<float>)->Apply(Shapes);
BENCHMARK(BM_Memcpy<float>)->Apply(Shapes);

}  // namespace
}  // namespace servecore::ops
