// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_cache.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "cc/base/errors.h"
#include "cc/kv/checked_ids.h"

namespace servecore::kv {
namespace {

constexpr std::int32_t kNone = PrefixTree::kNone;
using Queue = PrefixTree::Queue;
using Int32Limits = std::numeric_limits<std::int32_t>;

std::shared_ptr<BlockPool> CheckedPool(std::shared_ptr<BlockPool> pool) {
  if (pool == nullptr) {
    throw std::invalid_argument(
        "pool is null; a PrefixCache needs a BlockPool");
  }
  return pool;
}

PrefixCacheOptions CheckedOptions(PrefixCacheOptions options) {
  if (options.block_size < 1 || options.block_size > Int32Limits::max()) {
    throw std::invalid_argument(StrCat("block_size is ", options.block_size,
                                       "; allowed are 1 to ",
                                       Int32Limits::max()));
  }
  if (options.max_events < 0) {
    throw std::invalid_argument(StrCat("max_events is ", options.max_events,
                                       "; allowed are 0 and more"));
  }
  KeyOf(options.policy, {}, 0);
  return options;
}

bool CountsHits(EvictionPolicy policy) {
  return policy == EvictionPolicy::kLfu || policy == EvictionPolicy::kSlru;
}

std::int32_t CheckedPriority(std::int64_t priority) {
  if (priority < Int32Limits::min() || priority > Int32Limits::max()) {
    throw std::invalid_argument(StrCat("priority is ", priority,
                                       "; allowed are ", Int32Limits::min(),
                                       " to ", Int32Limits::max()));
  }
  return static_cast<std::int32_t>(priority);
}

bool SameIds(const std::vector<std::int32_t>& ids, const IntSpan& block_ids) {
  return std::visit(
      [&ids](const auto& span) {
        if (span.contiguous()) {
          return std::equal(ids.begin(), ids.end(), span.data);
        }
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (span[static_cast<std::int64_t>(i)] != ids[i]) return false;
        }
        return true;
      },
      block_ids);
}

[[noreturn]] void ThrowChanged(const char* what) {
  throw std::runtime_error(
      StrCat(what,
             " changed while insert read them; give an array that nobody "
             "writes to during the call"));
}

[[noreturn]] void ThrowFree(std::int64_t i, std::int32_t block) {
  throw std::logic_error(StrCat("block_ids[", i, "] is block ", block,
                                ", which is free in the pool; insert it while "
                                "it is allocated"));
}

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("PrefixCache is corrupt: " + what);
}

// One part of an array of tokens.
IntSpan Part(const IntSpan& tokens, std::int64_t begin, std::int64_t n) {
  return std::visit(
      [begin, n]<class Token>(const StridedSpan<Token>& span) -> IntSpan {
        return StridedSpan<Token>(span.data + begin * span.stride, n,
                                  span.stride);
      },
      tokens);
}

}  // namespace

PrefixCache::PrefixCache(std::shared_ptr<BlockPool> pool,
                         PrefixCacheOptions options)
    : pool_(CheckedPool(std::move(pool))),
      options_(CheckedOptions(options)),
      tree_(options_.block_size, CountsHits(options_.policy)),
      cached_(pool_->num_blocks()),
      named_(pool_->num_blocks()),
      events_(options_.max_events) {}

PrefixCache::~PrefixCache() {
  // A destructor has no memory for a list of them.
  BlockPool::Transaction transaction(*pool_);
  cached_.ForEachDescending([&transaction](std::int32_t block) {
    transaction.ReleaseCached(IdRun({&block, 1}));
  });
}

PrefixMatch PrefixCache::Match(const IntSpan& tokens, std::string_view ns) {
  PrefixTree::Path path;
  std::vector<IdRun> runs;

  const std::shared_lock tree_lock(tree_mutex_);
  const std::int32_t root = tree_.FindRoot(ns);
  if (root != kNone) {
    path.reserve(8);
    static_cast<void>(
        tree_.Find(root, tokens, Size(tokens) / options_.block_size, path));
    runs.reserve(path.size());
    for (const PrefixTree::Step& step : path) {
      runs.push_back(tree_.ids(step.node).Part(
          0, static_cast<std::size_t>(step.num_blocks)));
    }
  }
  PrefixMatch match(options_.block_size, runs);

  const std::lock_guard use_lock(use_mutex_);
  if (!path.empty()) tree_.ReserveMark();
  match.Hold(pool_);
  if (!path.empty()) tree_.Touch(path, {.hits = 1, .last_use = ++clock_});
  ++stats_.queries;
  stats_.query_tokens += Size(tokens);
  stats_.hit_tokens += match.num_tokens();
  return match;
}

