// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_PREFIX_CACHE_H_
#define SERVECORE_CC_KV_PREFIX_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/mutex.h"
#include "cc/kv/block_pool.h"
#include "cc/kv/block_tokens.h"

namespace servecore::kv {

// Which cached block goes first when room is needed.
enum class EvictionPolicy {
  kLru,  // the least recently used leaf
};

// "lru" and back. EvictionPolicyFromName throws std::invalid_argument, naming
// the allowed names, for any other.
EvictionPolicy EvictionPolicyFromName(std::string_view name);
std::string_view EvictionPolicyName(EvictionPolicy policy);

struct PrefixCacheOptions {
  std::int64_t block_size = 0;  // tokens a block: 1 .. 2^31 - 1
  EvictionPolicy policy = EvictionPolicy::kLru;
};

// A snapshot. The first two are levels, the others grow for ever.
struct PrefixCacheStats {
  std::int64_t num_cached_blocks = 0;
  std::int64_t num_namespaces = 0;  // those that hold a block now
  std::int64_t queries = 0;         // calls of Match
  std::int64_t query_tokens = 0;    // tokens given to Match, tails included
  std::int64_t hit_tokens = 0;      // tokens that Match found
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

// The blocks that a lookup found, protected from eviction until this object
// lets them go.
//
// Ownership: it holds one guarded reference on each block and gives it back in
//   Release or the destructor. A caller who wants the blocks for longer retains
//   them in the pool before that.
// Lifetime: it may outlive its cache; it shares ownership of the pool.
// Thread safety: one thread at a time; different matches are independent.
class PrefixMatch {
 public:
  // An empty match that holds nothing.
  PrefixMatch() = default;
  PrefixMatch(PrefixMatch&& other) noexcept;
  PrefixMatch& operator=(PrefixMatch&& other) noexcept;
  PrefixMatch(const PrefixMatch&) = delete;
  PrefixMatch& operator=(const PrefixMatch&) = delete;
  ~PrefixMatch();

  // What was found. Both stay readable after Release, as a record: the blocks
  // may then be evicted and given to another at any time.
  std::int64_t num_tokens() const { return num_tokens_; }
  const std::vector<std::int32_t>& block_ids() const { return block_ids_; }

  // Whether the references are still held: from Match until Release or a move.
  bool held() const { return pool_ != nullptr; }

  // Gives the references back; the second call does nothing. O(blocks).
  void Release() noexcept;

 private:
  friend class PrefixCache;
  PrefixMatch(std::shared_ptr<BlockPool> pool, std::int64_t num_tokens,
              std::vector<std::int32_t> block_ids)
      : pool_(std::move(pool)),
        num_tokens_(num_tokens),
        block_ids_(std::move(block_ids)) {}

  std::shared_ptr<BlockPool> pool_;  // null once nothing is held
  std::int64_t num_tokens_ = 0;
  std::vector<std::int32_t> block_ids_;
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
// The order of eviction. Match touches the blocks it found and Insert every
// block of its path, both from the last block to the first, so that the first
// is the most recent of them. Hence a block has always been used later than
// the blocks that continue it, one list in order of use has leaves before
// their parents, and the next block to evict is the first in the list that
// nobody else holds and nothing continues. Whether somebody else holds it is
// asked of the pool at that moment and in the same transaction that frees it:
// a block counts as held when it has any reference beside the cache's own, be
// it a match's, or a loose one from BlockPool::Allocate or Retain.
//
// The shape. A block is cached at one place at most, so the tree's nodes live
// in an array by block id, their children in one hash table chained through
// the nodes, their order of use in a list linked through the nodes, and their
// tokens in slabs by block id: nothing is allocated a node, and nothing is
// recursive however long a chain grows.
//
// Costs: Match and Insert O(tokens), and O(1) expected lookups a block;
// Allocate and Evict O(1) a block evicted or passed over because it is held;
// an Allocate that gives nothing may pass over every cached block.
//
// Errors, after each of which nothing has changed:
//   std::invalid_argument  a negative count; fewer block ids than whole blocks;
//                          a block named twice, or already cached at another
//                          place
//   std::out_of_range      a block id outside the pool
//   std::logic_error       inserting a block that is free in the pool
//
// Ownership: the cache holds one guarded reference on each block it keeps and
//   shares ownership of the pool, which the engine and live matches own too.
//   Its destructor gives its references back.
// Copies: tokens are copied into the cache, each input array is read once.
// GIL: unknown here; a binding gives it up around a call, or when the call has
//   to wait (cc/base/mutex.h).
// Thread safety: every member may be called from any thread. One mutex guards
//   the cache; it is taken before the pool's and never after it.
class PrefixCache {
 public:
  // Throws std::invalid_argument for a null pool or a block size out of range.
  PrefixCache(std::shared_ptr<BlockPool> pool, PrefixCacheOptions options);

  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache();

