// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/token_compare.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int32_t>;
using WideTokens = std::vector<std::int64_t>;

static_assert(!std::is_copy_constructible_v<PrefixMatch>);
static_assert(!std::is_copy_assignable_v<PrefixMatch>);
static_assert(std::is_nothrow_move_constructible_v<PrefixMatch>);
static_assert(std::is_nothrow_move_assignable_v<PrefixMatch>);

class PrefixCacheTest : public testing::Test {
 protected:
  static constexpr std::int32_t kBlocks = 16;

  // The blocks that a lookup finds, held no longer than that.
  Ids Found(const IntSpan& tokens, std::string_view ns = {}) {
    return cache.Match(tokens, ns).block_ids();
  }

  // Caches `tokens` in fresh blocks that nobody but the cache holds then.
  Ids InsertFresh(const Tokens& tokens, std::string_view ns = {}) {
    const auto n = static_cast<std::int64_t>(tokens.size()) / 2;
    const Ids ids = *pool->Allocate(n);
    cache.Insert(tokens, ids, ns);
    pool->ReleaseArray(ids);
    cache.Check();
    return ids;
  }

  // Runs `action` and expects an Error whose message holds each of `words`, and
  // that neither cache nor pool nor the order of eviction has changed.
  template <class Error, class Action>
  void ExpectRefused(const std::vector<std::string>& words,
                     const Action& action) {
    const PrefixCacheStats cache_before = cache.stats();
    const BlockPoolStats pool_before = pool->stats();
    try {
      action();
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << "no '" << word << "' in: " << error.what();
      }
    }
    EXPECT_EQ(cache.stats(), cache_before);
    EXPECT_EQ(pool->stats(), pool_before);
    cache.Check();
    pool->Check();
  }

  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>(kBlocks);
  PrefixCache cache{pool, {.block_size = 2}};
};

TEST_F(PrefixCacheTest, EmptyCacheFindsNothing) {
  const PrefixMatch match = cache.Match(Tokens{1, 2, 3, 4});
  EXPECT_EQ(match.num_tokens(), 0);
  EXPECT_TRUE(match.block_ids().empty());
  EXPECT_EQ(cache.stats(), (PrefixCacheStats{.queries = 1, .query_tokens = 4}));
  cache.Check();
}

TEST_F(PrefixCacheTest, FindsTheLongestPrefixInWholeBlocks) {
  const Ids ids = InsertFresh({1, 2, 3, 4, 5});
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4, 5, 6}), ids);
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4}), ids);
  EXPECT_EQ(Found(Tokens{1, 2, 3}), Ids{ids[0]});
  EXPECT_EQ(Found(Tokens{1, 2, 9, 4}), Ids{ids[0]});
  EXPECT_EQ(Found(Tokens{1, 9, 3, 4}), Ids{});
  // A block counts only after all that come before it.
  EXPECT_EQ(Found(Tokens{3, 4}), Ids{});
  EXPECT_EQ(Found(Tokens{1}), Ids{});
  EXPECT_EQ(Found(Tokens{}), Ids{});
  EXPECT_EQ(cache.Match(Tokens{1, 2, 3, 4, 5}).num_tokens(), 4);
}

TEST_F(PrefixCacheTest, InsertReportsNewTokensAndKeepsAReference) {
  const Ids ids = *pool->Allocate(3);
  const InsertResult result = cache.Insert(Tokens{1, 2, 3, 4, 5, 6, 7}, ids);
  EXPECT_EQ(result.num_new_tokens, 6);
  EXPECT_TRUE(result.duplicates.empty());
  for (const std::int32_t id : ids) EXPECT_EQ(pool->RefCount(id), 2);
  pool->ReleaseArray(ids);
  EXPECT_EQ(pool->num_free(), kBlocks - 3);
  EXPECT_EQ(cache.stats().num_cached_blocks, 3);
}

TEST_F(PrefixCacheTest, InsertingTheSameBlocksAgainIsNothingNew) {
  const Ids ids = *pool->Allocate(2);
  cache.Insert(Tokens{1, 2, 3, 4}, ids);
  const InsertResult result = cache.Insert(Tokens{1, 2, 3, 4}, ids);
  EXPECT_EQ(result.num_new_tokens, 0);
  EXPECT_TRUE(result.duplicates.empty());
  EXPECT_EQ(pool->RefCount(ids[0]), 2);
  cache.Check();
}