std::vector<PrefixMatch> PrefixCache::MatchMany(
    const IntSpan& tokens, const IntSpan& offsets,
    std::span<const std::string_view> namespaces) {
  const std::int64_t num_offsets = Size(offsets);
  if (num_offsets == 0) {
    throw std::invalid_argument(
        "offsets is empty; it has one element more than there are requests");
  }
  std::vector<std::int64_t> bounds;
  bounds.reserve(static_cast<std::size_t>(num_offsets));
  std::visit(
      [&bounds, &tokens](const auto& span) {
        for (std::int64_t i = 0; i < span.size; ++i) {
          const std::int64_t lowest = i == 0 ? 0 : bounds.back();
          if (span[i] < lowest || span[i] > Size(tokens)) {
            throw std::invalid_argument(StrCat("offsets[", i, "] is ", span[i],
                                               "; allowed are ", lowest, " to ",
                                               Size(tokens)));
          }
          bounds.push_back(span[i]);
        }
      },
      offsets);
  const std::size_t num_requests = bounds.size() - 1;
  if (namespaces.size() != 1 && namespaces.size() != num_requests) {
    throw std::invalid_argument(
        StrCat("there are ", namespaces.size(), " namespaces for ",
               num_requests, " requests; give one for all or one for each"));
  }
  std::vector<PrefixMatch> matches;
  matches.reserve(num_requests);
  for (std::size_t i = 0; i < num_requests; ++i) {
    matches.push_back(Match(Part(tokens, bounds[i], bounds[i + 1] - bounds[i]),
                            namespaces[namespaces.size() == 1 ? 0 : i]));
  }
  return matches;
}

InsertResult PrefixCache::Insert(const IntSpan& tokens,
                                 const IntSpan& block_ids, std::string_view ns,
                                 std::int64_t priority) {
  const std::int32_t rank = CheckedPriority(priority);
  const std::int64_t num_blocks = Size(tokens) / options_.block_size;
  if (Size(block_ids) < num_blocks) {
    throw std::invalid_argument(
        StrCat("block_ids has ", Size(block_ids), " elements, but ",
               Size(tokens), " tokens fill ", num_blocks, " blocks of ",
               options_.block_size, "; give one id for each of these"));
  }
  const std::vector<std::int32_t> ids =
      CheckedIds(block_ids, num_blocks, pool_->num_blocks(), "block_ids");
  if (ids.empty()) return {};

  InsertResult result;
  PrefixTree::Path path;
  PrefixTree::Branch branch;
  std::int32_t root = kNone;
  const std::unique_lock lock(tree_mutex_);
  try {
    root = tree_.FindOrAddRoot(ns);
    const std::int64_t num_found = tree_.Find(root, tokens, num_blocks, path);
    const auto new_ids =
        std::span(ids).subspan(static_cast<std::size_t>(num_found));
    NamedBlocks named(cached_, named_, ids);
    FindDuplicates(path, ids, named);
    const std::vector<IdRun> new_runs = SplitIntoRuns(new_ids);
    named.NameRest(static_cast<std::size_t>(num_found), new_runs);
    if (new_ids.empty()) {
      tree_.ReserveMark();
    } else {
      branch = tree_.Prepare(tokens, num_found, new_runs);
    }
    heap_.Reserve(static_cast<std::size_t>(tree_.num_slots()));
    parked_.reserve(static_cast<std::size_t>(tree_.num_slots()));
    events_.Reserve(static_cast<std::int64_t>(new_ids.size()));
    if (!tree_.HoldsSame(branch, tokens, num_found)) ThrowChanged("tokens");
    if (!SameIds(ids, block_ids)) ThrowChanged("block_ids");
    result.duplicates.assign(named.duplicates().begin(),
                             named.duplicates().end());
    RetainInPool(ids, new_runs, result.duplicates);

    // From here on nothing can fail.
    const std::uint64_t now = ++clock_;
    if (!branch.empty()) {
      const std::int32_t parent =
          num_found == 0 ? -1
                         : tree_.ids(path.back().node)[static_cast<std::size_t>(
                               path.back().num_blocks - 1)];
      tree_.Attach(root, path, branch, now, rank);
      PushLeaf(branch.back());
      named.Keep();
      events_.AddStored(new_ids, parent);
    }
    tree_.Touch(path, {.hits = 0, .last_use = now, .priority = rank});
    const auto num_new = static_cast<std::int64_t>(new_ids.size());
    result.num_new_tokens = num_new * options_.block_size;
    stats_.num_cached_blocks += num_new;
    stats_.inserted_blocks += num_new;
    stats_.duplicate_blocks +=
        static_cast<std::int64_t>(result.duplicates.size());
  } catch (...) {
    tree_.Discard(branch);
    if (root != kNone) tree_.DropRootIfEmpty(root);
    throw;
  }
  return result;
}

