// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/event_log.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/prefix_cache.h"
#include "cc/kv/prefix_match.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int64_t>;

constexpr std::int32_t kBlocks = 24;
constexpr std::size_t kBlockSize = 2;

// Prefix caching as one would write it without a thought for speed: each cached
// prefix is written out in full, and every question looks at all of them.
class ModelCache {
 public:
  struct Entry {
    std::int32_t block = 0;
    std::int64_t hits = 0;
    std::int64_t last_use = 0;
    std::int64_t inserted = 0;
    std::int64_t priority = std::numeric_limits<std::int64_t>::min();
  };
  using Key = std::pair<std::string, Tokens>;

  explicit ModelCache(EvictionPolicy policy) : policy_(policy) {}

  Ids Match(const Tokens& tokens, const std::string& ns) {
    Ids blocks;
    for (std::size_t n = kBlockSize; n <= tokens.size(); n += kBlockSize) {
      const auto found = entries_.find(Prefix(tokens, ns, n));
      if (found == entries_.end()) break;
      blocks.push_back(found->second.block);
    }
    ++clock_;
    for (std::size_t i = 1; i <= blocks.size(); ++i) {
      Entry& entry = entries_.at(Prefix(tokens, ns, i * kBlockSize));
      ++entry.hits;
      entry.last_use = clock_;
    }
    return blocks;
  }

  // Whether all went well; otherwise nothing has changed.
  bool Insert(const Tokens& tokens, const std::string& ns, const Ids& ids,
              std::int64_t priority, const Ids& refs, Ids* kept,
              Ids* duplicates) {
    const std::size_t n = tokens.size() / kBlockSize;
    if (ids.size() < n) return false;
    const std::set<std::int32_t> cached = Blocks();
    std::set<std::int32_t> named;
    for (std::size_t i = 0; i < n; ++i) {
      if (ids[i] < 0 || ids[i] >= kBlocks) return false;
      if (refs[static_cast<std::size_t>(ids[i])] == 0) return false;
      if (!named.insert(ids[i]).second) return false;
      const auto found =
          entries_.find(Prefix(tokens, ns, (i + 1) * kBlockSize));
      const bool in_place =
          found != entries_.end() && found->second.block == ids[i];
      if (!in_place && cached.contains(ids[i])) return false;
    }
    ++clock_;
    for (std::size_t i = 0; i < n; ++i) {
      const auto [found, is_new] =
          entries_.try_emplace(Prefix(tokens, ns, (i + 1) * kBlockSize));
      Entry& entry = found->second;
      if (is_new) {
        entry.block = ids[i];
        entry.inserted = clock_;
        kept->push_back(ids[i]);
      } else if (entry.block != ids[i]) {
        duplicates->push_back(ids[i]);
      }
      entry.last_use = clock_;
      entry.priority = std::max(entry.priority, priority);
    }
    return true;
  }

  // Up to n blocks in the order in which they go.
  Ids Evict(std::int64_t n, const Ids& refs) {
    Ids victims;
    while (static_cast<std::int64_t>(victims.size()) < n) {
      auto victim = entries_.end();
      for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (refs[static_cast<std::size_t>(entry->second.block)] > 1) continue;
        if (HasChild(entry->first)) continue;
        if (victim == entries_.end() ||
            Rank(entry->second) < Rank(victim->second)) {
          victim = entry;
        }
      }
      if (victim == entries_.end()) break;
      victims.push_back(victim->second.block);
      entries_.erase(victim);
    }
    return victims;
  }

  std::set<std::int32_t> Blocks() const {
    std::set<std::int32_t> blocks;
    for (const auto& [key, entry] : entries_) blocks.insert(entry.block);
    return blocks;
  }

  std::int64_t NumNamespaces() const {
    std::set<std::string> names;
    for (const auto& [key, entry] : entries_) names.insert(key.first);
    return static_cast<std::int64_t>(names.size());
  }

  void Reset() { entries_.clear(); }

 private:
  std::pair<std::int64_t, std::int64_t> Rank(const Entry& entry) const {
    switch (policy_) {
      case EvictionPolicy::kLru:
        return {0, entry.last_use};
      case EvictionPolicy::kLfu:
        return {entry.hits, entry.last_use};
      case EvictionPolicy::kSlru:
        return {entry.hits > 0, entry.last_use};
      case EvictionPolicy::kFifo:
        return {0, entry.inserted};
      case EvictionPolicy::kPriority:
        return {entry.priority, entry.last_use};
    }
    return {};
  }

  static Key Prefix(const Tokens& tokens, const std::string& ns,
                    std::size_t n) {
    return {ns, Tokens(tokens.begin(),
                       tokens.begin() + static_cast<std::ptrdiff_t>(n))};
  }

  bool HasChild(const Key& key) const {
    return std::ranges::any_of(entries_, [&](const auto& e) {
      const Key& other = e.first;
      return other.first == key.first &&
             other.second.size() == key.second.size() + kBlockSize &&
             std::equal(key.second.begin(), key.second.end(),
                        other.second.begin());
    });
  }

  EvictionPolicy policy_;
  std::map<Key, Entry> entries_;
  std::int64_t clock_ = 0;
};