TEST_F(PrefixCacheTest, InsertReportsTheCallersDuplicates) {
  const Ids first = InsertFresh({1, 2, 3, 4});
  const Ids second = *pool->Allocate(4);
  const InsertResult result =
      cache.Insert(Tokens{1, 2, 3, 4, 5, 6, 7, 8}, second);
  EXPECT_EQ(result.num_new_tokens, 4);
  EXPECT_EQ(result.duplicates, (Ids{second[0], second[1]}));
  EXPECT_EQ(pool->RefCount(second[0]), 1);
  EXPECT_EQ(pool->RefCount(second[2]), 2);
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4, 5, 6, 7, 8}),
            (Ids{first[0], first[1], second[2], second[3]}));
  EXPECT_EQ(cache.stats().duplicate_blocks, 2);
  cache.Check();
}

// A request that found a prefix inserts the blocks found and its own together.
TEST_F(PrefixCacheTest, MatchedBlocksMayBeInsertedWithNewOnes) {
  InsertFresh({1, 2, 3, 4});
  const PrefixMatch match = cache.Match(Tokens{1, 2, 3, 4, 5, 6});
  Ids ids = match.block_ids();
  ids.push_back(pool->Allocate(1)->front());
  const InsertResult result = cache.Insert(Tokens{1, 2, 3, 4, 5, 6}, ids);
  EXPECT_EQ(result.num_new_tokens, 2);
  EXPECT_TRUE(result.duplicates.empty());
}

TEST_F(PrefixCacheTest, InsertReadsNothingThatItDoesNotNeed) {
  const Ids ids = *pool->Allocate(1);
  // The second id is no block at all, and the last token fills none.
  const Ids more = {ids[0], -7};
  EXPECT_EQ(cache.Insert(Tokens{1, 2, 3}, more).num_new_tokens, 2);
  EXPECT_EQ(cache.Insert(Tokens{1}, Ids{}).num_new_tokens, 0);
  EXPECT_EQ(cache.Insert(Tokens{}, Ids{}).num_new_tokens, 0);
  cache.Check();
}

TEST_F(PrefixCacheTest, NamespacesAreStrangers) {
  const Ids plain = InsertFresh({1, 2, 3, 4});
  const Ids tenant = InsertFresh({1, 2, 3, 4}, "tenant");
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4}), plain);
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4}, "tenant"), tenant);
  EXPECT_EQ(Found(Tokens{1, 2, 3, 4}, "nobody"), Ids{});
  EXPECT_EQ(Found(Tokens{1, 2}, std::string_view("tenant\0x", 8)), Ids{});
  EXPECT_EQ(cache.stats().num_namespaces, 2);
}

TEST_F(PrefixCacheTest, NamespaceEndsWithItsLastBlock) {
  for (int i = 0; i < 100; ++i) {
    InsertFresh({1, 2}, "tenant" + std::to_string(i));
    InsertFresh({1, 2}, "other" + std::to_string(i));
    EXPECT_EQ(cache.stats().num_namespaces, 2);
    EXPECT_EQ(cache.Evict(2), 2);
    EXPECT_EQ(cache.stats().num_namespaces, 0);
    cache.Check();
  }
}

TEST_F(PrefixCacheTest, BothWidthsAndAnyStrideMeanTheSame) {
  const Ids ids = InsertFresh({1, -2, 3, 4});
  EXPECT_EQ(Found(WideTokens{1, -2, 3, 4}), ids);
  const Tokens spread = {4, 0, 3, 0, -2, 0, 1};
  EXPECT_EQ(Found(StridedSpan<std::int32_t>(spread.data() + 6, 4, -2)), ids);
  const Ids twice = *pool->Allocate(2);
  const WideTokens wide = {7, 7, 7, 7};
  EXPECT_EQ(cache.Insert(StridedSpan<std::int64_t>(wide.data(), 4, 0), twice)
                .num_new_tokens,
            4);
  EXPECT_EQ(Found(Tokens{7, 7, 7, 7}), twice);
  const Ids backwards = *pool->Allocate(2);
  cache.Insert(Tokens{8, 8, 9, 9},
               StridedSpan<std::int32_t>(backwards.data() + 1, 2, -1));
  EXPECT_EQ(Found(Tokens{8, 8, 9, 9}), (Ids{backwards[1], backwards[0]}));
}

