// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cc/base/errors.h"

namespace servecore::kv {
namespace {

constexpr std::size_t kFewestBuckets = 16;

std::shared_ptr<BlockPool> CheckedPool(std::shared_ptr<BlockPool> pool) {
  if (pool == nullptr) {
    throw std::invalid_argument(
        "pool is null; a PrefixCache needs a BlockPool");
  }
  return pool;
}

PrefixCacheOptions CheckedOptions(PrefixCacheOptions options) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (options.block_size < 1 || options.block_size > kLargest) {
    throw std::invalid_argument(StrCat("block_size is ", options.block_size,
                                       "; allowed are 1 to ", kLargest));
  }
  return options;
}

// The first `num_needed` ids, each of them one of the pool's.
std::vector<std::int32_t> CheckedIds(const IntSpan& block_ids,
                                     std::int64_t num_needed,
                                     std::int32_t num_blocks) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(num_needed));
  std::visit(
      [&ids, num_needed, num_blocks](const auto& span) {
        for (std::int64_t i = 0; i < num_needed; ++i) {
          const std::int64_t id = span[i];
          if (id < 0 || id >= num_blocks) {
            throw std::out_of_range(
                StrCat("block_ids[", i, "] is ", id,
                       "; the pool has the blocks from 0 up to, and without, ",
                       num_blocks));
          }
          ids[i] = static_cast<std::int32_t>(id);
        }
      },
      block_ids);
  return ids;
}

// All or nothing.
template <class Iterator>
void RetainAllGuarded(BlockPool::Transaction& transaction, Iterator begin,
                      Iterator end) {
  Iterator next = begin;
  try {
    for (; next != end; ++next) transaction.RetainGuarded(*next);
  } catch (...) {
    while (next != begin) transaction.ReleaseGuarded(*--next);
    throw;
  }
}

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("PrefixCache is corrupt: " + what);
}

}  // namespace

EvictionPolicy EvictionPolicyFromName(std::string_view name) {
  if (name == "lru") return EvictionPolicy::kLru;
  throw std::invalid_argument(
      StrCat("eviction policy is '", name, "'; allowed is 'lru'"));
}

std::string_view EvictionPolicyName(EvictionPolicy policy) {
  switch (policy) {
    case EvictionPolicy::kLru:
      return "lru";
  }
  throw std::invalid_argument(StrCat("eviction policy is number ",
                                     static_cast<int>(policy),
                                     "; allowed is kLru"));
}

PrefixMatch::PrefixMatch(PrefixMatch&& other) noexcept
    : pool_(std::move(other.pool_)),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      block_ids_(std::exchange(other.block_ids_, {})) {}

PrefixMatch& PrefixMatch::operator=(PrefixMatch&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::move(other.pool_);
    num_tokens_ = std::exchange(other.num_tokens_, 0);
    block_ids_ = std::exchange(other.block_ids_, {});
  }
  return *this;
}

PrefixMatch::~PrefixMatch() { Release(); }

void PrefixMatch::Release() noexcept {
  // The last owner of the pool may be this one, so the pool has to outlive the
  // transaction on it.
  const std::shared_ptr<BlockPool> pool = std::exchange(pool_, nullptr);
  if (pool == nullptr || block_ids_.empty()) return;
  BlockPool::Transaction transaction(*pool);
  for (const std::int32_t block : block_ids_) transaction.ReleaseGuarded(block);
}

PrefixCache::PrefixCache(std::shared_ptr<BlockPool> pool,
                         PrefixCacheOptions options)
    : pool_(CheckedPool(std::move(pool))),
      options_(CheckedOptions(options)),
      tokens_(options_.block_size) {}

PrefixCache::~PrefixCache() { DropAll(); }

PrefixMatch PrefixCache::Match(const IntSpan& tokens, std::string_view ns) {
  TokenReader reader(tokens, options_.block_size);
  std::vector<std::int32_t> blocks;

  const std::lock_guard lock(mutex_);
  const std::int32_t root = FindRoot(ns);
  if (root != kNone) {
    std::int32_t parent = RootCode(root);
    for (std::int64_t i = 0; i < reader.num_blocks(); ++i) {
      const TokenBlock block_tokens = reader.Read(i);
      parent = FindChild(parent, Hash(parent, block_tokens), block_tokens);
      if (parent == kNone) break;
      blocks.push_back(parent);
    }
  }
  {
    BlockPool::Transaction transaction(*pool_);
    RetainAllGuarded(transaction, blocks.begin(), blocks.end());
  }
  for (const std::int32_t block : std::views::reverse(blocks)) {
    RemoveFromOrder(block);
    AddAsNewest(block);
  }
  const std::int64_t num_tokens =
      static_cast<std::int64_t>(blocks.size()) * options_.block_size;
  ++stats_.queries;
  stats_.query_tokens += Size(tokens);
  stats_.hit_tokens += num_tokens;
  return {pool_, num_tokens, std::move(blocks)};
}

