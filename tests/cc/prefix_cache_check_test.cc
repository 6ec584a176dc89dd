// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/block_set.h"
#include "cc/kv/eviction_heap.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/id_run.h"
#include "cc/kv/prefix_cache.h"
#include "cc/kv/prefix_tree.h"
#include "cc/kv/run_store.h"
#include "cc/kv/use_marks.h"

namespace servecore::kv {

class UseMarksTestPeer {
 public:
  static std::vector<UseMarks::Mark>& marks(UseMarks& marks) {
    return marks.marks_;
  }
  static std::int32_t& free(UseMarks& marks) { return marks.free_; }
};

class PrefixTreeTestPeer {
 public:
  using Mark = UseMarks::Mark;
  using Root = PrefixTree::Root;

  explicit PrefixTreeTestPeer(PrefixTree& tree)
      : nodes(tree.nodes_),
        marks(UseMarksTestPeer::marks(tree.marks_)),
        roots(tree.roots_),
        buckets(tree.buckets_),
        first_in_segment(tree.first_in_segment_),
        num_nodes(tree.num_nodes_),
        free_mark(UseMarksTestPeer::free(tree.marks_)),
        runs(tree.runs_) {}

  std::vector<PrefixTree::Node>& nodes;
  std::vector<Mark>& marks;
  std::vector<Root>& roots;
  std::vector<std::int32_t>& buckets;
  std::vector<std::int32_t>& first_in_segment;
  std::int64_t& num_nodes;
  std::int32_t& free_mark;
  RunStore& runs;
};

// Breaks a cache in one place, so that Check can be seen to notice, and mends
// it at the end, so that it can be destroyed.
class PrefixCacheTestPeer {
 public:
  explicit PrefixCacheTestPeer(PrefixCache& cache)
      : tree(cache.tree_),
        cached(cache.cached_),
        heap(cache.heap_),
        parked(cache.parked_),
        stats(cache.stats_),
        cache_(cache),
        saved_nodes_(tree.nodes),
        saved_marks_(tree.marks),
        saved_roots_(tree.roots),
        saved_buckets_(tree.buckets),
        saved_first_in_segment_(tree.first_in_segment),
        saved_num_nodes_(tree.num_nodes),
        saved_free_mark_(tree.free_mark),
        saved_cached_(cached),
        saved_heap_(heap),
        saved_parked_(parked),
        saved_stats_(stats) {}
  PrefixCacheTestPeer(const PrefixCacheTestPeer&) = delete;
  PrefixCacheTestPeer& operator=(const PrefixCacheTestPeer&) = delete;
  ~PrefixCacheTestPeer() {
    tree.nodes = saved_nodes_;
    tree.marks = saved_marks_;
    tree.roots = saved_roots_;
    tree.buckets = saved_buckets_;
    tree.first_in_segment = saved_first_in_segment_;
    tree.num_nodes = saved_num_nodes_;
    tree.free_mark = saved_free_mark_;
    cached = saved_cached_;
    heap = saved_heap_;
    parked = saved_parked_;
    stats = saved_stats_;
  }

  PrefixTree::Node& node(std::size_t i) { return tree.nodes[i]; }
  std::int32_t& id_of(std::size_t i) {
    return tree.runs.words(node(i).segment)[node(i).first_id];
  }
  std::int32_t& token_of(std::size_t i) {
    return tree.runs.words(node(i).segment)[node(i).tokens_at];
  }
  void AddEmptyNamespace() { cache_.tree_.FindOrAddRoot("empty"); }
  void RemoveEmptyNamespace() {
    cache_.tree_.DropRootIfEmpty(cache_.tree_.FindRoot("empty"));
  }

  PrefixTreeTestPeer tree;
  BlockSet& cached;
  EvictionHeap& heap;
  std::vector<std::int32_t>& parked;
  PrefixCacheStats& stats;

 private:
  PrefixCache& cache_;
  const std::vector<PrefixTree::Node> saved_nodes_;
  const std::vector<PrefixTreeTestPeer::Mark> saved_marks_;
  const std::vector<PrefixTreeTestPeer::Root> saved_roots_;
  const std::vector<std::int32_t> saved_buckets_;
  const std::vector<std::int32_t> saved_first_in_segment_;
  const std::int64_t saved_num_nodes_;
  const std::int32_t saved_free_mark_;
  const BlockSet saved_cached_;
  const EvictionHeap saved_heap_;
  const std::vector<std::int32_t> saved_parked_;
  const PrefixCacheStats saved_stats_;
};

namespace {

using Ids = std::vector<std::int32_t>;

std::array<IdRun, 1> One(const Ids& ids) { return {IdRun(ids)}; }
using Tokens = std::vector<std::int32_t>;

// The number of the second node: the tree had made three places before.
constexpr std::int32_t kLeaf = 3;

// A cache of node 0 with the blocks 0 and 1, a mark at the end of block 0, and
// kLeaf with block 2 behind it.
class PrefixCacheCheckTest : public testing::Test {
 protected:
  PrefixCacheCheckTest() {
    cache.Insert(Tokens{1, 1, 2, 2}, *pool->Allocate(2));
    cache.Insert(Tokens{1, 1, 2, 2, 3, 3}, Ids{0, 1, (*pool->Allocate(1))[0]});
    cache.Match(Tokens{1, 1});
    cache.Check();
  }

