// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_HASHED_BLOCK_POOL_H_
#define SERVECORE_CC_KV_HASHED_BLOCK_POOL_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/base/mutex.h"

namespace servecore::kv {

// A key that left the pool, and the block that had it.
struct RemovedKey {
  std::int32_t block = 0;
  std::string key;

  friend bool operator==(const RemovedKey&, const RemovedKey&) = default;
};

// A snapshot. The first five are levels, the others grow for ever.
struct HashedBlockPoolStats {
  std::int64_t num_blocks = 0;
  std::int64_t num_free = 0;
  std::int64_t total_refs = 0;
  std::int64_t num_keyed = 0;  // blocks with a key, free or not
  std::int64_t num_keys = 0;   // keys of all blocks together
  std::int64_t allocated_blocks = 0;
  std::int64_t freed_blocks = 0;  // blocks whose last reference went
  std::int64_t removed_keys = 0;

  friend bool operator==(const HashedBlockPoolStats&,
                         const HashedBlockPoolStats&) = default;
};

// Reference-counted ids 0 .. num_blocks - 1 for the blocks of a KV cache, which
// are found by opaque keys, such as a hash of their tokens, while they are in
// use and after they were freed, until they are given again.
//
// It is the counterpart of BlockPool and PrefixCache for engines that hash
// tokens themselves: two blocks with one key count as holding the same tokens,
// so the engine's hash has to be one that does not collide.
//
// Free blocks form a queue. Allocate takes from its front, and the keys of what
// it takes are forgotten. A fresh pool gives 0, 1, 2, ... When the last
// reference of a block goes, a block with a key joins the end, so that the
// least recently freed is given first; one without a key can serve nobody and
// joins the front. Those that one call frees keep the call's order in either
// place. Touch takes a block out of the queue wherever it is.
//
// Several blocks may have the same key: Find gives the one that got it first.
// A block may have several keys, the first of which is its primary one.
//
// The queue and the chains of the hash table are links in flat arrays, so an
// operation costs O(1) a block, and no memory is allocated for one except
// while the table grows.
//
// Errors, after each of which nothing has changed:
//   std::out_of_range      a block id outside 0 .. num_blocks - 1
//   std::logic_error       freeing a free block, or one block more often than
//                          it has references; a key for a block that has one
//                          already (Insert) or has that key (AddKey); Reset
//                          with more blocks in use than said
//   std::overflow_error    a reference count that would pass int32
//   std::invalid_argument  a negative count; a key of 0 bytes or over 56; as
//                          many keys as blocks are wanted and are not given
//
// Ownership: results belong to the caller; keys are copied.
// Copies: input ids are copied once before the lock is taken. Keys are read
//   under the lock, so they stay unchanged until the call returns.
// GIL: unknown here; a binding gives it up around a call, or when the call has
//   to wait (cc/base/mutex.h).
// Thread safety: every member may be called from any thread. One mutex guards
//   the object; nothing else is locked or waited for while it is held.
class HashedBlockPool {
 public:
  static constexpr std::size_t kMaxKeySize = 56;

  // Throws std::invalid_argument unless 0 <= num_blocks <= 2^31 - 1.
  // O(num_blocks); 16 bytes a block, and about 96 a key once there are keys.
  explicit HashedBlockPool(std::int64_t num_blocks);

  HashedBlockPool(const HashedBlockPool&) = delete;
  HashedBlockPool& operator=(const HashedBlockPool&) = delete;
  ~HashedBlockPool() = default;

  // n blocks with one reference each, or nothing when fewer are free. The keys
  // that they had are gone then, and are appended to `removed` if that is not
  // null, in the order of the blocks, the primary key of each first.
  std::optional<std::vector<std::int32_t>> Allocate(
      std::int64_t n, std::vector<RemovedKey>* removed = nullptr);

  // One reference more on each block, free or not.
  void Touch(const IntSpan& blocks);

  // One reference less on each block. A block named k times loses k. With
  // `last`, those that are free then join the end whether they have a key or
  // not: for blocks that somebody still reads until they are given again.
  void Free(const IntSpan& blocks, bool last = false);

  // Gives each block its first key, keys[i] to blocks[i]. The result says of
  // each whether another block had the key already (1) or not (0).
  std::vector<std::uint8_t> Insert(const IntSpan& blocks,
                                   std::span<const std::string_view> keys);