TEST_F(PrefixCacheTest, TokensThatDifferAbove32BitsDiffer) {
  const std::int64_t far = (std::int64_t{1} << 32) + 1;
  const Ids near_ids = InsertFresh({1, 1});
  EXPECT_EQ(Found(WideTokens{far, 1}), Ids{});
  const Ids far_ids = *pool->Allocate(1);
  cache.Insert(WideTokens{far, 1}, far_ids);
  EXPECT_EQ(Found(WideTokens{far, 1}), far_ids);
  EXPECT_EQ(Found(WideTokens{1, 1}), near_ids);
  EXPECT_EQ(Found(WideTokens{far + (std::int64_t{1} << 32), 1}), Ids{});
  cache.Check();
}

// The hash forgets all that came before when the first two tokens of four are
// these, so blocks that begin with them share one hash whatever follows, and
// whatever block they follow.
TEST_F(PrefixCacheTest, EqualHashesGiveNoWrongBlock) {
  constexpr auto kFirst = static_cast<std::int32_t>(0x85a308d3U);
  constexpr std::int32_t kSecond = 0x243f6a88;
  const Tokens one = {kFirst, kSecond, 1, 1};
  const Tokens two = {kFirst, kSecond, 2, 2};
  ASSERT_EQ(HashTokens(one, 0, 4, 1), HashTokens(two, 0, 4, 2))
      << "the hash has changed; find tokens whose hashes are equal";

  PrefixCache colliding(pool, {.block_size = 4});
  const Tokens long_one = {1, 2, 3, 4, kFirst, kSecond, 1, 1};
  const Ids ids = *pool->Allocate(3);
  colliding.Insert(one, Ids{ids[0]});
  EXPECT_TRUE(colliding.Match(two).block_ids().empty());
  colliding.Insert(long_one, Ids{ids[1], ids[2]});
  colliding.Check();
  // The same tokens at the beginning, and behind another block.
  EXPECT_EQ(colliding.Match(one).block_ids(), Ids{ids[0]});
  EXPECT_EQ(colliding.Match(long_one).block_ids(), (Ids{ids[1], ids[2]}));
  EXPECT_TRUE(colliding.Match(one, "tenant").block_ids().empty());
}

TEST_F(PrefixCacheTest, MatchHoldsItsBlocks) {
  const Ids ids = InsertFresh({1, 2, 3, 4});
  PrefixMatch match = cache.Match(Tokens{1, 2, 3, 4});
  EXPECT_TRUE(match.held());
  EXPECT_EQ(pool->RefCount(ids[0]), 2);
  EXPECT_EQ(cache.Evict(5), 0);
  match.Release();
  EXPECT_FALSE(match.held());
  EXPECT_EQ(pool->RefCount(ids[0]), 1);
  // A record of what was found stays.
  EXPECT_EQ(match.num_tokens(), 4);
  EXPECT_EQ(match.block_ids(), ids);
  match.Release();
  EXPECT_EQ(pool->RefCount(ids[0]), 1);
  EXPECT_EQ(cache.Evict(5), 2);
}

TEST_F(PrefixCacheTest, MatchReleasesAtItsEnd) {
  const Ids ids = InsertFresh({1, 2});
  {
    const PrefixMatch match = cache.Match(Tokens{1, 2});
    EXPECT_EQ(pool->RefCount(ids[0]), 2);
  }
  EXPECT_EQ(pool->RefCount(ids[0]), 1);
}

TEST_F(PrefixCacheTest, MatchMoves) {
  const Ids one = InsertFresh({1, 2});
  const Ids two = InsertFresh({3, 4});
  PrefixMatch first = cache.Match(Tokens{1, 2});
  PrefixMatch moved(std::move(first));
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_FALSE(first.held());
  EXPECT_EQ(first.num_tokens(), 0);
  EXPECT_EQ(moved.block_ids(), one);
  EXPECT_EQ(pool->RefCount(one[0]), 2);

  PrefixMatch second = cache.Match(Tokens{3, 4});
  moved = std::move(second);
  EXPECT_EQ(pool->RefCount(one[0]), 1);
  EXPECT_EQ(pool->RefCount(two[0]), 2);
  PrefixMatch& alias = moved;
  moved = std::move(alias);
  EXPECT_TRUE(moved.held());
  EXPECT_EQ(moved.block_ids(), two);
}