// Runs random operations on a cache and the model side by side.
class Comparison {
 public:
  Comparison(EvictionPolicy policy, std::uint32_t seed)
      : random_(seed),
        cache_(pool_, {.block_size = kBlockSize, .policy = policy}),
        model_(policy) {}

  void Step() {
    switch (Pick(0, 9)) {
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
        Allocate();
        break;
      case 7:
        ReleaseSomething();
        break;
      case 8:
        Evict();
        break;
      default:
        if (Pick(0, 20) == 0) Reset();
    }
    CompareAll();
  }

  int num_refused() const { return num_refused_; }
  int num_unmet() const { return num_unmet_; }
  std::int64_t num_evicted() const { return cache_.stats().evicted_blocks; }

 private:
  int Pick(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }

  // Few values, so that prefixes meet; one of them does not fit 32 bits and
  // equals another in its low half.
  Tokens RandomTokens() {
    Tokens tokens(static_cast<std::size_t>(Pick(0, 9)));
    for (std::int64_t& token : tokens) {
      const int choice = Pick(0, 9);
      token = choice == 9 ? (std::int64_t{1} << 32) + 1 : choice % 2;
    }
    return tokens;
  }

  std::string_view RandomNamespace() { return Pick(0, 3) == 0 ? "tenant" : ""; }

  Ids Refs() const {
    Ids refs;
    for (std::int32_t i = 0; i < kBlocks; ++i) {
      refs.push_back(pool_->RefCount(i));
    }
    return refs;
  }

  void Match() {
    const Tokens tokens = RandomTokens();
    const std::string ns(RandomNamespace());
    const Ids expected = model_.Match(tokens, ns);
    const bool narrow =
        std::ranges::all_of(tokens, [](std::int64_t t) { return t < 2; });
    PrefixMatch match =
        narrow && Pick(0, 1) == 0
            ? cache_.Match(Ids(tokens.begin(), tokens.end()), ns)
            : cache_.Match(tokens, ns);
    ASSERT_EQ(match.block_ids(), expected);
    ASSERT_EQ(match.num_tokens(),
              static_cast<std::int64_t>(expected.size() * kBlockSize));
    if (Pick(0, 1) == 0) matches_.push_back(std::move(match));
  }

  // A request as it should be, or one that goes wrong in some way.
  void Insert() {
    const Tokens tokens = RandomTokens();
    const std::string ns(RandomNamespace());
    Ids ids;
    if (Pick(0, 1) == 0) ids = cache_.Match(tokens, ns).block_ids();
    if (!ids.empty()) model_.Match(tokens, ns);
    while (ids.size() < tokens.size() / kBlockSize) {
      if (Pick(0, 19) == 0) {
        ids.push_back(Pick(-1, kBlocks));
        continue;
      }
      const std::optional<Ids> fresh = pool_->Allocate(1);
      if (!fresh.has_value()) break;
      loose_.push_back(fresh->front());
      ids.push_back(fresh->front());
    }

    Ids kept;
    Ids duplicates;
    const Ids refs = Refs();
    const int priority = Pick(-2, 2);
    const bool expected =
        model_.Insert(tokens, ns, ids, priority, refs, &kept, &duplicates);
    const PrefixCacheStats before = cache_.stats();
    try {
      const InsertResult result = cache_.Insert(tokens, ids, ns, priority);
      ASSERT_TRUE(expected);
      ASSERT_EQ(result.num_new_tokens,
                static_cast<std::int64_t>(kept.size() * kBlockSize));
      ASSERT_EQ(result.duplicates, duplicates);
      Ids expected_refs = refs;
      for (const std::int32_t id : kept) {
        ++expected_refs[static_cast<std::size_t>(id)];
      }
      ASSERT_EQ(Refs(), expected_refs);
    } catch (const std::exception& error) {
      ASSERT_FALSE(expected) << error.what();
      ASSERT_EQ(Refs(), refs);
      ASSERT_EQ(cache_.stats(), before);
      ++num_refused_;
    }
  }