InsertResult PrefixCache::Insert(const IntSpan& tokens,
                                 const IntSpan& block_ids, std::string_view ns,
                                 std::int64_t /*priority*/) {
  TokenReader reader(tokens, options_.block_size);
  if (Size(block_ids) < reader.num_blocks()) {
    throw std::invalid_argument(StrCat(
        "block_ids has ", Size(block_ids), " elements, but ", Size(tokens),
        " tokens fill ", reader.num_blocks(), " blocks of ",
        options_.block_size, "; give one id for each of these"));
  }
  const std::vector<std::int32_t> ids =
      CheckedIds(block_ids, reader.num_blocks(), pool_->num_blocks());
  if (ids.empty()) return {};

  const std::lock_guard lock(mutex_);
  ReserveFor(ids);
  CheckNamedOnce(ids);
  const std::int32_t root = FindOrAddRoot(ns);
  try {
    Path path = PreparePath(reader, ids, root);
    const auto num_found = static_cast<std::ptrdiff_t>(path.num_found);
    {
      BlockPool::Transaction transaction(*pool_);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (transaction.RefCount(ids[i]) == 0) {
          throw std::logic_error(StrCat("block_ids[", i, "] is block ", ids[i],
                                        ", which is free in the pool; insert "
                                        "it while it is allocated"));
        }
      }
      RetainAllGuarded(transaction, path.blocks.begin() + num_found,
                       path.blocks.end());
    }

    // From here on nothing can fail.
    for (std::size_t i = path.num_found; i < path.blocks.size(); ++i) {
      Link(path.blocks[i], i == 0 ? RootCode(root) : path.blocks[i - 1]);
    }
    for (std::size_t i = path.blocks.size(); i-- > 0;) {
      if (i < path.num_found) RemoveFromOrder(path.blocks[i]);
      AddAsNewest(path.blocks[i]);
    }
    const auto num_new =
        static_cast<std::int64_t>(path.blocks.size() - path.num_found);
    stats_.num_cached_blocks += num_new;
    stats_.inserted_blocks += num_new;
    stats_.duplicate_blocks +=
        static_cast<std::int64_t>(path.duplicates.size());
    return {.num_new_tokens = num_new * options_.block_size,
            .duplicates = std::move(path.duplicates)};
  } catch (...) {
    DropRootIfEmpty(root);
    throw;
  }
}

std::optional<std::vector<std::int32_t>> PrefixCache::Allocate(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  BlockPool::Transaction transaction(*pool_);
  std::optional<std::vector<std::int32_t>> blocks = transaction.Allocate(n);
  if (blocks.has_value()) return blocks;

  const std::int64_t num_missing = n - transaction.num_free();
  if (num_missing > stats_.num_cached_blocks) return std::nullopt;
  const std::vector<std::int32_t> victims =
      FindVictims(transaction, num_missing);
  if (static_cast<std::int64_t>(victims.size()) < num_missing) {
    return std::nullopt;
  }
  Evict(transaction, victims);
  return transaction.Allocate(n);
}

std::int64_t PrefixCache::Evict(std::int64_t n) {
  if (n < 0) {
    throw std::invalid_argument(
        StrCat("cannot evict ", n, " blocks; allowed is 0 or more"));
  }
  const std::lock_guard lock(mutex_);
  BlockPool::Transaction transaction(*pool_);
  const std::vector<std::int32_t> victims =
      FindVictims(transaction, std::min(n, stats_.num_cached_blocks));
  Evict(transaction, victims);
  return static_cast<std::int64_t>(victims.size());
}

void PrefixCache::Reset() {
  const std::lock_guard lock(mutex_);
  DropAll();
}

PrefixCacheStats PrefixCache::stats() const {
  const std::lock_guard lock(mutex_);
  PrefixCacheStats stats = stats_;
  stats.num_namespaces = static_cast<std::int64_t>(root_of_namespace_.size());
  return stats;
}

