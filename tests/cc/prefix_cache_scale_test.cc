// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// What holds for a few blocks holds for long runs of them: each block of a
// small cache, which other tests compare with a model, is a run of many blocks
// of a large one here, and both do the same. Runs that long are counted, not
// stored, and their references are counted by the group.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/prefix_cache.h"
#include "cc/kv/prefix_match.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t kBlocks = 12;  // of the small cache

class ScaledPair {
 public:
  ScaledPair(EvictionPolicy policy, std::int32_t scale, std::uint32_t seed)
      : scale_(scale),
        random_(seed),
        small_pool_(std::make_shared<BlockPool>(kBlocks)),
        large_pool_(std::make_shared<BlockPool>(std::int64_t{kBlocks} * scale)),
        small_(small_pool_, {.block_size = 1, .policy = policy}),
        large_(large_pool_, {.block_size = 1, .policy = policy}) {}

  void Step() {
    switch (Pick(10)) {
      case 0:
      case 1:
      case 2:
        Match();
        break;
      case 3:
      case 4:
      case 5:
        Insert();
        break;
      case 6:
        Evict();
        break;
      case 7:
        if (Pick(20) == 0) {
          small_.Reset();
          large_.Reset();
        }
        break;
      default:
        Release();
    }
    Compare();
  }

  std::int64_t num_evicted() const { return small_.stats().evicted_blocks; }

 private:
  std::uint32_t Pick(std::uint32_t n) { return random_() % n; }

  Tokens RandomTokens() {
    Tokens tokens(Pick(6));
    for (std::int32_t& token : tokens) {
      token = static_cast<std::int32_t>(Pick(2));
    }
    return tokens;
  }

  Tokens Scaled(const Tokens& tokens) const {
    Tokens scaled;
    for (const std::int32_t token : tokens) {
      for (std::int32_t i = 0; i < scale_; ++i) {
        scaled.push_back(token * scale_ + i);
      }
    }
    return scaled;
  }

  Ids RunsOf(const Ids& blocks) const {
    Ids ids;
    for (const std::int32_t block : blocks) {
      const Ids& run = run_of_[static_cast<std::size_t>(block)];
      ids.insert(ids.end(), run.begin(), run.end());
    }
    return ids;
  }

  void Match() {
    const Tokens tokens = RandomTokens();
    PrefixMatch small = small_.Match(tokens);
    PrefixMatch large = large_.Match(Scaled(tokens));
    ASSERT_EQ(large.num_tokens(), small.num_tokens() * scale_);
    ASSERT_EQ(large.block_ids(), RunsOf(small.block_ids()));
    if (Pick(2) == 0) return;
    matches_.emplace_back(std::move(small), std::move(large));
  }

  // A request as it should be.
  void Insert() {
    const Tokens tokens = RandomTokens();
    const Tokens scaled = Scaled(tokens);
    const PrefixMatch small = small_.Match(tokens);
    const PrefixMatch large = large_.Match(scaled);
    Ids ids = small.block_ids();
    while (ids.size() < tokens.size()) {
      const std::optional<Ids> fresh = small_.Allocate(1);
      std::optional<Ids> run = large_.Allocate(scale_);
      ASSERT_EQ(fresh.has_value(), run.has_value());
      if (!fresh.has_value()) return;
      const std::int32_t block = fresh->front();
      ASSERT_EQ(std::ranges::min(*run), block * scale_);
      run_of_[static_cast<std::size_t>(block)] = *std::move(run);
      loose_.push_back(block);
      ids.push_back(block);
    }
    const auto priority = static_cast<std::int64_t>(Pick(3));
    const InsertResult result = small_.Insert(tokens, ids, {}, priority);
    const InsertResult scaled_result =
        large_.Insert(scaled, RunsOf(ids), {}, priority);
    ASSERT_EQ(scaled_result.num_new_tokens, result.num_new_tokens * scale_);
    ASSERT_EQ(scaled_result.duplicates, RunsOf(result.duplicates));
  }

  void Evict() {
    const auto n = static_cast<std::int64_t>(Pick(3));
    ASSERT_EQ(large_.Evict(n * scale_), small_.Evict(n) * scale_);
  }

  void Release() {
    if (!loose_.empty()) {
      std::swap(loose_[Pick(static_cast<std::uint32_t>(loose_.size()))],
                loose_.back());
      small_pool_->Release(loose_.back());
      large_pool_->ReleaseArray(RunsOf({loose_.back()}));
      loose_.pop_back();
    }
    if (!matches_.empty()) {
      std::swap(matches_[Pick(static_cast<std::uint32_t>(matches_.size()))],
                matches_.back());
      matches_.pop_back();
    }
  }