TEST_F(PrefixCacheTest, MatchOutlivesCacheAndPoolHandle) {
  auto pool = std::make_shared<BlockPool>(4);
  std::optional<PrefixCache> cache(std::in_place, pool,
                                   PrefixCacheOptions{.block_size = 1});
  const Ids ids = *pool->Allocate(2);
  cache->Insert(Tokens{1, 2}, ids);
  pool->ReleaseArray(ids);
  std::optional<PrefixMatch> match = cache->Match(Tokens{1});
  cache.reset();
  EXPECT_EQ(pool->num_free(), 3);
  EXPECT_EQ(pool->RefCount(ids[0]), 1);
  const std::weak_ptr<BlockPool> watch = pool;
  pool.reset();
  EXPECT_FALSE(watch.expired());
  match.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_F(PrefixCacheTest, ReferencesOfCacheAndMatchAreNotACallersToRelease) {
  const Ids ids = InsertFresh({1, 2});
  ExpectRefused<std::logic_error>({"block 0", "once too often"},
                                  [&] { pool->Release(ids[0]); });
  const PrefixMatch match = cache.Match(Tokens{1, 2});
  ExpectRefused<std::logic_error>({"block 0", "once too often"},
                                  [&] { pool->ReleaseArray(ids); });
}

TEST_F(PrefixCacheTest, EvictsTheLeastRecentlyUsedLeafFirst) {
  const Ids a = InsertFresh({1, 1, 2, 2});
  const Ids b = InsertFresh({3, 3});
  const Ids c = InsertFresh({1, 1, 4, 4});  // continues a's first block
  EXPECT_EQ(c.size(), 2U);                  // of which the first is a duplicate
  EXPECT_EQ(Found(Tokens{3, 3}), b);
  // Order of use now: a[1], c[1], a[0], b[0].
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(pool->RefCount(a[1]), 0);
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(pool->RefCount(c[1]), 0);
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(pool->RefCount(a[0]), 0);
  EXPECT_EQ(Found(Tokens{3, 3}), b);
  EXPECT_EQ(cache.Evict(7), 1);
  EXPECT_EQ(cache.stats().num_cached_blocks, 0);
  EXPECT_EQ(cache.stats().evicted_blocks, 4);
  EXPECT_EQ(pool->num_free(), kBlocks);
  cache.Check();
}

TEST_F(PrefixCacheTest, MatchTouchesOnlyWhatItFinds) {
  const Ids a = InsertFresh({1, 1, 2, 2});
  const Ids b = InsertFresh({3, 3});
  Found(Tokens{1, 1});
  // a's second block is the oldest, then b's, then a's first.
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(Found(Tokens{1, 1, 2, 2}), Ids{a[0]});
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(pool->RefCount(b[0]), 0);
}

TEST_F(PrefixCacheTest, EvictionPassesOverWhatIsHeldAndItsParents) {
  const Ids a = InsertFresh({1, 1, 2, 2, 3, 3});
  const Ids b = InsertFresh({4, 4});
  {
    // A loose reference holds as well as a match does.
    pool->Retain(a[1]);
    EXPECT_EQ(cache.Evict(9), 2);
    EXPECT_EQ(Found(Tokens{1, 1, 2, 2, 3, 3}), (Ids{a[0], a[1]}));
    EXPECT_EQ(pool->RefCount(b[0]), 0);
    cache.Check();
    pool->Release(a[1]);
  }
  EXPECT_EQ(cache.Evict(9), 2);
}

TEST_F(PrefixCacheTest, AllocateEvictsOnlyWhatIsMissing) {
  const Ids a = InsertFresh({1, 1, 2, 2});
  EXPECT_EQ(cache.Allocate(kBlocks - 2)->size(), kBlocks - 2U);
  EXPECT_EQ(cache.stats().evicted_blocks, 0);
  EXPECT_EQ(cache.Allocate(1), Ids{a[1]});
  EXPECT_EQ(cache.stats().evicted_blocks, 1);
  EXPECT_EQ(pool->RefCount(a[1]), 1);
  EXPECT_EQ(Found(Tokens{1, 1, 2, 2}), Ids{a[0]});
  EXPECT_EQ(cache.Allocate(0), Ids{});
  cache.Check();
}

TEST_F(PrefixCacheTest, AllocateThatCannotBeMetEvictsNothing) {
  InsertFresh({1, 1, 2, 2, 3, 3});
  const PrefixMatch match = cache.Match(Tokens{1, 1, 2, 2});
  const PrefixCacheStats before = cache.stats();
  const BlockPoolStats pool_before = pool->stats();
  // 13 are free, 1 can be evicted.
  EXPECT_EQ(cache.Allocate(15), std::nullopt);
  EXPECT_EQ(cache.Allocate(17), std::nullopt);
  EXPECT_EQ(cache.Allocate(std::numeric_limits<std::int32_t>::max()),
            std::nullopt);
  EXPECT_EQ(cache.stats(), before);
  EXPECT_EQ(pool->stats(), pool_before);
  cache.Check();
  EXPECT_EQ(cache.Allocate(14)->size(), 14U);
  cache.Check();
}

TEST_F(PrefixCacheTest, BlockOfTwoCachesIsHeldByEitherForTheOther) {
  PrefixCache other(pool, {.block_size = 1});
  const Ids ids = *pool->Allocate(1);
  cache.Insert(Tokens{1, 2}, ids);
  other.Insert(Tokens{1}, ids);
  pool->ReleaseArray(ids);
  EXPECT_EQ(cache.Evict(1), 0);
  EXPECT_EQ(other.Evict(1), 0);
  other.Reset();
  EXPECT_EQ(cache.Evict(1), 1);
}

TEST_F(PrefixCacheTest, EvictedBlockMayBeCachedElsewhere) {
  const Ids ids = InsertFresh({1, 1});
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(InsertFresh({2, 2}), ids);
  EXPECT_EQ(Found(Tokens{1, 1}), Ids{});
  EXPECT_EQ(Found(Tokens{2, 2}), ids);
}

TEST_F(PrefixCacheTest, ResetForgetsEverythingAndLeavesHeldBlocksAlone) {
  const Ids a = InsertFresh({1, 1, 2, 2});
  InsertFresh({1, 1}, "tenant");
  const PrefixMatch match = cache.Match(Tokens{1, 1});
  cache.Reset();
  cache.Check();
  EXPECT_EQ(cache.stats().num_cached_blocks, 0);
  EXPECT_EQ(cache.stats().num_namespaces, 0);
  EXPECT_EQ(cache.stats().dropped_blocks, 3);
  EXPECT_EQ(cache.stats().queries, 1);
  EXPECT_EQ(pool->num_free(), kBlocks - 1);
  EXPECT_EQ(pool->RefCount(a[0]), 1);
  EXPECT_EQ(Found(Tokens{1, 1}), Ids{});
  // The match's block may come back.
  EXPECT_EQ(cache.Insert(Tokens{1, 1}, match.block_ids()).num_new_tokens, 2);
  cache.Check();
}

TEST_F(PrefixCacheTest, DestructorGivesBackItsReferences) {
  {
    PrefixCache cache(pool, {.block_size = 1});
    const Ids ids = *pool->Allocate(5);
    cache.Insert(Tokens{1, 2, 3, 4, 5}, ids);
    pool->ReleaseArray(ids);
    EXPECT_EQ(pool->num_free(), kBlocks - 5);
  }
  EXPECT_EQ(pool->num_free(), kBlocks);
  pool->Check();
}

// Deep enough to end the stack of anything recursive.
TEST_F(PrefixCacheTest, LongChainsAreNoDanger) {
  constexpr std::int32_t kLong = 200000;
  const auto pool = std::make_shared<BlockPool>(kLong);
  Tokens tokens(kLong);
  std::iota(tokens.begin(), tokens.end(), 0);
  {
    PrefixCache cache(pool, {.block_size = 1});
    const Ids ids = *pool->Allocate(kLong);
    EXPECT_EQ(cache.Insert(tokens, ids).num_new_tokens, kLong);
    pool->ReleaseArray(ids);
    EXPECT_EQ(cache.Match(tokens).num_tokens(), kLong);
    cache.Check();
    EXPECT_EQ(cache.Evict(kLong / 2), kLong / 2);
    EXPECT_EQ(cache.Match(tokens).num_tokens(), kLong / 2);
  }
  EXPECT_EQ(pool->num_free(), kLong);
}

TEST_F(PrefixCacheTest, StatsCount) {
  InsertFresh({1, 2, 3, 4, 5});
  Found(Tokens{1, 2, 3, 4, 5});
  Found(Tokens{1, 2, 9});
  Found(Tokens{9}, "tenant");
  const Ids more = *pool->Allocate(1);
  cache.Insert(Tokens{1, 2}, more);
  cache.Evict(1);
  EXPECT_EQ(cache.stats(), (PrefixCacheStats{.num_cached_blocks = 1,
                                             .num_nodes = 1,
                                             .num_namespaces = 1,
                                             .queries = 3,
                                             .query_tokens = 9,
                                             .hit_tokens = 6,
                                             .inserted_blocks = 2,
                                             .duplicate_blocks = 1,
                                             .evicted_blocks = 1,
                                             .dropped_blocks = 0}));
}

TEST_F(PrefixCacheTest, OptionsAreChecked) {
  EXPECT_THROW(PrefixCache(nullptr, {.block_size = 1}), std::invalid_argument);
  const std::int64_t over =
      std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-16}, over}) {
    ExpectRefused<std::invalid_argument>(
        {std::to_string(bad), "1 to 2147483647"},
        [&] { PrefixCache(pool, {.block_size = bad}); });
  }
  const PrefixCache cache(pool, {.block_size = 7});
  EXPECT_EQ(cache.block_size(), 7);
  EXPECT_EQ(cache.policy(), EvictionPolicy::kLru);
  EXPECT_EQ(cache.pool(), pool);
}