bool PrefixCache::IsCached(std::int32_t block) const {
  return static_cast<std::size_t>(block) < nodes_.size() &&
         nodes_[block].cached;
}

std::int32_t PrefixCache::FindRoot(std::string_view ns) const {
  const auto found = root_of_namespace_.find(ns);
  return found == root_of_namespace_.end() ? kNone : found->second;
}

std::int32_t PrefixCache::FindOrAddRoot(std::string_view ns) {
  const std::int32_t found = FindRoot(ns);
  if (found != kNone) return found;
  if (unused_roots_.empty()) {
    roots_.emplace_back();
    // So that giving a root back never needs memory.
    unused_roots_.reserve(roots_.capacity());
    unused_roots_.push_back(static_cast<std::int32_t>(roots_.size() - 1));
  }
  const std::int32_t root = unused_roots_.back();
  std::string name(ns);
  root_of_namespace_.emplace(name, root);
  roots_[root] = {.name = std::move(name)};
  unused_roots_.pop_back();
  return root;
}

void PrefixCache::DropRootIfEmpty(std::int32_t root) noexcept {
  if (roots_[root].num_children > 0) return;
  root_of_namespace_.erase(root_of_namespace_.find(roots_[root].name));
  unused_roots_.push_back(root);
}

std::uint64_t PrefixCache::Hash(std::int32_t parent,
                                const TokenBlock& tokens) const {
  return HashTokens(tokens, options_.block_size,
                    static_cast<std::uint32_t>(parent));
}

std::int32_t PrefixCache::FindChild(std::int32_t parent, std::uint64_t hash,
                                    const TokenBlock& tokens) const {
  if (buckets_.empty()) return kNone;
  std::int32_t block = buckets_[hash & (buckets_.size() - 1)];
  while (block != kNone) {
    const Node& node = nodes_[block];
    if (node.hash == hash && node.parent == parent &&
        tokens_.Equals(block, tokens)) {
      break;
    }
    block = node.next_in_bucket;
  }
  return block;
}

void PrefixCache::ReserveFor(const std::vector<std::int32_t>& ids) {
  const auto highest = static_cast<std::size_t>(std::ranges::max(ids));
  if (highest >= nodes_.size()) nodes_.resize(highest + 1);

  const std::size_t num_entries =
      static_cast<std::size_t>(stats_.num_cached_blocks) + ids.size();
  if (num_entries <= buckets_.size()) return;
  std::vector<std::int32_t> buckets(
      std::max(kFewestBuckets, std::bit_ceil(num_entries)), kNone);
  for (std::int32_t block = oldest_; block != kNone;
       block = nodes_[block].newer) {
    Node& node = nodes_[block];
    std::int32_t& bucket = buckets[node.hash & (buckets.size() - 1)];
    node.next_in_bucket = std::exchange(bucket, block);
  }
  buckets_ = std::move(buckets);
}

void PrefixCache::CheckNamedOnce(const std::vector<std::int32_t>& ids) {
  ++num_inserts_;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (std::exchange(nodes_[ids[i]].named_in, num_inserts_) == num_inserts_) {
      throw std::invalid_argument(StrCat("block_ids[", i, "] is block ", ids[i],
                                         ", which is named before; each place "
                                         "needs a block of its own"));
    }
  }
}

// Tokens and hashes are written to the places of blocks that are not cached,
// where nobody looks until they are linked.
PrefixCache::Path PrefixCache::PreparePath(TokenReader& reader,
                                           const std::vector<std::int32_t>& ids,
                                           std::int32_t root) {
  Path path;
  path.blocks.reserve(ids.size());
  std::int32_t parent = RootCode(root);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids[i];
    const TokenBlock block_tokens = reader.Read(static_cast<std::int64_t>(i));
    const std::uint64_t hash = Hash(parent, block_tokens);
    // What follows a block that is new is new as well.
    const std::int32_t found =
        path.num_found == i ? FindChild(parent, hash, block_tokens) : kNone;
    if (found != id && IsCached(id)) {
      throw std::invalid_argument(
          StrCat("block_ids[", i, "] is block ", id,
                 ", which is cached under other tokens; a block can be cached "
                 "at one place only"));
    }
    if (found == kNone) {
      tokens_.Store(id, block_tokens);
      nodes_[id].hash = hash;
    } else {
      ++path.num_found;
      if (found != id) path.duplicates.push_back(id);
    }
    parent = found == kNone ? id : found;
    path.blocks.push_back(parent);
  }
  return path;
}

