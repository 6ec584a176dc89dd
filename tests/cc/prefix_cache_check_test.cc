// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/prefix_cache.h"

namespace servecore::kv {

// Breaks a cache in one place, so that Check can be seen to notice, and mends
// it at the end, so that it can be destroyed.
class PrefixCacheTestPeer {
 public:
  explicit PrefixCacheTestPeer(PrefixCache& cache)
      : cache_(cache),
        nodes_(cache.nodes_),
        buckets_(cache.buckets_),
        roots_(cache.roots_),
        root_of_namespace_(cache.root_of_namespace_),
        stats_(cache.stats_),
        oldest_(cache.oldest_),
        newest_(cache.newest_) {}
  PrefixCacheTestPeer(const PrefixCacheTestPeer&) = delete;
  PrefixCacheTestPeer& operator=(const PrefixCacheTestPeer&) = delete;
  ~PrefixCacheTestPeer() {
    cache_.nodes_ = nodes_;
    cache_.buckets_ = buckets_;
    cache_.roots_ = roots_;
    cache_.root_of_namespace_ = root_of_namespace_;
    cache_.stats_ = stats_;
    cache_.oldest_ = oldest_;
    cache_.newest_ = newest_;
  }

  PrefixCache::Node& node(std::size_t block) { return cache_.nodes_[block]; }
  PrefixCache::Root& root(std::size_t root) { return cache_.roots_[root]; }
  TokenStore& tokens() { return cache_.tokens_; }
  std::vector<std::int32_t>& buckets() { return cache_.buckets_; }
  std::int32_t& oldest() { return cache_.oldest_; }
  std::int32_t& newest() { return cache_.newest_; }
  PrefixCacheStats& stats() { return cache_.stats_; }
  void AddEmptyNamespace() { cache_.FindOrAddRoot("empty"); }

 private:
  PrefixCache& cache_;
  const std::vector<PrefixCache::Node> nodes_;
  const std::vector<std::int32_t> buckets_;
  const std::vector<PrefixCache::Root> roots_;
  const std::map<std::string, std::int32_t, std::less<>> root_of_namespace_;
  const PrefixCacheStats stats_;
  const std::int32_t oldest_;
  const std::int32_t newest_;
};

namespace {

using Ids = std::vector<std::int32_t>;
using Tokens = std::vector<std::int32_t>;

// Each entry breaks one thing in a cache of the chain 0, 1 and the block 2.
TEST(PrefixCacheCheckTest, NoticesEveryBreak) {
  using Break = void (*)(PrefixCacheTestPeer&);
  const std::vector<std::pair<std::string, Break>> breaks = {
      {"in the order of use and not cached",
       [](auto& p) { p.node(1).cached = false; }},
      {"order of use is broken", [](auto& p) { p.node(0).older = 2; }},
      {"order of use is broken", [](auto& p) { p.node(2).newer = 1; }},
      {"the newest is 0", [](auto& p) { p.newest() = 0; }},
      {"3 blocks are cached, 2 in the order of use",
       [](auto& p) {
         p.oldest() = p.node(1).newer;
         p.node(p.oldest()).older = -1;
       }},
      {"num_cached_blocks is 4",
       [](auto& p) { ++p.stats().num_cached_blocks; }},
      {"bucket", [](auto& p) { p.node(0).next_in_bucket = 0; }},
      {"the table has 0 blocks",
       [](auto& p) { std::fill(p.buckets().begin(), p.buckets().end(), -1); }},
      {"does not belong there", [](auto& p) { p.node(2).hash ^= 1; }},
      {"not found under its tokens",
       [](auto& p) {
         const Tokens tokens = {9, 9};
         p.tokens().Store(2, {.low = tokens.data()});
       }},
      {"belongs to no namespace", [](auto& p) { p.node(2).parent = -9; }},
      {"continues block 3, which is not cached",
       [](auto& p) { p.node(1).parent = 3; }},
      {"was used later", [](auto& p) { p.node(2).parent = 0; }},
      {"block 0 counts 2 children", [](auto& p) { ++p.node(0).num_children; }},
      {"namespace '' counts 3 children",
       [](auto& p) { ++p.root(0).num_children; }},
      {"namespace 'x'", [](auto& p) { p.root(0).name = "x"; }},
      {"2 namespaces exist", [](auto& p) { p.AddEmptyNamespace(); }},
      {"4 were inserted", [](auto& p) { ++p.stats().inserted_blocks; }},
      {"hit_tokens is 1", [](auto& p) { p.stats().hit_tokens = 1; }},
  };
  for (const auto& [words, do_break] : breaks) {
    const auto pool = std::make_shared<BlockPool>(5);
    PrefixCache cache(pool, {.block_size = 2});
    cache.Insert(Tokens{1, 1, 2, 2}, *pool->Allocate(2));
    cache.Insert(Tokens{3, 3}, *pool->Allocate(1));
    cache.Check();
    PrefixCacheTestPeer peer(cache);
    do_break(peer);
    try {
      cache.Check();
      ADD_FAILURE() << "Check did not notice: " << words;
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << "no '" << words << "' in: " << error.what();
    }
  }
}

TEST(PrefixCacheCheckTest, NoticesABlockThatIsFreeInThePool) {
  const auto pool = std::make_shared<BlockPool>(5);
  PrefixCache cache(pool, {.block_size = 1});
  const Ids ids = *pool->Allocate(1);
  cache.Insert(Tokens{1}, ids);
  pool->ReleaseArray(ids);
  BlockPool::Transaction(*pool).ReleaseGuarded(ids[0]);
  try {
    cache.Check();
    ADD_FAILURE() << "Check did not notice";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("block 0 is cached and free"),
              std::string::npos)
        << error.what();
  }
  ASSERT_EQ(pool->Allocate(1), ids);
  BlockPool::Transaction(*pool).RetainGuarded(ids[0]);
  cache.Check();
}

}  // namespace
}  // namespace servecore::kv