TEST_F(PrefixCacheTest, BadInsertsAreRefused) {
  const Ids cached = InsertFresh({1, 1, 2, 2});
  const Ids fresh = *pool->Allocate(4);
  const Tokens tokens = {1, 1, 5, 5, 6, 6};
  const auto insert = [&](const Ids& ids) {
    return [this, &tokens, ids] { cache.Insert(tokens, ids, "tenant"); };
  };
  ExpectRefused<std::invalid_argument>(
      {"2 elements", "6 tokens", "3 blocks of 2"},
      insert({fresh[0], fresh[1]}));
  ExpectRefused<std::out_of_range>({"block_ids[1] is -1"},
                                   insert({fresh[0], -1, fresh[1]}));
  ExpectRefused<std::out_of_range>({"block_ids[2] is 16"},
                                   insert({fresh[0], fresh[1], 16}));
  ExpectRefused<std::logic_error>({"block_ids[2]", "block 15", "free"},
                                  insert({fresh[0], fresh[1], 15}));
  ExpectRefused<std::invalid_argument>({"block_ids[2]", "named before"},
                                       insert({fresh[0], fresh[1], fresh[0]}));
  ExpectRefused<std::invalid_argument>(
      {"block_ids[1]", "block " + std::to_string(cached[1]), "cached"},
      insert({fresh[0], cached[1], fresh[1]}));
  // A number that is 0 when cut to 32 bits.
  const WideTokens wide_ids = {std::int64_t{1} << 32, 5, 6};
  ExpectRefused<std::out_of_range>(
      {"4294967296"}, [&] { cache.Insert(tokens, wide_ids, "tenant"); });
  EXPECT_EQ(cache.stats().num_namespaces, 1);
  // What was refused may be inserted properly.
  EXPECT_EQ(cache.Insert(tokens, fresh, "tenant").num_new_tokens, 6);
  cache.Check();
}

