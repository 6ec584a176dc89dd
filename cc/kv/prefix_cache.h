// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_PREFIX_CACHE_H_
#define SERVECORE_CC_KV_PREFIX_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/mutex.h"
#include "cc/base/shared_mutex.h"
#include "cc/kv/block_pool.h"
#include "cc/kv/block_set.h"
#include "cc/kv/event_log.h"
#include "cc/kv/eviction_heap.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/id_run.h"
#include "cc/kv/named_blocks.h"
#include "cc/kv/prefix_match.h"
#include "cc/kv/prefix_tree.h"

namespace servecore::kv {

struct PrefixCacheOptions {
  std::int64_t block_size = 0;  // tokens a block: 1 .. 2^31 - 1
  EvictionPolicy policy = EvictionPolicy::kLru;
  std::int64_t max_events = std::int64_t{1} << 20;  // 0 or more may wait
};

// A snapshot. The first three are levels, the others grow for ever.
struct PrefixCacheStats {
  std::int64_t num_cached_blocks = 0;
  std::int64_t num_nodes = 0;       // runs of blocks without a branch
  std::int64_t num_namespaces = 0;  // those that hold a block now
  std::int64_t queries = 0;         // lookups
  std::int64_t query_tokens = 0;    // tokens looked up, tails included
  std::int64_t hit_tokens = 0;      // tokens found
  std::int64_t inserted_blocks = 0;
  std::int64_t duplicate_blocks = 0;  // reported in InsertResult::duplicates
  std::int64_t evicted_blocks = 0;
  std::int64_t dropped_blocks = 0;  // by Reset

  friend bool operator==(const PrefixCacheStats&,
                         const PrefixCacheStats&) = default;
};

struct InsertResult {
  // Tokens that the cache did not hold before: block_size for each block kept.
  std::int64_t num_new_tokens = 0;
  // The caller's blocks whose place another block already held, in the order
  // given. The cache keeps no reference on them; the caller may drop them.
  std::vector<std::int32_t> duplicates;
};

// Which block of a pool holds the keys and values of which token prefix.
//
// Tokens count in whole blocks of block_size; what is left over at the end of
// a sequence is never cached. A block is found under its tokens, those of
// every block before it, and a namespace (an adapter, a tenant's salt): equal
// tokens in two namespaces are strangers. Tokens are any int32 or int64 value,
// and int32 and int64 input of equal values means the same. They are compared,
// not only hashed: a collision costs time and never gives a wrong block.
//
// The order of eviction. A block is evicted when no cached block continues it
// and nobody but this cache holds it; of those the one with the least key of
// the policy (eviction_policy.h) goes first. The values that keys are made of
// are kept for each block: a lookup is a use of exactly the blocks it finds, an
// insert one of every block of its path, at one tick of a clock. Whether
// somebody else holds a block is asked of the pool at that moment and in the
// same transaction that frees it: it is held when it has any reference beside
// the cache's own, be it a match's, another cache's, or a loose one from
// BlockPool::Allocate or Retain.
//
// The shape. A compressed tree (prefix_tree.h) whose nodes are runs of blocks:
// a lookup compares arrays at the speed of memory, and what is done for each
// node is done a few times, not once a block. Leaves wait in a heap under keys
// that may be out of date (eviction_heap.h), so a lookup writes the time into
// the nodes it went through and reorders nothing. A leaf that comes to the top
// while it is held is parked, and one look at its last block decides in each
// later eviction whether it is still held; so held blocks are not passed over
// again and again.
//
// Costs, of n blocks: Match and Insert O(tokens), the pool's O(1) for each
// block found or new, and O(1) expected a node; Allocate and Evict O(1) a block
// evicted, O(log leaves) a run of it, and O(1) a parked leaf; an Allocate that
// cannot be met is mostly told from the pool's count of idle blocks, O(1).
//
// Errors, after each of which nothing has changed:
//   std::invalid_argument  a negative count; fewer block ids than whole blocks;
//                          a block named twice, or already cached at another
//                          place; a priority beyond int32
//   std::out_of_range      a block id outside the pool
//   std::logic_error       inserting a block that is free in the pool
//   std::runtime_error     tokens or block ids that changed during the Insert
//
// Ownership: the cache holds one guarded reference on each block it keeps and
//   shares ownership of the pool, which the engine and live matches own too.
//   Its destructor gives its references back.
// Copies: new tokens are copied into the cache.
// GIL: unknown here; a binding gives it up around a call, or when the call has
//   to wait (cc/base/mutex.h).
// Thread safety: every member may be called from any thread. Locks are taken in
//   this order, and none is waited for by whoever holds a later one:
//     1. the tree's, shared by lookups, exclusive for everything that changes
//        which blocks are cached;
//     2. that of the uses, for as long as a lookup writes them;
//     3. the pool's.
//   Lookups of one cache compare side by side and take turns only to write down
//   what they used.
class PrefixCache {
 public:
  // Throws std::invalid_argument for a null pool, or a block size or number of
  // events out of range.
  PrefixCache(std::shared_ptr<BlockPool> pool, PrefixCacheOptions options);

  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache();