// Of the ids given for blocks that the cache has, those that are not its own.
void PrefixCache::FindDuplicates(const PrefixTree::Path& path,
                                 std::span<const std::int32_t> ids,
                                 NamedBlocks& named) {
  std::size_t i = 0;
  for (const PrefixTree::Step& step : path) {
    const auto n = static_cast<std::size_t>(step.num_blocks);
    const IdRun kept = tree_.ids(step.node).Part(0, n);
    if (!kept.Equals(ids.subspan(i, n))) {
      for (std::size_t j = 0; j < n; ++j) {
        if (kept[j] == ids[i + j]) continue;
        named.NameDuplicate(i + j);
      }
    }
    i += n;
  }
}

// Takes the cache's references on the new ones of `ids`; all duplicates have to
// be in use as well. All or nothing.
void PrefixCache::RetainInPool(std::span<const std::int32_t> ids,
                               std::span<const IdRun> new_runs,
                               std::span<const std::int32_t> duplicates) {
  BlockPool::Transaction transaction(*pool_);
  const auto throw_if_free = [&](std::int32_t id) {
    if (transaction.RefCount(id) > 0) return;
    ThrowFree(std::ranges::find(ids, id) - ids.begin(), id);
  };
  std::ranges::for_each(duplicates, throw_if_free);
  try {
    transaction.RetainCached(new_runs);
  } catch (const std::logic_error&) {
    std::ranges::for_each(ids, throw_if_free);
    throw;
  }
}

std::optional<std::vector<std::int32_t>> PrefixCache::Allocate(std::int64_t n) {
  std::optional<std::vector<std::int32_t>> blocks = pool_->Allocate(n);
  if (blocks.has_value()) return blocks;

  const std::unique_lock lock(tree_mutex_);
  BlockPool::Transaction transaction(*pool_);
  const std::int64_t num_missing =
      std::max<std::int64_t>(0, n - transaction.num_free());
  if (num_missing > transaction.num_idle()) return std::nullopt;
  // Memory for the result comes first, since it may not be there.
  blocks.emplace(static_cast<std::size_t>(n));
  Plan plan;
  PlanFor(transaction, num_missing, plan);
  if (static_cast<std::int64_t>(plan.victims.size()) < num_missing) {
    Undo(plan);
    return std::nullopt;
  }
  Finish(transaction, plan);
  transaction.AllocateTo(*blocks);
  return blocks;
}

std::int64_t PrefixCache::Evict(std::int64_t n) {
  if (n < 0) {
    throw std::invalid_argument(
        StrCat("cannot evict ", n, " blocks; allowed is 0 or more"));
  }
  const std::unique_lock lock(tree_mutex_);
  BlockPool::Transaction transaction(*pool_);
  Plan plan;
  PlanFor(transaction, std::min(n, transaction.num_idle()), plan);
  Finish(transaction, plan);
  return static_cast<std::int64_t>(plan.victims.size());
}

EvictionKey PrefixCache::KeyOfNode(std::int32_t node) const {
  const PrefixTree::Node& n = tree_.node(node);
  return KeyOf(options_.policy, n.use, n.inserted);
}

void PrefixCache::PushLeaf(std::int32_t node) noexcept {
  tree_.node(node).queue = Queue::kHeap;
  heap_.Push(KeyOfNode(node), node);
}