// The same where the path begins with blocks that the cache has.
TEST_F(PrefixCacheTest, BadInsertsBehindACachedPrefixAreRefused) {
  const Ids cached = InsertFresh({1, 1, 2, 2});
  const Ids other = InsertFresh({8, 8});
  const Ids fresh = *pool->Allocate(2);
  const Tokens tokens = {1, 1, 2, 2, 3, 3};
  const auto insert = [&](const Ids& ids) {
    return [this, &tokens, ids] { cache.Insert(tokens, ids); };
  };
  ExpectRefused<std::logic_error>({"block_ids[1]", "free"},
                                  insert({cached[0], 15, fresh[0]}));
  ExpectRefused<std::logic_error>({"block_ids[2]", "free"},
                                  insert({cached[0], cached[1], 15}));
  // A duplicate that is cached elsewhere holds other tokens.
  ExpectRefused<std::invalid_argument>({"block_ids[1]", "cached"},
                                       insert({cached[0], other[0], fresh[0]}));
  ExpectRefused<std::invalid_argument>({"block_ids[1]", "cached"},
                                       insert({fresh[0], cached[0], fresh[1]}));
  ExpectRefused<std::invalid_argument>({"block_ids[2]", "named before"},
                                       insert({cached[0], fresh[0], fresh[0]}));
  // Refusals touched nothing: a's leaf is still the oldest.
  EXPECT_EQ(cache.Evict(1), 1);
  EXPECT_EQ(pool->RefCount(cached[1]), 0);
}

