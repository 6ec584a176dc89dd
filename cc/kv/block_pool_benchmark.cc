// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// What limits it: for each block, Allocate and ReleaseArray each move one id
// (4 bytes) between two arrays, and the caller's list is copied once. BM_Copy
// moves the ids alone and is the floor. Beside that, a call costs an
// uncontended lock (about 15 ns) and a result to allocate, which is most of the
// time of a single block.
//
// Counts change 64 blocks at a time where ids follow one another, as those of a
// pool do that is used by the request: 512 blocks there and back in 0.48 us,
// 5.5 times BM_Copy. BM_AllocateReleaseShuffled is the other end, a pool whose
// ids come in no order at all: each block changes a word of its own and one of
// its group, 12 ns there and back.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "cc/kv/block_pool.h"

namespace servecore::kv {
namespace {

constexpr std::int64_t kBlocks = 1 << 16;

void BM_AllocateRelease(benchmark::State& state) {
  BlockPool pool(kBlocks);
  for (auto _ : state) {
    const std::vector<std::int32_t> ids = *pool.Allocate(state.range(0));
    pool.ReleaseArray(ids);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_AllocateRelease)->Arg(1)->Arg(16)->Arg(512);

void BM_AllocateReleaseShuffled(benchmark::State& state) {
  BlockPool pool(kBlocks);
  std::vector<std::int32_t> all = *pool.Allocate(kBlocks);
  std::ranges::shuffle(all, std::mt19937(std::random_device()()));
  pool.ReleaseArray(all);
  for (auto _ : state) {
    const std::vector<std::int32_t> ids = *pool.Allocate(state.range(0));
    pool.ReleaseArray(ids);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_AllocateReleaseShuffled)->Arg(16)->Arg(512);

void BM_AllocateReleaseOne(benchmark::State& state) {
  BlockPool pool(kBlocks);
  for (auto _ : state) pool.Release(pool.Allocate(1)->front());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_AllocateReleaseOne);

void BM_RetainRelease(benchmark::State& state) {
  BlockPool pool(kBlocks);
  const std::vector<std::int32_t> ids = *pool.Allocate(state.range(0));
  for (auto _ : state) {
    pool.RetainArray(ids);
    pool.ReleaseArray(ids);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_RetainRelease)->Arg(512);

// A batch of 256 requests that need a block each, as a decoding step does.
void BM_AllocateManyFlat(benchmark::State& state) {
  BlockPool pool(kBlocks);
  const std::vector<std::int32_t> counts(256, 1);
  for (auto _ : state) {
    pool.ReleaseArray(pool.AllocateManyFlat(counts)->ids);
  }
  state.SetItemsProcessed(state.iterations() * 256);
}
BENCHMARK(BM_AllocateManyFlat);

void BM_Copy(benchmark::State& state) {
  std::vector<std::int32_t> stack(kBlocks);
  for (auto _ : state) {
    const std::vector<std::int32_t> ids(stack.end() - state.range(0),
                                        stack.end());
    benchmark::DoNotOptimize(ids.data());
    std::ranges::copy(ids, stack.end() - state.range(0));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Copy)->Arg(1)->Arg(16)->Arg(512);

}  // namespace
}  // namespace servecore::kv