  void Allocate() {
    const int n = Pick(0, 8);
    const Ids refs = Refs();
    const auto num_free =
        static_cast<int>(std::count(refs.begin(), refs.end(), 0));
    const int num_missing = std::max(0, n - num_free);
    ModelCache evicted = model_;
    const Ids victims = evicted.Evict(num_missing, refs);
    const std::optional<Ids> blocks = cache_.Allocate(n);
    if (static_cast<int>(victims.size()) < num_missing) {
      ASSERT_EQ(blocks, std::nullopt);
      ASSERT_EQ(Refs(), refs);
      ++num_unmet_;
      return;
    }
    model_ = evicted;
    ASSERT_TRUE(blocks.has_value());
    ASSERT_EQ(static_cast<int>(blocks->size()), n);
    // The last to be evicted is the first to be reused.
    for (std::size_t i = 0; i < victims.size(); ++i) {
      ASSERT_EQ((*blocks)[i], victims[victims.size() - 1 - i]);
    }
    loose_.insert(loose_.end(), blocks->begin(), blocks->end());
  }

  void Evict() {
    const int n = Pick(0, 4);
    const Ids victims = model_.Evict(n, Refs());
    ASSERT_EQ(cache_.Evict(n), static_cast<std::int64_t>(victims.size()));
  }

  void ReleaseSomething() {
    for (int i = 0; i < 8; ++i) {
      if (!loose_.empty() && Pick(0, 1) == 0) {
        std::swap(loose_[static_cast<std::size_t>(
                      Pick(0, static_cast<int>(loose_.size()) - 1))],
                  loose_.back());
        pool_->Release(loose_.back());
        loose_.pop_back();
      }
      if (!matches_.empty() && Pick(0, 1) == 0) {
        std::swap(matches_[static_cast<std::size_t>(
                      Pick(0, static_cast<int>(matches_.size()) - 1))],
                  matches_.back());
        matches_.pop_back();
      }
    }
  }

  void Reset() {
    cache_.Reset();
    model_.Reset();
  }

  void CompareAll() {
    const std::set<std::int32_t> blocks = model_.Blocks();
    const PrefixCacheStats stats = cache_.stats();
    const CacheEvents events = cache_.Events();
    for (std::size_t i = 0; i < events.block_ids.size(); ++i) {
      if (events.is_stored[i] != 0) {
        ASSERT_TRUE(told_.insert(events.block_ids[i]).second);
        ASSERT_TRUE(events.parent_ids[i] == -1 ||
                    told_.contains(events.parent_ids[i]));
      } else {
        ASSERT_EQ(told_.erase(events.block_ids[i]), 1U);
      }
    }
    ASSERT_EQ(events.num_lost, 0);
    ASSERT_EQ(told_, blocks);
    ASSERT_EQ(stats.num_cached_blocks,
              static_cast<std::int64_t>(blocks.size()));
    ASSERT_EQ(stats.num_namespaces, model_.NumNamespaces());
    // Every reference has an owner.
    Ids expected(kBlocks);
    for (const std::int32_t id : blocks) {
      ++expected[static_cast<std::size_t>(id)];
    }
    for (const std::int32_t id : loose_) {
      ++expected[static_cast<std::size_t>(id)];
    }
    for (const PrefixMatch& match : matches_) {
      for (const std::int32_t id : match.block_ids()) {
        ++expected[static_cast<std::size_t>(id)];
      }
    }
    ASSERT_EQ(Refs(), expected);
    cache_.Check();
    pool_->Check();
  }

  std::mt19937 random_;
  const std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>(kBlocks);
  PrefixCache cache_;
  ModelCache model_;
  std::set<std::int32_t> told_;  // blocks cached according to the events
  Ids loose_;
  std::vector<PrefixMatch> matches_;
  int num_refused_ = 0;
  int num_unmet_ = 0;
};

class PrefixCacheModelTest : public testing::TestWithParam<EvictionPolicy> {};

TEST_P(PrefixCacheModelTest, RandomOperationsDoWhatTheModelDoes) {
  int num_refused = 0;
  int num_unmet = 0;
  std::int64_t num_evicted = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Comparison comparison(GetParam(), seed);
    for (int step = 0; step < 500; ++step) {
      comparison.Step();
      if (HasFatalFailure()) return;
    }
    num_refused += comparison.num_refused();
    num_unmet += comparison.num_unmet();
    num_evicted += comparison.num_evicted();
  }
  // Nothing is proved where nothing happened.
  EXPECT_GT(num_refused, 100);
  EXPECT_GT(num_unmet, 50);
  EXPECT_GT(num_evicted, 1000);
}

INSTANTIATE_TEST_SUITE_P(Policies, PrefixCacheModelTest,
                         testing::Values(EvictionPolicy::kLru,
                                         EvictionPolicy::kLfu,
                                         EvictionPolicy::kSlru,
                                         EvictionPolicy::kFifo,
                                         EvictionPolicy::kPriority),
                         [](const auto& info) {
                           return std::string(EvictionPolicyName(info.param));
                         });

}  // namespace
}  // namespace servecore::kv