  // The longest cached prefix of `tokens` in whole blocks; empty when there is
  // none. Its blocks are touched, and held until the match lets them go.
  PrefixMatch Match(const IntSpan& tokens, std::string_view ns = {});

  // Caches block_ids[i] under the i-th whole block of `tokens`. Where the cache
  // has a block already it keeps that one and reports the caller's, unless it
  // is the same. Tokens after the last whole block and ids after the last one
  // needed are not read. The caller's references stay the caller's.
  //
  // `priority` is for policies that rank blocks by it; kLru does not.
  InsertResult Insert(const IntSpan& tokens, const IntSpan& block_ids,
                      std::string_view ns = {}, std::int64_t priority = 0);

  // n blocks of the pool with one loose reference each, after evicting as many
  // as the pool lacks. Nothing, and no eviction, when even that is not enough.
  std::optional<std::vector<std::int32_t>> Allocate(std::int64_t n);

  // Evicts up to n blocks and gives the number of those evicted, each of which
  // is free in the pool then.
  std::int64_t Evict(std::int64_t n);

  // Forgets every block, held or not. Those that nobody else holds are free in
  // the pool then; matches keep theirs. The counters of stats() go on.
  void Reset();

  std::int64_t block_size() const { return options_.block_size; }
  EvictionPolicy policy() const { return options_.policy; }
  const std::shared_ptr<BlockPool>& pool() const { return pool_; }
  PrefixCacheStats stats() const;

  // Verifies every invariant of the tree, the table, the order of use and the
  // references, in O(cached tokens). Throws std::logic_error that names the
  // broken one. The pool is looked at, not checked.
  void Check() const;

 private:
  friend class PrefixCacheTestPeer;

  static constexpr std::int32_t kNone = -1;

  // The node of a cached block, at the block's id in nodes_.
  struct Node {
    std::uint64_t hash = 0;         // of the tokens and the parent
    std::uint64_t named_in = 0;     // the last Insert that named the block
    std::int32_t parent = 0;        // a block, or a root as RootCode gives
    std::int32_t num_children = 0;  // cached blocks that continue this one
    std::int32_t next_in_bucket = kNone;
    std::int32_t older = kNone;  // neighbours in the order of use
    std::int32_t newer = kNone;
    bool cached = false;
  };

  // Where the blocks of a namespace begin. It exists while it has children.
  struct Root {
    std::string name;
    std::int64_t num_children = 0;
  };

  // A root in the place of a parent block: a negative number.
  static constexpr std::int32_t RootCode(std::int32_t root) {
    return -1 - root;
  }

  // What of a path an Insert has found out before it changes anything.
  struct Path {
    std::vector<std::int32_t> blocks;  // of the cache, or else the caller's
    std::size_t num_found = 0;         // how many of them the cache had
    std::vector<std::int32_t> duplicates;
  };

  // All of the following want mutex_ held.

  bool IsCached(std::int32_t block) const;

  std::int32_t FindRoot(std::string_view ns) const;
  std::int32_t FindOrAddRoot(std::string_view ns);
  void DropRootIfEmpty(std::int32_t root) noexcept;

  std::uint64_t Hash(std::int32_t parent, const TokenBlock& tokens) const;
  std::int32_t FindChild(std::int32_t parent, std::uint64_t hash,
                         const TokenBlock& tokens) const;

  // Room for nodes of `ids` and for that many more entries in the table.
  void ReserveFor(const std::vector<std::int32_t>& ids);
  void CheckNamedOnce(const std::vector<std::int32_t>& ids);
  Path PreparePath(TokenReader& reader, const std::vector<std::int32_t>& ids,
                   std::int32_t root);

  void Link(std::int32_t block, std::int32_t parent) noexcept;
  void Unlink(std::int32_t block) noexcept;
  void AddAsNewest(std::int32_t block) noexcept;
  void RemoveFromOrder(std::int32_t block) noexcept;

  // The next n victims in the order of eviction, or as many as there are.
  std::vector<std::int32_t> FindVictims(
      const BlockPool::Transaction& transaction, std::int64_t n);
  void Evict(BlockPool::Transaction& transaction,
             const std::vector<std::int32_t>& victims);
  void DropAll();

  std::vector<std::int64_t> CheckOrder() const;
  void CheckTable() const;
  void CheckTree(const std::vector<std::int64_t>& ranks) const;

  const std::shared_ptr<BlockPool> pool_;
  const PrefixCacheOptions options_;

  mutable Mutex mutex_;
  std::vector<Node> nodes_;
  TokenStore tokens_;
  std::vector<std::int32_t> buckets_;  // first block of each; 2^k of them
  std::int32_t oldest_ = kNone;        // ends of the order of use
  std::int32_t newest_ = kNone;
  std::vector<Root> roots_;
  std::vector<std::int32_t> unused_roots_;
  std::map<std::string, std::int32_t, std::less<>> root_of_namespace_;
  std::uint64_t num_inserts_ = 0;
  PrefixCacheStats stats_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_PREFIX_CACHE_H_