  void ExpectNoticed(const std::string& words) {
    try {
      cache.Check();
      ADD_FAILURE() << "Check did not notice: " << words;
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << "no '" << words << "' in: " << error.what();
    }
  }

  std::shared_ptr<BlockPool> pool = std::make_shared<BlockPool>(5);
  PrefixCache cache{pool, {.block_size = 2, .policy = EvictionPolicy::kLfu}};
};

TEST_F(PrefixCacheCheckTest, NoticesEveryBreak) {
  using Peer = PrefixCacheTestPeer;
  using Break = void (*)(Peer&);
  const std::vector<std::pair<std::string, Break>> breaks = {
      {"node 3 belongs to no namespace",
       [](Peer& p) { p.node(kLeaf).parent = -9; }},
      {"continues node 2, which does not exist",
       [](Peer& p) { p.node(kLeaf).parent = 2; }},
      {"node 3 was used later",
       [](Peer& p) { p.node(kLeaf).use.last_use = 99; }},
      {"node 3 was used later", [](Peer& p) { p.node(kLeaf).use.hits = 99; }},
      {"node 3 was used later",
       [](Peer& p) { p.node(kLeaf).use.priority = 99; }},
      {"has a mark at 2", [](Peer& p) { p.tree.marks[0].end = 2; }},
      {"has a mark at 0", [](Peer& p) { p.tree.marks[0].end = 0; }},
      {"1 marks are in use and 1 free", [](Peer& p) { p.tree.free_mark = 0; }},
      {"node 0 is not found under its tokens",
       [](Peer& p) { p.token_of(0) = 7; }},
      {"node 0 is not found", [](Peer& p) { p.node(0).hash ^= 1; }},
      {"node 0 is not found",
       [](Peer& p) { std::ranges::fill(p.tree.buckets, -1); }},
      {"node 0 counts 2 children", [](Peer& p) { ++p.node(0).num_children; }},
      {"namespace '' counts 2 children",
       [](Peer& p) { ++p.tree.roots[0].num_children; }},
      {"namespace 'x'", [](Peer& p) { p.tree.roots[0].name = "x"; }},
      {"num_nodes is 3", [](Peer& p) { ++p.tree.num_nodes; }},
      {"the list of segment 0 is broken",
       [](Peer& p) { p.node(0).previous_in_segment = 7; }},
      {"have 1 nodes of 2",
       [](Peer& p) {
         p.tree.first_in_segment[0] = 0;
         p.node(0).previous_in_segment = -1;
       }},
      {"num_cached_blocks is 4", [](Peer& p) { ++p.stats.num_cached_blocks; }},
      {"block 1 is in node 0 and not known",
       [](Peer& p) { p.cached.Remove(IdRun(Ids{1})); }},
      {"block 3 is known as cached and not in the tree",
       [](Peer& p) { EXPECT_EQ(p.cached.AddNew(IdRun(Ids{3})), 1U); }},
      {"does not wait for eviction", [](Peer& p) { p.heap.Clear(); }},
      {"node 3 waits for eviction twice",
       [](Peer& p) { p.parked.push_back(kLeaf); }},
      {"node 2 waits for eviction twice or does not exist",
       [](Peer& p) { p.parked.push_back(2); }},
      {"node 3 waits under a key over its own",
       [](Peer& p) {
         while (!p.heap.empty()) p.heap.Pop();
         p.heap.Push({.rank = 99, .time = 0}, kLeaf);
       }},
      {"4 were inserted", [](Peer& p) { ++p.stats.inserted_blocks; }},
      {"hit_tokens is 9", [](Peer& p) { p.stats.hit_tokens = 9; }},
  };
  for (const auto& [words, do_break] : breaks) {
    SCOPED_TRACE(words);
    {
      PrefixCacheTestPeer peer(cache);
      const std::int32_t token = peer.token_of(0);
      do_break(peer);
      ExpectNoticed(words);
      PrefixCacheTestPeer(cache).token_of(0) = token;
    }
    cache.Check();
  }
}

TEST_F(PrefixCacheCheckTest, NoticesABlockAtTwoPlaces) {
  PrefixCacheTestPeer peer(cache);
  const std::int32_t id = std::exchange(peer.id_of(kLeaf), 0);
  ExpectNoticed("block 0 is in the tree twice");
  peer.id_of(kLeaf) = id;
}

TEST_F(PrefixCacheCheckTest, NoticesAnEmptyNamespace) {
  PrefixCacheTestPeer peer(cache);
  peer.AddEmptyNamespace();
  ExpectNoticed("2 namespaces exist");
  peer.RemoveEmptyNamespace();
}

TEST_F(PrefixCacheCheckTest, NoticesWordsThatNobodyUses) {
  PrefixCacheTestPeer peer(cache);
  peer.tree.runs.Add(3);
  ExpectNoticed("segment 0 counts 12 words in use and has 9");
  peer.tree.runs.Drop(0, 3);
  cache.Check();
}

TEST_F(PrefixCacheCheckTest, NoticesABlockThatIsFreeInThePool) {
  pool->ReleaseArray(Ids{0, 1, 2});
  BlockPool::Transaction(*pool).ReleaseCached(IdRun(Ids{2}));
  ExpectNoticed("block 2 is cached and free");
  ASSERT_EQ(pool->Allocate(1), Ids{2});
  BlockPool::Transaction(*pool).RetainCached(One(Ids{2}));
  cache.Check();
}

}  // namespace
}  // namespace servecore::kv