// Parked leaves that nobody else holds any more wait in the heap again.
void PrefixCache::Unpark(const BlockPool::Transaction& transaction) noexcept {
  std::erase_if(parked_, [&](std::int32_t node) {
    if (tree_.node(node).num_children > 0) {
      tree_.node(node).queue = Queue::kNowhere;
      return true;
    }
    if (!transaction.IsIdle(tree_.ids(node).back())) return false;
    PushLeaf(node);
    return true;
  });
}

// Chooses up to n victims in the order of eviction and shrinks the tree as if
// they were gone.
void PrefixCache::PlanFor(const BlockPool::Transaction& transaction,
                          std::int64_t n, Plan& plan) {
  plan.victims.reserve(static_cast<std::size_t>(n));
  // Each step of the loop that shrinks a node ends a run of blocks used alike
  // or finds one held; so there are no more of them than victims.
  plan.shrunk.reserve(static_cast<std::size_t>(n));
  events_.Reserve(n);
  Unpark(transaction);
  auto num_left = n;
  while (num_left > 0 && !heap_.empty()) {
    const EvictionHeap::Entry entry = heap_.Pop();
    PrefixTree::Node& node = tree_.node(entry.node);
    node.queue = Queue::kNowhere;
    if (node.num_children > 0) continue;
    if (KeyOfNode(entry.node) != entry.key) {
      PushLeaf(entry.node);
      continue;
    }
    const auto most = static_cast<std::int32_t>(
        std::min<std::int64_t>(num_left, tree_.TailLength(entry.node)));
    const IdRun ids = tree_.ids(entry.node);
    std::int32_t num_idle = 0;
    if (transaction.IsIdle(ids.back())) {
      const std::size_t num_before = plan.victims.size();
      const auto n = static_cast<std::size_t>(most);
      plan.victims.resize(num_before + n);
      ids.Part(ids.size() - n, n).WriteReversedTo(&plan.victims[num_before]);
      num_idle = static_cast<std::int32_t>(transaction.NumIdle(
          IdRun(std::span(plan.victims).subspan(num_before))));
      plan.victims.resize(num_before + static_cast<std::size_t>(num_idle));
    }
    if (num_idle > 0) {
      const PrefixTree::Shrunk shrunk = tree_.Shrink(entry.node, num_idle);
      plan.shrunk.push_back(shrunk);
      num_left -= num_idle;
      if (shrunk.emptied) {
        const std::int32_t parent = node.parent;
        if (parent >= 0 && tree_.node(parent).num_children == 0 &&
            tree_.node(parent).queue == Queue::kNowhere) {
          PushLeaf(parent);
        }
        continue;
      }
    }
    if (num_idle < most) {
      node.queue = Queue::kParked;
      parked_.push_back(entry.node);
    } else {
      PushLeaf(entry.node);
    }
  }
}

void PrefixCache::Undo(const Plan& plan) noexcept {
  for (std::size_t i = plan.shrunk.size(); i-- > 0;) {
    tree_.Unshrink(plan.shrunk[i]);
  }
  // Keys have fallen back, which the heap does not allow; so it begins anew.
  heap_.Clear();
  parked_.clear();
  for (std::int32_t i = 0; i < tree_.num_slots(); ++i) {
    PrefixTree::Node& node = tree_.node(i);
    node.queue = Queue::kNowhere;
    if (node.num_blocks > 0 && node.num_children == 0) PushLeaf(i);
  }
}

void PrefixCache::Finish(BlockPool::Transaction& transaction,
                         const Plan& plan) noexcept {
  for (const PrefixTree::Shrunk& shrunk : plan.shrunk) {
    tree_.FinishShrink(shrunk);
  }
  cached_.Remove(IdRun(plan.victims));
  transaction.ReleaseCached(IdRun(plan.victims));
  const auto num_evicted = static_cast<std::int64_t>(plan.victims.size());
  events_.AddRemoved(plan.victims);
  stats_.num_cached_blocks -= num_evicted;
  stats_.evicted_blocks += num_evicted;
}

