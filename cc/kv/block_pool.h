// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_POOL_H_
#define SERVECORE_CC_KV_BLOCK_POOL_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/mutex.h"
#include "cc/kv/block_refs.h"
#include "cc/kv/id_run.h"
#include "cc/kv/ref_table.h"

namespace servecore::kv {

// Several lists of block ids in two flat arrays: list i is
// ids[offsets[i]] .. ids[offsets[i + 1] - 1].
struct BlockLists {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> offsets;  // one more than there are lists
};

// A snapshot. The first six are levels, the last two grow for ever.
struct BlockPoolStats {
  std::int64_t num_blocks = 0;
  std::int64_t num_free = 0;
  std::int64_t num_used = 0;  // num_blocks - num_free
  // Blocks whose only reference is a cache's: what eviction could free.
  std::int64_t num_idle = 0;
  std::int64_t total_refs = 0;  // references on all blocks together
  std::int64_t peak_used = 0;   // the highest num_used so far
  std::int64_t allocated_blocks = 0;
  std::int64_t freed_blocks = 0;  // blocks whose last reference went

  friend bool operator==(const BlockPoolStats&,
                         const BlockPoolStats&) = default;
};

// Reference-counted ids 0 .. num_blocks - 1 for the blocks of a KV cache. It
// hands out numbers; the memory behind them belongs to the engine.
//
// A fresh pool gives 0, 1, 2, ... A block whose last reference goes is the
// first to be given again, because its memory is the likeliest to be warm; a
// list is released in its own order, so its last block is the first reused.
//
// A reference is either loose or guarded. Allocate and Retain make loose ones,
// which any caller gives back by Release. A guarded one belongs to an object,
// such as a PrefixCache or a PrefixMatch, and only that object gives it back:
// a caller who releases once too often is told so at that call, and never
// takes the block away from under such an object.
//
// A guarded reference of a cache is counted as such, and so are the idle
// blocks, which have that one and no other. The count is kept where references
// come and go, whoever makes them do so, and not by the caches; so it cannot
// drift from what eviction could free.
//
// The free list is a stack in one array and the counts are a table
// (ref_table.h), so an operation costs O(1) a block, a fraction of it where ids
// follow one another, and only results are allocated memory. The array forms
// apply the blocks in order under the lock and undo them when one is bad:
// linear time, whatever repeats in the list.
//
// Errors, after each of which nothing has changed:
//   std::out_of_range      a block id outside 0 .. num_blocks - 1
//   std::logic_error       retaining a free block; releasing a block that has
//                          no loose reference (left)
//   std::overflow_error    a count of references that would pass int32, of
//                          guarded ones 2^24 - 1, of caches' 255
//   std::invalid_argument  a negative count; a sum of counts over int32
//
// Ownership: results are vectors that belong to the caller.
// Copies: input arrays are copied once before the lock is taken, so a caller
//   who changes one during the call cannot harm the pool.
// GIL: unknown here; a binding gives it up around a call, or when the call has
//   to wait (cc/base/mutex.h).
// Thread safety: every member may be called from any thread. One mutex guards
//   the object; nothing else is locked, called or waited for while it is held.
//   Whoever has a lock of their own takes it before this one, as PrefixCache
//   does.
class BlockPool {
 public:
  class Transaction;

  // Throws std::invalid_argument unless 0 <= num_blocks <= 2^31 - 1.
  // O(num_blocks); 12.4 bytes a block.
  explicit BlockPool(std::int64_t num_blocks);

  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() = default;

  // n blocks with one reference each, or nothing when fewer are free.
  std::optional<std::vector<std::int32_t>> Allocate(std::int64_t n);

  // One list for each count, or nothing when the pool has too few for all.
  std::optional<std::vector<std::vector<std::int32_t>>> AllocateMany(
      const IntSpan& counts);

  // The same lists in two arrays, for callers that cross a boundary.
  std::optional<BlockLists> AllocateManyFlat(const IntSpan& counts);

  // One more loose reference on a block that is in use.
  void Retain(std::int64_t block);

  // One loose reference less; the block is free when it was the last of all.
  void Release(std::int64_t block);

  // The same for each element in turn, all or nothing. A block named k times
  // gains or loses k references.
  void RetainArray(const IntSpan& blocks);
  void ReleaseArray(const IntSpan& blocks);

  // References of both kinds; 0 for a free block.
  std::int32_t RefCount(std::int64_t block) const;

  std::int32_t num_free() const;
  std::int32_t num_blocks() const { return num_blocks_; }
  BlockPoolStats stats() const;

  // Verifies every invariant of the free list and the counts, in
  // O(num_blocks) time and memory. Throws std::logic_error that names the
  // broken one.
  void Check() const;

 private:
  friend class BlockPoolTestPeer;

  std::int32_t CheckedId(std::int64_t block) const;

  // Each of these wants mutex_ held and its ids checked.
  void AllocateLocked(std::int32_t n, std::int32_t* out);
  // `one` more on each block and one less, all or nothing.
  void RetainLocked(const IdRun& blocks, BlockRefs one);
  void RetainLocked(std::span<const IdRun> runs, BlockRefs one);
  void ReleaseLocked(const IdRun& blocks);
  // One less on each; all have it.
  void TakeLocked(const IdRun& blocks, BlockRefs one) noexcept;
  [[noreturn]] void ThrowNotRetainable(std::int32_t block, BlockRefs one) const;
  [[noreturn]] void ThrowNotReleasable(std::int32_t block) const;

  const std::int32_t num_blocks_;
  mutable Mutex mutex_;
  // free_[0 .. num_free_ - 1] is the stack of free blocks, its top last.
  std::vector<std::int32_t> free_;
  RefTable refs_;
  std::int32_t num_free_ = 0;
  std::int64_t total_refs_ = 0;
  std::int64_t peak_used_ = 0;
  std::int64_t allocated_blocks_ = 0;
  std::int64_t freed_blocks_ = 0;
};

// Several steps on a pool that nobody else's step comes between: the pool's
// mutex is held from construction to destruction. It is for C++ objects that
// own guarded references; while one lives, its thread calls no member of the
// pool itself.
//
// Thread safety: one thread uses it, the one that made it.
class BlockPool::Transaction {
 public:
  explicit Transaction(BlockPool& pool) : pool_(pool), lock_(pool.mutex_) {}

  std::int32_t num_free() const { return pool_.num_free_; }
  std::int64_t num_idle() const { return pool_.refs_.num_idle(); }

  // The next two throw std::out_of_range.
  std::int32_t RefCount(std::int64_t block) const;
  bool IsIdle(std::int64_t block) const;

  // How many of `blocks`, which are the pool's, are idle from the first on.
  std::size_t NumIdle(const IdRun& blocks) const {
    return pool_.refs_.NumIdle(blocks);
  }

  // One guarded reference more on each block, all or nothing. Throws as Retain.
  void RetainGuarded(std::span<const IdRun> runs);

  // One guarded reference less on each block. The caller has one on each: that
  // it has is what guards them, and only asserted.
  void ReleaseGuarded(std::span<const IdRun> runs) noexcept;

  // The same for a cache, which has one on a block at most.
  void RetainCached(std::span<const IdRun> runs);
  void ReleaseCached(const IdRun& blocks) noexcept;

  // As BlockPool::Allocate.
  std::optional<std::vector<std::int32_t>> Allocate(std::int64_t n);

  // The same for as many as `ids` has elements, which are free, into it.
  void AllocateTo(std::span<std::int32_t> ids) noexcept;

 private:
  BlockPool& pool_;
  std::lock_guard<Mutex> lock_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_POOL_H_
