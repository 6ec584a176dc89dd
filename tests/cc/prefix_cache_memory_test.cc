// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/prefix_cache.h"

namespace {

// Allocations of this thread until one fails; negative: none does.
thread_local std::int64_t allocations_left = -1;

void* AllocateOrFail(std::size_t size, std::size_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size == 0 ? 1 : size) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return AllocateOrFail(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return AllocateOrFail(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int32_t>;

// Runs `action` with ever later failures of memory until it succeeds, expects
// that nothing has changed after each failure, and gives the number of them.
template <class Action>
int FailUntilDone(PrefixCache& cache, const Action& action) {
  for (int num_failures = 0;; ++num_failures) {
    const PrefixCacheStats cache_before = cache.stats();
    const BlockPoolStats pool_before = cache.pool()->stats();
    bool failed = false;
    allocations_left = num_failures;
    try {
      action();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allocations_left = -1;
    cache.Check();
    cache.pool()->Check();
    if (!failed) return num_failures;
    EXPECT_EQ(cache.stats(), cache_before);
    EXPECT_EQ(cache.pool()->stats(), pool_before);
  }
}

Tokens Rising(std::int32_t first, std::int32_t n) {
  Tokens tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class PrefixCacheMemoryTest : public testing::Test {
 protected:
  static constexpr std::int32_t kBlocks = 4096;
  static constexpr std::size_t kBlockSize = 64;

  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>(kBlocks);
  PrefixCache cache{pool, {.block_size = 64, .policy = EvictionPolicy::kLfu}};
};

TEST_F(PrefixCacheMemoryTest, InsertThatFailsChangesNothing) {
  // Longer than a segment, so that it takes several nodes.
  const Tokens tokens = Rising(0, 64 * 2000);
  const Ids ids = *pool->Allocate(2000);
  EXPECT_GT(FailUntilDone(cache, [&] { cache.Insert(tokens, ids, "tenant"); }),
            5);
  // A branch within a run, with duplicates before it.
  Tokens branch(tokens.begin(), tokens.begin() + 6400);
  branch[50 * kBlockSize] = -1;
  const Ids more = *pool->Allocate(100);
  EXPECT_GT(FailUntilDone(cache, [&] { cache.Insert(branch, more, "tenant"); }),
            3);
  EXPECT_EQ(cache.Match(branch, "tenant").num_tokens(), 64 * 100);
  EXPECT_EQ(cache.Match(tokens, "tenant").num_tokens(), 64 * 2000);
}

TEST_F(PrefixCacheMemoryTest, WideInsertThatFailsChangesNothing) {
  const std::vector<std::int64_t> tokens(10 * kBlockSize,
                                         std::int64_t{1} << 40);
  const Ids ids = *pool->Allocate(10);
  EXPECT_GT(FailUntilDone(cache, [&] { cache.Insert(tokens, ids); }), 5);
  EXPECT_EQ(cache.Match(tokens).num_tokens(), 64 * 10);
}

TEST_F(PrefixCacheMemoryTest, MatchThatFailsHoldsNothing) {
  const Tokens tokens = Rising(0, 64 * 20);
  const Ids ids = *pool->Allocate(20);
  cache.Insert(tokens, ids);
  pool->ReleaseArray(ids);
  for (const std::int32_t length : {64 * 20, 64 * 7, 64 * 3}) {
    const Tokens part(tokens.begin(), tokens.begin() + length);
    std::optional<PrefixMatch> match;
    EXPECT_GT(FailUntilDone(cache, [&] { match = cache.Match(part); }), 1);
    EXPECT_EQ(match->num_tokens(), length);
    match.reset();
    EXPECT_EQ(pool->stats().num_idle, 20);
  }
  const std::vector<std::string_view> names = {""};
  std::vector<PrefixMatch> matches;
  FailUntilDone(cache, [&] {
    // What was matched before the failure is let go, but it was used.
    try {
      matches = cache.MatchMany(tokens, Ids{0, 64}, names);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(pool->stats().num_idle, 20);
      throw;
    }
  });
  EXPECT_EQ(matches.size(), 1U);
}

TEST_F(PrefixCacheMemoryTest, EvictionThatFailsEvictsNothing) {
  for (std::int32_t i = 0; i < 8; ++i) {
    const Ids ids = *pool->Allocate(500);
    cache.Insert(Rising(i * 100000, 64 * 500), ids);
    pool->ReleaseArray(ids);
    cache.Events();
  }
  EXPECT_GT(FailUntilDone(cache, [&] { cache.Evict(700); }), 1);
  EXPECT_EQ(cache.stats().evicted_blocks, 700);
  std::optional<Ids> ids;
  EXPECT_GT(FailUntilDone(cache, [&] { ids = cache.Allocate(2000); }), 1);
  EXPECT_EQ(ids->size(), 2000U);
  EXPECT_GT(FailUntilDone(cache, [&] { cache.Reset(); }), 0);
}

}  // namespace
}  // namespace servecore::kv