void PrefixCache::Reset() {
  const std::unique_lock lock(tree_mutex_);
  std::vector<std::int32_t> blocks;
  blocks.reserve(static_cast<std::size_t>(stats_.num_cached_blocks));
  cached_.ForEachDescending(
      [&blocks](std::int32_t block) { blocks.push_back(block); });
  events_.Reserve(static_cast<std::int64_t>(blocks.size()));
  tree_.Clear();
  heap_.Clear();
  parked_.clear();
  cached_.Remove(IdRun(blocks));
  // Descending, so that the lowest is the last that goes back to the pool.
  BlockPool::Transaction(*pool_).ReleaseCached(IdRun(blocks));
  events_.AddRemoved(blocks);
  stats_.dropped_blocks += std::exchange(stats_.num_cached_blocks, 0);
}

CacheEvents PrefixCache::Events() {
  const std::unique_lock lock(tree_mutex_);
  return events_.Fetch();
}

PrefixCacheStats PrefixCache::stats() const {
  const std::shared_lock tree_lock(tree_mutex_);
  const std::lock_guard use_lock(use_mutex_);
  PrefixCacheStats stats = stats_;
  stats.num_nodes = tree_.num_nodes();
  stats.num_namespaces = tree_.num_roots();
  return stats;
}

void PrefixCache::Check() const {
  const std::unique_lock lock(tree_mutex_);
  const std::int64_t num_blocks = tree_.Check();
  if (num_blocks != stats_.num_cached_blocks) {
    ThrowBroken(StrCat("num_cached_blocks is ", stats_.num_cached_blocks,
                       ", but the tree has ", num_blocks));
  }
  CheckBlocks();
  CheckQueue();
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

// The ids known as cached are those in the tree, each at one place and in use.
void PrefixCache::CheckBlocks() const {
  const BlockPool::Transaction transaction(*pool_);
  std::vector<bool> in_tree(static_cast<std::size_t>(pool_->num_blocks()));
  for (std::int32_t i = 0; i < tree_.num_slots(); ++i) {
    if (tree_.node(i).num_blocks == 0) continue;
    const IdRun ids = tree_.ids(i);
    for (std::size_t j = 0; j < ids.size(); ++j) {
      const std::int32_t block = ids[j];
      if (!cached_.Contains(block)) {
        ThrowBroken(StrCat("block ", block, " is in node ", i,
                           " and not known as cached"));
      }
      if (in_tree[block]) {
        ThrowBroken(StrCat("block ", block, " is in the tree twice"));
      }
      in_tree[block] = true;
      if (transaction.RefCount(block) < 1) {
        ThrowBroken(StrCat("block ", block, " is cached and free in the pool"));
      }
    }
  }
  for (std::int32_t block = 0; block < pool_->num_blocks(); ++block) {
    if (cached_.Contains(block) && !in_tree[block]) {
      ThrowBroken(
          StrCat("block ", block, " is known as cached and not in the tree"));
    }
    if (named_.Contains(block)) {
      ThrowBroken(StrCat("block ", block, " is named and no insert runs"));
    }
  }
}

// Every leaf waits somewhere, and under a key that is not over its own.
void PrefixCache::CheckQueue() const {
  std::vector<Queue> found(static_cast<std::size_t>(tree_.num_slots()),
                           Queue::kNowhere);
  const auto add = [this, &found](std::int32_t node, Queue queue) {
    if (node < 0 || node >= tree_.num_slots() ||
        tree_.node(node).num_blocks == 0 || found[node] != Queue::kNowhere) {
      ThrowBroken(
          StrCat("node ", node, " waits for eviction twice or does not exist"));
    }
    found[node] = queue;
  };
  for (const EvictionHeap::Entry& entry : heap_.entries()) {
    add(entry.node, Queue::kHeap);
    if (tree_.node(entry.node).num_children == 0 &&
        KeyOfNode(entry.node) < entry.key) {
      ThrowBroken(
          StrCat("node ", entry.node, " waits under a key over its own"));
    }
  }
  for (const std::int32_t node : parked_) add(node, Queue::kParked);
  if (!heap_.IsOrdered()) ThrowBroken("the heap is out of order");
  for (std::int32_t i = 0; i < tree_.num_slots(); ++i) {
    const PrefixTree::Node& node = tree_.node(i);
    if (node.queue != found[i] ||
        (node.num_blocks > 0 && node.num_children == 0 &&
         node.queue == Queue::kNowhere)) {
      ThrowBroken(StrCat("node ", i,
                         " does not wait for eviction where it "
                         "says"));
    }
  }
}

}  // namespace servecore::kv