void PrefixCache::Link(std::int32_t block, std::int32_t parent) noexcept {
  Node& node = nodes_[block];
  node.parent = parent;
  node.num_children = 0;
  node.cached = true;
  std::int32_t& bucket = buckets_[node.hash & (buckets_.size() - 1)];
  node.next_in_bucket = std::exchange(bucket, block);
  if (parent < 0) {
    ++roots_[RootCode(parent)].num_children;
  } else {
    ++nodes_[parent].num_children;
  }
}

void PrefixCache::Unlink(std::int32_t block) noexcept {
  Node& node = nodes_[block];
  RemoveFromOrder(block);
  std::int32_t* link = &buckets_[node.hash & (buckets_.size() - 1)];
  while (*link != block) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  tokens_.Drop(block);
  node.cached = false;
  if (node.parent < 0) {
    const std::int32_t root = RootCode(node.parent);
    --roots_[root].num_children;
    DropRootIfEmpty(root);
  } else {
    --nodes_[node.parent].num_children;
  }
}

void PrefixCache::AddAsNewest(std::int32_t block) noexcept {
  Node& node = nodes_[block];
  node.older = newest_;
  node.newer = kNone;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = block;
  newest_ = block;
}

void PrefixCache::RemoveFromOrder(std::int32_t block) noexcept {
  const Node& node = nodes_[block];
  (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
  (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
}

std::vector<std::int32_t> PrefixCache::FindVictims(
    const BlockPool::Transaction& transaction, std::int64_t n) {
  std::vector<std::int32_t> victims;
  victims.reserve(static_cast<std::size_t>(n));
  // One pass is enough: children come before their parents, so by the time a
  // parent is looked at it is known whether all its children go.
  for (std::int32_t block = oldest_;
       block != kNone && static_cast<std::int64_t>(victims.size()) < n;
       block = nodes_[block].newer) {
    const Node& node = nodes_[block];
    if (node.num_children > 0 || transaction.RefCount(block) > 1) continue;
    victims.push_back(block);
    if (node.parent >= 0) --nodes_[node.parent].num_children;
  }
  for (const std::int32_t block : victims) {
    const std::int32_t parent = nodes_[block].parent;
    if (parent >= 0) ++nodes_[parent].num_children;
  }
  return victims;
}

void PrefixCache::Evict(BlockPool::Transaction& transaction,
                        const std::vector<std::int32_t>& victims) {
  for (const std::int32_t block : victims) {
    Unlink(block);
    transaction.ReleaseGuarded(block);
  }
  const auto num_evicted = static_cast<std::int64_t>(victims.size());
  stats_.num_cached_blocks -= num_evicted;
  stats_.evicted_blocks += num_evicted;
}

void PrefixCache::DropAll() {
  BlockPool::Transaction transaction(*pool_);
  while (oldest_ != kNone) {
    const std::int32_t block = oldest_;
    Unlink(block);
    transaction.ReleaseGuarded(block);
  }
  stats_.dropped_blocks += std::exchange(stats_.num_cached_blocks, 0);
}

void PrefixCache::Check() const {
  const std::lock_guard lock(mutex_);
  const std::vector<std::int64_t> ranks = CheckOrder();
  CheckTable();
  CheckTree(ranks);
  const std::int64_t num_left =
      stats_.inserted_blocks - stats_.evicted_blocks - stats_.dropped_blocks;
  if (num_left != stats_.num_cached_blocks) {
    ThrowBroken(StrCat("num_cached_blocks is ", stats_.num_cached_blocks,
                       ", but ", stats_.inserted_blocks, " were inserted, ",
                       stats_.evicted_blocks, " evicted and ",
                       stats_.dropped_blocks, " dropped"));
  }
  if (stats_.hit_tokens > stats_.query_tokens) {
    ThrowBroken(StrCat("hit_tokens is ", stats_.hit_tokens,
                       ", but query_tokens ", stats_.query_tokens));
  }
}

// Gives each block's place in the order of use, -1 for those not in it.
std::vector<std::int64_t> PrefixCache::CheckOrder() const {
  std::vector<std::int64_t> ranks(nodes_.size(), -1);
  std::int64_t num_ranked = 0;
  std::int32_t previous = kNone;
  for (std::int32_t block = oldest_; block != kNone;
       block = nodes_[block].newer) {
    if (!IsCached(block)) {
      ThrowBroken(
          StrCat("block ", block, " is in the order of use and not cached"));
    }
    if (ranks[block] != -1 || nodes_[block].older != previous) {
      ThrowBroken(StrCat("the order of use is broken between blocks ", previous,
                         " and ", block));
    }
    ranks[block] = num_ranked++;
    previous = block;
  }
  if (newest_ != previous) {
    ThrowBroken(StrCat("the order of use ends with block ", previous,
                       ", but the newest is ", newest_));
  }
  const std::int64_t num_cached =
      std::count_if(nodes_.begin(), nodes_.end(),
                    [](const Node& node) { return node.cached; });
  if (num_cached != num_ranked || num_cached != stats_.num_cached_blocks) {
    ThrowBroken(StrCat(num_cached, " blocks are cached, ", num_ranked,
                       " in the order of use, and num_cached_blocks is ",
                       stats_.num_cached_blocks));
  }
  return ranks;
}

void PrefixCache::CheckTable() const {
  std::int64_t num_entries = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (std::int32_t block = buckets_[bucket]; block != kNone;
         block = nodes_[block].next_in_bucket) {
      if (!IsCached(block) ||
          (nodes_[block].hash & (buckets_.size() - 1)) != bucket ||
          ++num_entries > stats_.num_cached_blocks) {
        ThrowBroken(StrCat("bucket ", bucket, " of the table holds block ",
                           block, ", which does not belong there"));
      }
    }
  }
  if (num_entries != stats_.num_cached_blocks) {
    ThrowBroken(StrCat("the table has ", num_entries,
                       " blocks, but num_cached_blocks is ",
                       stats_.num_cached_blocks));
  }
}

void PrefixCache::CheckTree(const std::vector<std::int64_t>& ranks) const {
  const BlockPool::Transaction transaction(*pool_);
  std::vector<std::int32_t> num_children(nodes_.size());
  std::vector<std::int64_t> num_root_children(roots_.size());
  for (std::int32_t block = oldest_; block != kNone;
       block = nodes_[block].newer) {
    const Node& node = nodes_[block];
    if (node.parent < 0) {
      const auto root = static_cast<std::size_t>(RootCode(node.parent));
      if (root >= roots_.size()) {
        ThrowBroken(StrCat("block ", block, " belongs to no namespace"));
      }
      ++num_root_children[root];
    } else {
      if (!IsCached(node.parent)) {
        ThrowBroken(StrCat("block ", block, " continues block ", node.parent,
                           ", which is not cached"));
      }
      if (ranks[node.parent] < ranks[block]) {
        ThrowBroken(StrCat("block ", block, " continues block ", node.parent,
                           " and was used later than it"));
      }
      ++num_children[node.parent];
    }
    const TokenBlock block_tokens = tokens_.At(block);
    if (node.hash != Hash(node.parent, block_tokens) ||
        FindChild(node.parent, node.hash, block_tokens) != block) {
      ThrowBroken(StrCat("block ", block, " is not found under its tokens"));
    }
    if (transaction.RefCount(block) < 1) {
      ThrowBroken(StrCat("block ", block, " is cached and free in the pool"));
    }
  }
  for (std::size_t block = 0; block < nodes_.size(); ++block) {
    if (nodes_[block].cached &&
        nodes_[block].num_children != num_children[block]) {
      ThrowBroken(StrCat("block ", block, " counts ",
                         nodes_[block].num_children, " children and has ",
                         num_children[block]));
    }
  }
  std::size_t num_used_roots = 0;
  for (std::size_t root = 0; root < roots_.size(); ++root) {
    if (num_root_children[root] == 0) continue;
    ++num_used_roots;
    if (roots_[root].num_children != num_root_children[root] ||
        FindRoot(roots_[root].name) != static_cast<std::int32_t>(root)) {
      ThrowBroken(StrCat("namespace '", roots_[root].name, "' counts ",
                         roots_[root].num_children, " children and has ",
                         num_root_children[root]));
    }
  }
  if (num_used_roots != root_of_namespace_.size()) {
    ThrowBroken(StrCat(root_of_namespace_.size(), " namespaces exist, but ",
                       num_used_roots, " hold blocks"));
  }
}

}  // namespace servecore::kv