TEST_F(PrefixCacheTest, MatchManyIsMatchForEachPart) {
  const Ids plain = InsertFresh({1, 2, 3, 4});
  const Ids tenant = InsertFresh({1, 2}, "tenant");
  const Tokens tokens = {1, 2, 3, 4, 1, 2, 9, 9, 9, 9};
  const std::vector<std::string_view> one = {""};
  std::vector<PrefixMatch> matches =
      cache.MatchMany(tokens, Ids{0, 4, 4, 8}, one);
  ASSERT_EQ(matches.size(), 3U);
  EXPECT_EQ(matches[0].block_ids(), plain);
  EXPECT_EQ(matches[1].block_ids(), Ids{});
  EXPECT_EQ(matches[2].block_ids(), Ids{plain[0]});
  EXPECT_EQ(pool->RefCount(plain[0]), 3);
  const std::vector<std::string_view> two = {"tenant", ""};
  matches = cache.MatchMany(tokens, WideTokens{4, 8, 10}, two);
  EXPECT_EQ(matches[0].block_ids(), tenant);
  EXPECT_EQ(matches[1].block_ids(), Ids{});
  EXPECT_TRUE(cache.MatchMany(tokens, Ids{3}, one).empty());
  matches.clear();
  const auto match_many = [&](const Ids& offsets,
                              const std::vector<std::string_view>& names) {
    return [&, offsets] { cache.MatchMany(tokens, offsets, names); };
  };
  ExpectRefused<std::invalid_argument>({"offsets is empty"},
                                       match_many({}, one));
  ExpectRefused<std::invalid_argument>({"offsets[0] is -1", "0 to 10"},
                                       match_many({-1, 2}, one));
  ExpectRefused<std::invalid_argument>({"offsets[2] is 3", "4 to 10"},
                                       match_many({0, 4, 3}, one));
  ExpectRefused<std::invalid_argument>({"offsets[1] is 11", "0 to 10"},
                                       match_many({0, 11}, one));
  ExpectRefused<std::invalid_argument>({"2 namespaces for 3 requests"},
                                       match_many({0, 1, 2, 3}, two));
}

TEST_F(PrefixCacheTest, EventsTellWhatIsStoredAndRemoved) {
  const Ids a = InsertFresh({1, 1, 2, 2});
  const Ids b = InsertFresh({1, 1, 3, 3});
  EXPECT_EQ(cache.Evict(1), 1);
  CacheEvents events = cache.Events();
  EXPECT_EQ(events.block_ids, (Ids{a[0], a[1], b[1], a[1]}));
  EXPECT_EQ(events.parent_ids, (Ids{-1, a[0], a[0], -1}));
  EXPECT_EQ(events.is_stored, (std::vector<std::uint8_t>{1, 1, 1, 0}));
  cache.Reset();
  events = cache.Events();
  EXPECT_EQ(events.block_ids, (Ids{b[1], a[0]}));
  EXPECT_TRUE(cache.Events().block_ids.empty());
}

