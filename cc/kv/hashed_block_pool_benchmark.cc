// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// What limits it: the queue and the counts are 16 bytes a block in three
// arrays, and a key of 36 bytes with its links is a cache line and a half,
// which BM_Copy moves once and so is the floor of BM_Flow. Beside that, each
// key costs a bucket and an entry to look at, one miss of the cache each once
// the table outgrows it, for Find and again when the key is taken away.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"
#include "cc/kv/hashed_block_pool.h"

namespace servecore::kv {
namespace {

constexpr std::int64_t kBlocks = 1 << 16;
constexpr std::size_t kKeySize = 36;  // SHA-256 and a group

// Keys that look like hashes.
std::vector<std::string> MakeKeys(std::int64_t n) {
  std::vector<std::string> keys;
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    std::string key(kKeySize, '\0');
    for (std::size_t k = 0; k + sizeof(state) <= kKeySize; k += sizeof(state)) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      std::memcpy(key.data() + k, &state, sizeof(state));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

void BM_AllocateFree(benchmark::State& state) {
  HashedBlockPool pool(kBlocks);
  for (auto _ : state) {
    const std::vector<std::int32_t> ids = *pool.Allocate(state.range(0));
    pool.Free(ids);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_AllocateFree)->Arg(1)->Arg(16)->Arg(512);

// A request of 2048 blocks, none of which is there: the pool is full of keys,
// so that each of its blocks takes one away.
void BM_Flow(benchmark::State& state) {
  constexpr std::int64_t kRequest = 2048;
  HashedBlockPool pool(kBlocks);
  const std::vector<std::string> texts = MakeKeys(2 * kBlocks);
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  std::size_t at = 0;
  for (auto _ : state) {
    const std::span request(keys.data() + at, kRequest);
    at = (at + kRequest) % keys.size();
    benchmark::DoNotOptimize(pool.Find(request));
    std::vector<std::int32_t> ids = *pool.Allocate(kRequest);
    pool.Insert(ids, request);
    std::ranges::reverse(ids);
    pool.Free(ids);
  }
  state.SetItemsProcessed(state.iterations() * kRequest);
}
BENCHMARK(BM_Flow);

// The same request again, all of which is there.
void BM_Hit(benchmark::State& state) {
  constexpr std::int64_t kRequest = 2048;
  HashedBlockPool pool(kBlocks);
  const std::vector<std::string> texts = MakeKeys(kBlocks);
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  pool.Insert(*pool.Allocate(kBlocks), keys);
  std::size_t at = 0;
  for (auto _ : state) {
    const std::span request(keys.data() + at, kRequest);
    at = (at + kRequest) % keys.size();
    const std::vector<std::int32_t> ids = pool.Find(request);
    pool.Touch(ids);
    pool.Free(ids);
  }
  state.SetItemsProcessed(state.iterations() * kRequest);
}
BENCHMARK(BM_Hit);

void BM_Copy(benchmark::State& state) {
  constexpr std::size_t kEntry = 96;
  std::vector<char> from(kBlocks * kEntry);
  std::vector<char> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kBlocks);
}
BENCHMARK(BM_Copy);

}  // namespace
}  // namespace servecore::kv
