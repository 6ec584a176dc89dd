// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cc/base/spin_barrier.h"
#include "cc/kv/block_pool.h"
#include "cc/kv/prefix_cache.h"
#include "tests/cc/run_together.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int32_t>;

constexpr int kThreads = 4;
constexpr int kSteps = 1000;
constexpr std::int64_t kBlockSize = 2;

// What the first n tokens leave in the memory of their last block.
std::uint64_t Content(const Tokens& tokens, std::size_t n) {
  std::uint64_t content = 1;
  for (std::size_t i = 0; i < n; ++i) {
    content = content * 31 + static_cast<std::uint64_t>(tokens[i]);
  }
  return content;
}

// Requests as an engine runs them: look up a prefix, allocate the rest, write
// it, publish it, let go. `memory` stands for the KV memory: it is written by
// who allocated a block and read by who found it, with no lock but those of the
// cache and the pool. A block that was given away while somebody held it would
// have the wrong content, and the thread sanitizer would see the race.
TEST(PrefixCacheConcurrencyTest, BlocksFoundHoldWhatWasWritten) {
  const auto pool = std::make_shared<BlockPool>(24);
  PrefixCache cache(pool, {.block_size = kBlockSize});
  std::vector<std::uint64_t> memory(24);
  std::vector<int> num_wrong(kThreads);
  RunTogether(kThreads, [&](int t) {
    std::mt19937 random(static_cast<std::uint32_t>(t));
    for (int step = 0; step < kSteps; ++step) {
      Tokens tokens(2 * (1 + random() % 4));
      for (std::int32_t& token : tokens) {
        token = static_cast<std::int32_t>(random() % 2);
      }
      const PrefixMatch match = cache.Match(tokens);
      Ids ids = match.block_ids();
      const auto content_after = [&tokens](std::size_t num_blocks) {
        return Content(tokens, num_blocks * kBlockSize);
      };
      for (std::size_t i = 0; i < ids.size(); ++i) {
        num_wrong[static_cast<std::size_t>(t)] +=
            memory[static_cast<std::size_t>(ids[i])] != content_after(i + 1);
      }
      const std::size_t num_blocks = tokens.size() / kBlockSize;
      const std::optional<Ids> fresh =
          cache.Allocate(static_cast<std::int64_t>(num_blocks - ids.size()));
      if (!fresh.has_value()) continue;
      for (const std::int32_t id : *fresh) {
        ids.push_back(id);
        memory[static_cast<std::size_t>(id)] = content_after(ids.size());
      }
      cache.Insert(tokens, ids);
      pool->ReleaseArray(*fresh);
      if (step % 100 == 0) cache.Check();
      if (step % 250 == 249) cache.Evict(2);
      if (step % 500 == 499) cache.Reset();
    }
  });
  EXPECT_EQ(num_wrong, std::vector<int>(kThreads));
  cache.Check();
  pool->Check();
  EXPECT_GT(cache.stats().hit_tokens, 0);
  EXPECT_GT(cache.stats().evicted_blocks, 0);
  cache.Reset();
  EXPECT_EQ(pool->num_free(), 24);
}

// One of several that insert the same tokens at once is kept, and each of the
// others learns that its block is a duplicate.
TEST(PrefixCacheConcurrencyTest, OneOfEqualInsertsIsKept) {
  const auto pool = std::make_shared<BlockPool>(kThreads);
  PrefixCache cache(pool, {.block_size = kBlockSize});
  SpinBarrier barrier(kThreads);
  std::vector<int> num_kept(kThreads);
  std::vector<int> num_wrong(kThreads);
  constexpr int kRounds = 200;
  RunTogether(kThreads, [&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      const Ids ids = *pool->Allocate(1);
      barrier.Wait();
      const InsertResult result = cache.Insert(Tokens{1, 2}, ids);
      const bool kept = result.num_new_tokens == kBlockSize;
      num_kept[static_cast<std::size_t>(t)] += kept ? 1 : 0;
      num_wrong[static_cast<std::size_t>(t)] +=
          result.duplicates != (kept ? Ids{} : ids);
      pool->ReleaseArray(ids);
      barrier.Wait();
      if (t == 0) cache.Reset();
      barrier.Wait();
    }
  });
  int total = 0;
  for (const int n : num_kept) total += n;
  EXPECT_EQ(total, kRounds);
  EXPECT_EQ(num_wrong, std::vector<int>(kThreads));
  EXPECT_EQ(pool->num_free(), kThreads);
}

// A block that only the pool's callers retain is never evicted from under them.
TEST(PrefixCacheConcurrencyTest, EvictionAndRetainingInThePoolAgree) {
  const auto pool = std::make_shared<BlockPool>(8);
  PrefixCache cache(pool, {.block_size = 1});
  std::vector<int> num_lost(kThreads);
  RunTogether(kThreads, [&](int t) {
    for (int step = 0; step < kSteps; ++step) {
      if (t % 2 == 0) {
        PrefixMatch match = cache.Match(Tokens{1, 2, 3});
        const Ids ids = match.block_ids();
        pool->RetainArray(ids);
        match.Release();
        for (const std::int32_t id : ids) {
          num_lost[static_cast<std::size_t>(t)] += pool->RefCount(id) < 1;
        }
        pool->ReleaseArray(ids);
      } else {
        const std::optional<Ids> ids = cache.Allocate(3);
        if (!ids.has_value()) continue;
        cache.Insert(Tokens{1, 2, 3}, *ids);
        pool->ReleaseArray(*ids);
        cache.Evict(3);
      }
    }
  });
  EXPECT_EQ(num_lost, std::vector<int>(kThreads));
  cache.Check();
  pool->Check();
}

// Matches end on other threads than they began on, and after their cache.
TEST(PrefixCacheConcurrencyTest, MatchesMayEndWhileTheCacheEnds) {
  const auto pool = std::make_shared<BlockPool>(4);
  for (int round = 0; round < 100; ++round) {
    std::optional<PrefixCache> cache(std::in_place, pool,
                                     PrefixCacheOptions{.block_size = 1});
    const Ids ids = *pool->Allocate(4);
    cache->Insert(Tokens{1, 2, 3, 4}, ids);
    pool->ReleaseArray(ids);
    std::vector<PrefixMatch> matches;
    matches.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      matches.push_back(cache->Match(Tokens{1, 2, 3, 4}));
    }
    RunTogether(kThreads, [&](int t) {
      if (t == 0) cache.reset();
      matches[static_cast<std::size_t>(t)].Release();
    });
    ASSERT_EQ(pool->num_free(), 4);
    pool->Check();
  }
}

}  // namespace
}  // namespace servecore::kv