TEST_F(PrefixCacheTest, PrioritiesBeyondInt32AreRefused) {
  const Ids ids = *pool->Allocate(1);
  const std::int64_t over = std::int64_t{1} << 31;
  for (const std::int64_t bad : {over, -over - 1}) {
    ExpectRefused<std::invalid_argument>(
        {std::to_string(bad), "-2147483648 to 2147483647"},
        [&] { cache.Insert(Tokens{1, 2}, ids, "", bad); });
  }
  cache.Insert(Tokens{1, 2}, ids, "", over - 1);
  cache.Insert(Tokens{1, 2}, ids, "", -over);
}

// The priority of a path is the highest that any of its inserts gave it.
TEST_F(PrefixCacheTest, PriorityDecidesWhatIsKept) {
  PrefixCache cache(pool,
                    {.block_size = 1, .policy = EvictionPolicy::kPriority});
  const Ids ids = *pool->Allocate(3);
  cache.Insert(Tokens{1}, Ids{ids[0]}, "", 5);
  cache.Insert(Tokens{2}, Ids{ids[1]}, "", -5);
  cache.Insert(Tokens{3}, Ids{ids[2]}, "", 0);
  cache.Insert(Tokens{2}, Ids{ids[1]}, "", 9);
  cache.Insert(Tokens{1}, Ids{ids[0]}, "", -9);
  pool->ReleaseArray(ids);
  cache.Match(Tokens{3});
  Ids order;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.Evict(1), 1);
    order.push_back((*pool->Allocate(1))[0]);
  }
  EXPECT_EQ(order, (Ids{ids[2], ids[0], ids[1]}));
}

TEST_F(PrefixCacheTest, ALookupSplitsNothing) {
  InsertFresh({1, 1, 2, 2, 3, 3, 4, 4});
  Found(Tokens{1, 1});
  Found(Tokens{1, 1, 2, 2, 9, 9});
  EXPECT_EQ(cache.stats().num_nodes, 1);
  InsertFresh({1, 1, 2, 2});
  EXPECT_EQ(cache.stats().num_nodes, 1);
  InsertFresh({1, 1, 2, 2, 9, 9});
  EXPECT_EQ(cache.stats().num_nodes, 3);
}

// What a second thread writes to the arrays during an Insert is an error, or
// comes too early or too late to matter; it is never half of each.
TEST_F(PrefixCacheTest, ArraysThatChangeDuringAnInsertAreRefused) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the race that the thread sanitizer reports is the test";
#endif
  constexpr std::int32_t kMany = 1 << 19;
  const auto pool = std::make_shared<BlockPool>(kMany);
  PrefixCache cache(pool, {.block_size = 1, .max_events = 0});
  const Ids ids = *pool->Allocate(kMany);
  Tokens tokens(kMany);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    // Through std::atomic_ref: the race is what is tested, not undefined.
    for (std::int32_t i = 0; !done; ++i) {
      std::atomic_ref(tokens[kMany - 1]).store(i, std::memory_order_relaxed);
    }
  });
  int num_refused = 0;
  for (int round = 0; round < 10000 && num_refused < 3; ++round) {
    const BlockPoolStats before = pool->stats();
    try {
      cache.Insert(tokens, ids);
      EXPECT_EQ(cache.stats().num_cached_blocks, kMany);
      cache.Reset();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(),
                   "tokens changed while insert read them; give an array that "
                   "nobody writes to during the call");
      EXPECT_EQ(cache.stats().num_cached_blocks, 0);
      EXPECT_EQ(pool->stats(), before);
      ++num_refused;
    }
    cache.Check();
  }
  done = true;
  writer.join();
  EXPECT_EQ(num_refused, 3);
}

TEST_F(PrefixCacheTest, BadCountsAreRefused) {
  InsertFresh({1, 1});
  ExpectRefused<std::invalid_argument>({"-1"}, [&] { cache.Allocate(-1); });
  ExpectRefused<std::invalid_argument>(
      {"2147483648"}, [&] { cache.Allocate(std::int64_t{1} << 31); });
  ExpectRefused<std::invalid_argument>({"-1"}, [&] { cache.Evict(-1); });
}

}  // namespace
}  // namespace servecore::kv