  // The longest cached prefix of `tokens` in whole blocks; empty when there is
  // none. Its blocks are used, and held until the match lets them go.
  PrefixMatch Match(const IntSpan& tokens, std::string_view ns = {});

  // Match for each i with tokens[offsets[i] .. offsets[i + 1] - 1] under
  // namespaces[i], or under namespaces[0] where there is only one. Throws
  // std::invalid_argument unless the offsets rise from 0 or more to
  // Size(tokens) or less, and for a wrong number of namespaces.
  std::vector<PrefixMatch> MatchMany(
      const IntSpan& tokens, const IntSpan& offsets,
      std::span<const std::string_view> namespaces);

  // Caches block_ids[i] under the i-th whole block of `tokens`. Where the cache
  // has a block already it keeps that one and reports the caller's, unless it
  // is the same. Tokens after the last whole block and ids after the last one
  // needed are not read. The caller's references stay the caller's.
  //
  // `priority` is for kPriority, which keeps the highest for longest.
  InsertResult Insert(const IntSpan& tokens, const IntSpan& block_ids,
                      std::string_view ns = {}, std::int64_t priority = 0);

  // n blocks of the pool with one loose reference each, after evicting as many
  // as the pool lacks. Nothing, and no eviction, when even that is not enough.
  std::optional<std::vector<std::int32_t>> Allocate(std::int64_t n);

  // Evicts up to n blocks and gives the number of those evicted, each of which
  // is free in the pool then.
  std::int64_t Evict(std::int64_t n);

  // Forgets every block, held or not. Those that nobody else holds are free in
  // the pool then, and the lowest of them is the first to be given again;
  // matches keep theirs. The counters of stats() go on.
  void Reset();

  // What happened since the last call: blocks stored by Insert and removed by
  // Allocate, Evict and Reset, in order.
  CacheEvents Events();

  std::int64_t block_size() const { return options_.block_size; }
  EvictionPolicy policy() const { return options_.policy; }
  const std::shared_ptr<BlockPool>& pool() const { return pool_; }
  PrefixCacheStats stats() const;

  // Verifies every invariant of the tree, the table, the runs, the order of
  // eviction and the references, in O(cached tokens). Throws std::logic_error
  // that names the broken one. The pool is looked at, not checked.
  void Check() const;

 private:
  friend class PrefixCacheTestPeer;

  // Blocks that are about to go, and how to undo that.
  struct Plan {
    std::vector<std::int32_t> victims;
    std::vector<PrefixTree::Shrunk> shrunk;
  };

  // All of the following want tree_mutex_ held, exclusively unless const.

  void FindDuplicates(const PrefixTree::Path& path,
                      std::span<const std::int32_t> ids, NamedBlocks& named);
  void RetainInPool(std::span<const std::int32_t> ids,
                    std::span<const IdRun> new_runs,
                    std::span<const std::int32_t> duplicates);

  EvictionKey KeyOfNode(std::int32_t node) const;
  void PushLeaf(std::int32_t node) noexcept;
  void Unpark(const BlockPool::Transaction& transaction) noexcept;
  void PlanFor(const BlockPool::Transaction& transaction, std::int64_t n,
               Plan& plan);
  void Undo(const Plan& plan) noexcept;
  void Finish(BlockPool::Transaction& transaction, const Plan& plan) noexcept;

  void CheckBlocks() const;
  void CheckQueue() const;

  const std::shared_ptr<BlockPool> pool_;
  const PrefixCacheOptions options_;

  mutable SharedMutex tree_mutex_;
  PrefixTree tree_;
  BlockSet cached_;
  BlockSet named_;  // of a running Insert; empty but for that
  EvictionHeap heap_;
  std::vector<std::int32_t> parked_;
  EventLog events_;

  // Guards what lookups write: the uses in the tree, the clock and the numbers
  // of queries. Whoever has tree_mutex_ exclusively does without.
  mutable Mutex use_mutex_;
  std::uint64_t clock_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_PREFIX_CACHE_H_