  void Compare() {
    const BlockPoolStats small = small_pool_->stats();
    const BlockPoolStats large = large_pool_->stats();
    ASSERT_EQ(large.num_free, small.num_free * scale_);
    ASSERT_EQ(large.num_idle, small.num_idle * scale_);
    ASSERT_EQ(large.total_refs, small.total_refs * scale_);
    ASSERT_EQ(large_.stats().num_cached_blocks,
              small_.stats().num_cached_blocks * scale_);
    for (std::int32_t block = 0; block < kBlocks; ++block) {
      for (const std::int32_t i : {0, 1, scale_ / 2, scale_ - 1}) {
        ASSERT_EQ(large_pool_->RefCount(block * scale_ + i),
                  small_pool_->RefCount(block));
      }
    }
    large_pool_->Check();
    large_.Check();
  }

  const std::int32_t scale_;
  std::mt19937 random_;
  const std::shared_ptr<BlockPool> small_pool_;
  const std::shared_ptr<BlockPool> large_pool_;
  PrefixCache small_;
  PrefixCache large_;
  std::array<Ids, kBlocks> run_of_;
  Ids loose_;  // blocks of the small pool
  std::vector<std::pair<PrefixMatch, PrefixMatch>> matches_;
};

class PrefixCachePolicyScaleTest
    : public testing::TestWithParam<EvictionPolicy> {};

TEST_P(PrefixCachePolicyScaleTest, LongRunsDoWhatSingleBlocksDo) {
  std::int64_t num_evicted = 0;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    for (const std::int32_t scale : {130, 192}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " scale " << scale);
      ScaledPair pair(GetParam(), scale, seed);
      for (int step = 0; step < 150; ++step) {
        pair.Step();
        if (HasFatalFailure()) return;
      }
      num_evicted += pair.num_evicted();
    }
  }
  // Nothing is proved where nothing happened.
  EXPECT_GT(num_evicted, 200);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, PrefixCachePolicyScaleTest,
    testing::Values(EvictionPolicy::kLru, EvictionPolicy::kLfu,
                    EvictionPolicy::kSlru, EvictionPolicy::kFifo,
                    EvictionPolicy::kPriority),
    [](const testing::TestParamInfo<EvictionPolicy>& info) {
      return std::string(EvictionPolicyName(info.param));
    });

// Runs of rising and of falling ids, left and shrunk at every place.
TEST(PrefixCacheScaleTest, ARunIsCutAnywhere) {
  constexpr std::int32_t kTokens = 140;
  for (const bool falls : {false, true}) {
    const auto pool = std::make_shared<BlockPool>(4 * kTokens);
    PrefixCache cache(pool, {.block_size = 1});
    Ids ids = *pool->Allocate(kTokens);
    if (falls) std::ranges::reverse(ids);
    Tokens tokens(kTokens);
    for (std::int32_t i = 0; i < kTokens; ++i) {
      tokens[static_cast<std::size_t>(i)] = i;
    }
    cache.Insert(tokens, ids);
    pool->ReleaseArray(ids);
    for (std::size_t i = 1; i < tokens.size(); i += 2) {
      Tokens other(tokens.begin(), tokens.begin() + static_cast<int>(i));
      other.push_back(-1);
      Ids other_ids(ids.begin(), ids.begin() + static_cast<int>(i));
      other_ids.push_back(pool->Allocate(1)->front());
      ASSERT_EQ(cache.Insert(other, other_ids).num_new_tokens, 1);
      ASSERT_EQ(cache.Match(other).block_ids(), other_ids);
      ASSERT_EQ(cache.Match(tokens).block_ids(), ids);
    }
    cache.Check();

    cache.Reset();
    ids = *pool->Allocate(kTokens);
    if (falls) std::ranges::reverse(ids);
    cache.Insert(tokens, ids);
    pool->ReleaseArray(ids);
    for (std::size_t left = ids.size(); left > 0; --left) {
      ASSERT_EQ(cache.Match(tokens).block_ids(),
                Ids(ids.begin(), ids.begin() + static_cast<int>(left)));
      ASSERT_EQ(cache.Evict(1), 1);
      cache.Check();
      pool->Check();
    }
  }
}

}  // namespace
}  // namespace servecore::kv