  // One key more for a block. True when another block had it already.
  bool AddKey(std::int64_t block, std::string_view key);

  // The first block of each key, up to the first key that nobody has.
  std::vector<std::int32_t> Find(std::span<const std::string_view> keys) const;

  // The first block of a key, if any has it.
  std::optional<std::int32_t> FindOne(std::string_view key) const;

  // Whether the block has the key.
  bool Has(std::int64_t block, std::string_view key) const;

  // Makes the blocks forget their keys; references stay as they are. Gives
  // what went, in the order of the blocks.
  std::vector<RemovedKey> RemoveKeys(const IntSpan& blocks);

  // The keys of a block, its primary one first.
  std::vector<std::string> KeysOf(std::int64_t block) const;

  // Forgets all keys. At most `max_used` blocks may be in use.
  void Reset(std::int64_t max_used);

  std::int32_t RefCount(std::int64_t block) const;
  std::vector<std::int32_t> FreeBlocks() const;  // front first

  // The free blocks before and behind a free one in the queue, -1 beyond its
  // ends. Of block -1: the last and the first. Throws std::logic_error for a
  // block in use.
  std::pair<std::int32_t, std::int32_t> FreeNeighbors(std::int64_t block) const;

  std::int32_t num_free() const;
  std::int32_t num_blocks() const { return num_blocks_; }
  HashedBlockPoolStats stats() const;

  // Verifies every invariant of the queue, the counts and the table, in
  // O(num_blocks + keys) time and memory. Throws std::logic_error that names
  // the broken one.
  void Check() const;

 private:
  friend class HashedBlockPoolTestPeer;

  // A key of a block. Those of equal keys form a list, oldest first, whose
  // first one stands for all of them in the chain of its bucket.
  struct Entry {
    std::array<char, kMaxKeySize> key;
    std::uint32_t hash;
    std::int32_t key_size;
    std::int32_t block;
    std::int32_t chain_next;  // first ones only; of unused entries: the next
    std::int32_t twin_prev;   // of the first one: the last one
    std::int32_t twin_next;
    std::int32_t block_next;  // the block's next key

    std::string_view text() const {
      return {key.data(), static_cast<std::size_t>(key_size)};
    }
  };

  std::int32_t CheckedId(std::int64_t block) const;
  std::vector<std::int32_t> CheckedIds(const IntSpan& blocks) const;

  // Each of these wants mutex_ held and its arguments checked.
  void Unlink(std::int32_t block);
  void LinkBefore(std::int32_t block, std::int32_t next);
  std::int32_t FindLocked(std::string_view key, std::uint32_t hash) const;
  bool HasLocked(std::int32_t block, std::string_view key,
                 std::uint32_t hash) const;
  // Asks for the memory that the lookups after the i-th will want.
  void PrefetchFor(std::span<const std::uint32_t> hashes, std::size_t i) const;
  void Reserve(std::size_t num_more);
  bool AddLocked(std::int32_t block, std::string_view key, std::uint32_t hash);
  void RemoveEntry(std::int32_t entry);
  void RemoveKeysLocked(std::int32_t block, std::vector<RemovedKey>* removed);
  std::int64_t NumKeysLocked(std::int32_t block) const;
  void CheckQueue() const;
  void CheckKeys() const;

  const std::int32_t num_blocks_;
  mutable Mutex mutex_;
  // The queue is a ring through the sentinel num_blocks_. A block in use links
  // to nothing (-1).
  std::vector<std::int32_t> prev_;
  std::vector<std::int32_t> next_;
  std::vector<std::int32_t> refs_;
  std::vector<std::int32_t> first_key_;  // of each block: an entry, or -1
  std::vector<Entry> entries_;
  std::vector<std::int32_t> buckets_;  // a power of two of entries, or -1
  std::int32_t unused_entry_ = -1;
  std::int32_t num_free_ = 0;
  std::int64_t total_refs_ = 0;
  std::int64_t num_keyed_ = 0;
  std::int64_t num_keys_ = 0;
  std::int64_t allocated_blocks_ = 0;
  std::int64_t freed_blocks_ = 0;
  std::int64_t removed_keys_ = 0;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_HASHED_BLOCK_POOL_H_
