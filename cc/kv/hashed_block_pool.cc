// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/hashed_block_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cc/base/errors.h"

namespace servecore::kv {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kNone = -1;

std::int32_t CheckedCount(std::int64_t n, const char* what) {
  if (n < 0 || n > kMaxInt32) {
    throw std::invalid_argument(
        StrCat(what, " is ", n, "; allowed are 0 to ", kMaxInt32));
  }
  return static_cast<std::int32_t>(n);
}

void CheckKey(std::string_view key) {
  if (key.empty() || key.size() > HashedBlockPool::kMaxKeySize) {
    throw std::invalid_argument(StrCat("a key has ", key.size(),
                                       " bytes; allowed are 1 to ",
                                       HashedBlockPool::kMaxKeySize));
  }
}

// Multiply and fold, 8 bytes at a time: every bit of the key reaches the low
// bits, which choose the bucket, however regular the keys are.
std::uint32_t HashOf(std::string_view key) {
  std::uint64_t hash = key.size() * 0x9e3779b97f4a7c15U;
  while (!key.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(key.size(), sizeof(word));
    std::memcpy(&word, key.data(), size);
    hash = (hash ^ word) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
    key.remove_prefix(size);
  }
  return static_cast<std::uint32_t>(hash ^ (hash >> 29));
}

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("HashedBlockPool is corrupt: " + what);
}

}  // namespace

HashedBlockPool::HashedBlockPool(std::int64_t num_blocks)
    : num_blocks_(CheckedCount(num_blocks, "num_blocks")),
      prev_(static_cast<std::size_t>(num_blocks_) + 1),
      next_(static_cast<std::size_t>(num_blocks_) + 1),
      refs_(static_cast<std::size_t>(num_blocks_)),
      first_key_(static_cast<std::size_t>(num_blocks_), kNone),
      buckets_(16, kNone),
      num_free_(num_blocks_) {
  for (std::int32_t i = 0; i < num_blocks_; ++i) {
    prev_[i] = i == 0 ? num_blocks_ : i - 1;
    next_[i] = i + 1;
  }
  prev_[num_blocks_] = num_blocks_ == 0 ? 0 : num_blocks_ - 1;
  next_[num_blocks_] = 0;
}

std::optional<std::vector<std::int32_t>> HashedBlockPool::Allocate(
    std::int64_t n, std::vector<RemovedKey>* removed) {
  const std::int32_t count =
      CheckedCount(n, "the number of blocks to allocate");
  const std::lock_guard lock(mutex_);
  if (count > num_free_) return std::nullopt;
  // All memory comes before the first change, since it may not be there.
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::vector<RemovedKey> gone;
  std::int32_t block = next_[num_blocks_];
  for (std::int32_t& id : ids) {
    id = block;
    block = next_[block];
    if (removed == nullptr) continue;
    for (std::int32_t e = first_key_[id]; e != kNone;
         e = entries_[e].block_next) {
      gone.push_back({id, std::string(entries_[e].text())});
    }
  }
  if (removed != nullptr) removed->reserve(removed->size() + gone.size());
  for (const std::int32_t id : ids) {
    RemoveKeysLocked(id, nullptr);
    prev_[id] = next_[id] = kNone;
    refs_[id] = 1;
  }
  next_[num_blocks_] = block;
  prev_[block] = num_blocks_;
  num_free_ -= count;
  total_refs_ += count;
  allocated_blocks_ += count;
  if (removed != nullptr) std::ranges::move(gone, std::back_inserter(*removed));
  return ids;
}

void HashedBlockPool::Touch(const IntSpan& blocks) {
  const std::vector<std::int32_t> ids = CheckedIds(blocks);
  const std::lock_guard lock(mutex_);
  std::size_t done = 0;
  for (; done < ids.size() && refs_[ids[done]] != kMaxInt32; ++done) {
    ++refs_[ids[done]];
  }
  if (done != ids.size()) {
    const std::int32_t full = ids[done];
    while (done > 0) --refs_[ids[--done]];
    throw std::overflow_error(StrCat("block ", full, " would have more than ",
                                     kMaxInt32, " references"));
  }
  for (const std::int32_t id : ids) {
    if (next_[id] != kNone) Unlink(id);
  }
  total_refs_ += static_cast<std::int64_t>(ids.size());
}

void HashedBlockPool::Free(const IntSpan& blocks, bool last) {
  const std::vector<std::int32_t> ids = CheckedIds(blocks);
  std::vector<std::int32_t> freed;
  freed.reserve(ids.size());
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids[i];
    if (refs_[id] == 0) {
      for (std::size_t k = 0; k < i; ++k) ++refs_[ids[k]];
      throw std::logic_error(StrCat(
          "cannot free block ", id, ", element ", i, ": it has ", refs_[id],
          " references", refs_[id] == 0 ? "" : " and is named more often"));
    }
    if (--refs_[id] == 0) freed.push_back(id);
  }
  const std::int32_t front = next_[num_blocks_];
  const auto joins_end = [this, last](std::int32_t id) {
    return last || first_key_[id] != kNone;
  };
  for (const std::int32_t id : freed) {
    if (!joins_end(id)) LinkBefore(id, front);
  }
  // After those: in an empty queue, the front is where the end is.
  for (const std::int32_t id : freed) {
    if (joins_end(id)) LinkBefore(id, num_blocks_);
  }
  total_refs_ -= static_cast<std::int64_t>(ids.size());
  freed_blocks_ += static_cast<std::int64_t>(freed.size());
}

std::vector<std::uint8_t> HashedBlockPool::Insert(
    const IntSpan& blocks, std::span<const std::string_view> keys) {
  const std::vector<std::int32_t> ids = CheckedIds(blocks);
  if (ids.size() != keys.size()) {
    throw std::invalid_argument(StrCat("there are ", ids.size(), " blocks and ",
                                       keys.size(),
                                       " keys; each block needs one"));
  }
  std::vector<std::uint32_t> hashes;
  hashes.reserve(keys.size());
  for (const std::string_view key : keys) {
    CheckKey(key);
    hashes.push_back(HashOf(key));
  }
  std::vector<std::uint8_t> is_duplicate(ids.size());
  const std::lock_guard lock(mutex_);
  Reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    PrefetchFor(hashes, i);
    if (first_key_[ids[i]] != kNone) {
      const bool is_twice =
          std::ranges::count(std::span(ids).first(i), ids[i]) > 0;
      for (std::size_t k = i; k-- > 0;) {
        RemoveKeysLocked(ids[k], nullptr);
        --removed_keys_;
      }
      throw std::logic_error(
          StrCat("block ", ids[i], ", element ", i,
                 is_twice ? ", occurs twice" : ", has a key already",
                 "; RemoveKeys takes the keys of a block away"));
    }
    is_duplicate[i] = AddLocked(ids[i], keys[i], hashes[i]) ? 1 : 0;
  }
  return is_duplicate;
}

bool HashedBlockPool::AddKey(std::int64_t block, std::string_view key) {
  const std::int32_t id = CheckedId(block);
  CheckKey(key);
  const std::uint32_t hash = HashOf(key);
  const std::lock_guard lock(mutex_);
  if (HasLocked(id, key, hash)) {
    throw std::logic_error(StrCat("block ", id, " has that key already"));
  }
  Reserve(1);
  return AddLocked(id, key, hash);
}

std::vector<std::int32_t> HashedBlockPool::Find(
    std::span<const std::string_view> keys) const {
  std::vector<std::int32_t> found;
  found.reserve(keys.size());
  std::vector<std::uint32_t> hashes;
  hashes.reserve(keys.size());
  for (const std::string_view key : keys) hashes.push_back(HashOf(key));
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    PrefetchFor(hashes, i);
    const std::int32_t entry = FindLocked(keys[i], hashes[i]);
    if (entry == kNone) break;
    found.push_back(entries_[entry].block);
  }
  return found;
}

std::optional<std::int32_t> HashedBlockPool::FindOne(
    std::string_view key) const {
  const std::uint32_t hash = HashOf(key);
  const std::lock_guard lock(mutex_);
  const std::int32_t entry = FindLocked(key, hash);
  if (entry == kNone) return std::nullopt;
  return entries_[entry].block;
}

bool HashedBlockPool::Has(std::int64_t block, std::string_view key) const {
  const std::int32_t id = CheckedId(block);
  const std::lock_guard lock(mutex_);
  return HasLocked(id, key, HashOf(key));
}

std::vector<RemovedKey> HashedBlockPool::RemoveKeys(const IntSpan& blocks) {
  const std::vector<std::int32_t> ids = CheckedIds(blocks);
  std::vector<RemovedKey> removed;
  const std::lock_guard lock(mutex_);
  std::int64_t num_keys = 0;
  for (const std::int32_t id : ids) num_keys += NumKeysLocked(id);
  removed.reserve(static_cast<std::size_t>(num_keys));
  for (const std::int32_t id : ids) RemoveKeysLocked(id, &removed);
  return removed;
}

std::vector<std::string> HashedBlockPool::KeysOf(std::int64_t block) const {
  const std::int32_t id = CheckedId(block);
  std::vector<std::string> keys;
  const std::lock_guard lock(mutex_);
  for (std::int32_t e = first_key_[id]; e != kNone;
       e = entries_[e].block_next) {
    keys.emplace_back(entries_[e].text());
  }
  return keys;
}

void HashedBlockPool::Reset(std::int64_t max_used) {
  const std::int32_t allowed = CheckedCount(max_used, "max_used");
  const std::lock_guard lock(mutex_);
  if (num_blocks_ - num_free_ > allowed) {
    throw std::logic_error(StrCat(num_blocks_ - num_free_,
                                  " blocks are in use; allowed are ", allowed,
                                  ", so free the others first"));
  }
  std::ranges::fill(first_key_, kNone);
  std::ranges::fill(buckets_, kNone);
  entries_.clear();
  unused_entry_ = kNone;
  removed_keys_ += num_keys_;
  num_keys_ = num_keyed_ = 0;
}

std::pair<std::int32_t, std::int32_t> HashedBlockPool::FreeNeighbors(
    std::int64_t block) const {
  const std::int32_t id = block == kNone ? num_blocks_ : CheckedId(block);
  const std::lock_guard lock(mutex_);
  if (id != num_blocks_ && refs_[id] > 0) {
    throw std::logic_error(
        StrCat("block ", id, " is in use, so it is not among the free blocks"));
  }
  const auto or_none = [this](std::int32_t neighbor) {
    return neighbor == num_blocks_ ? kNone : neighbor;
  };
  return {or_none(prev_[id]), or_none(next_[id])};
}

std::int32_t HashedBlockPool::RefCount(std::int64_t block) const {
  const std::int32_t id = CheckedId(block);
  const std::lock_guard lock(mutex_);
  return refs_[id];
}

std::vector<std::int32_t> HashedBlockPool::FreeBlocks() const {
  std::vector<std::int32_t> ids;
  const std::lock_guard lock(mutex_);
  ids.reserve(static_cast<std::size_t>(num_free_));
  for (std::int32_t id = next_[num_blocks_]; id != num_blocks_;
       id = next_[id]) {
    ids.push_back(id);
  }
  return ids;
}

std::int32_t HashedBlockPool::num_free() const {
  const std::lock_guard lock(mutex_);
  return num_free_;
}

HashedBlockPoolStats HashedBlockPool::stats() const {
  const std::lock_guard lock(mutex_);
  return {.num_blocks = num_blocks_,
          .num_free = num_free_,
          .total_refs = total_refs_,
          .num_keyed = num_keyed_,
          .num_keys = num_keys_,
          .allocated_blocks = allocated_blocks_,
          .freed_blocks = freed_blocks_,
          .removed_keys = removed_keys_};
}

std::int32_t HashedBlockPool::CheckedId(std::int64_t block) const {
  if (block < 0 || block >= num_blocks_) {
    throw std::out_of_range(StrCat("there is no block ", block,
                                   "; the pool has ", num_blocks_,
                                   ", counted from 0"));
  }
  return static_cast<std::int32_t>(block);
}

std::vector<std::int32_t> HashedBlockPool::CheckedIds(
    const IntSpan& blocks) const {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(Size(blocks)));
  std::visit(
      [this, &ids](const auto& span) {
        for (std::int64_t i = 0; i < span.size; ++i) {
          ids.push_back(CheckedId(span[i]));
        }
      },
      blocks);
  return ids;
}

void HashedBlockPool::Unlink(std::int32_t block) {
  next_[prev_[block]] = next_[block];
  prev_[next_[block]] = prev_[block];
  prev_[block] = next_[block] = kNone;
  --num_free_;
}

void HashedBlockPool::LinkBefore(std::int32_t block, std::int32_t next) {
  prev_[block] = prev_[next];
  next_[block] = next;
  next_[prev_[next]] = block;
  prev_[next] = block;
  ++num_free_;
}

std::int32_t HashedBlockPool::FindLocked(std::string_view key,
                                         std::uint32_t hash) const {
  std::int32_t entry = buckets_[hash & (buckets_.size() - 1)];
  while (entry != kNone &&
         (entries_[entry].hash != hash || entries_[entry].text() != key)) {
    entry = entries_[entry].chain_next;
  }
  return entry;
}

void HashedBlockPool::PrefetchFor(std::span<const std::uint32_t> hashes,
                                  std::size_t i) const {
  constexpr std::size_t kAhead = 8;
  const std::size_t mask = buckets_.size() - 1;
  if (i + 2 * kAhead < hashes.size()) {
    __builtin_prefetch(&buckets_[hashes[i + 2 * kAhead] & mask]);
  }
  if (i + kAhead >= hashes.size()) return;
  const std::int32_t entry = buckets_[hashes[i + kAhead] & mask];
  if (entry != kNone) __builtin_prefetch(&entries_[entry].hash);
}

bool HashedBlockPool::HasLocked(std::int32_t block, std::string_view key,
                                std::uint32_t hash) const {
  std::int32_t entry = first_key_[block];
  while (entry != kNone &&
         (entries_[entry].hash != hash || entries_[entry].text() != key)) {
    entry = entries_[entry].block_next;
  }
  return entry != kNone;
}

void HashedBlockPool::Reserve(std::size_t num_more) {
  // Mostly each block gets one key: room for that at once, since to grow means
  // to move everything.
  constexpr std::int32_t kMaxAtOnce = 1 << 20;
  const std::size_t wanted =
      std::max(static_cast<std::size_t>(num_keys_) + num_more,
               static_cast<std::size_t>(std::min(num_blocks_, kMaxAtOnce)));
  if (wanted > entries_.capacity()) {
    entries_.reserve(std::max(wanted, 2 * entries_.capacity()));
  }
  if (wanted <= buckets_.size()) return;
  std::size_t size = buckets_.size();
  while (size < wanted) size *= 2;
  std::vector<std::int32_t> buckets(size, kNone);
  for (std::int32_t entry : buckets_) {
    while (entry != kNone) {
      const std::int32_t next = entries_[entry].chain_next;
      std::int32_t& bucket = buckets[entries_[entry].hash & (size - 1)];
      entries_[entry].chain_next = bucket;
      bucket = entry;
      entry = next;
    }
  }
  buckets_ = std::move(buckets);
}

bool HashedBlockPool::AddLocked(std::int32_t block, std::string_view key,
                                std::uint32_t hash) {
  const std::int32_t twin = FindLocked(key, hash);
  std::int32_t entry = unused_entry_;
  if (entry == kNone) {
    entry = static_cast<std::int32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    unused_entry_ = entries_[entry].chain_next;
  }
  Entry& e = entries_[entry];
  std::memcpy(e.key.data(), key.data(), key.size());
  e.hash = hash;
  e.key_size = static_cast<std::int32_t>(key.size());
  e.block = block;
  e.twin_next = e.block_next = e.chain_next = kNone;
  if (twin == kNone) {
    std::int32_t& bucket = buckets_[hash & (buckets_.size() - 1)];
    e.chain_next = bucket;
    e.twin_prev = entry;
    bucket = entry;
  } else {
    Entry& first = entries_[twin];
    e.twin_prev = first.twin_prev;
    entries_[first.twin_prev].twin_next = entry;
    first.twin_prev = entry;
  }
  std::int32_t* link = &first_key_[block];
  num_keyed_ += *link == kNone ? 1 : 0;
  while (*link != kNone) link = &entries_[*link].block_next;
  *link = entry;
  ++num_keys_;
  return twin != kNone;
}

void HashedBlockPool::RemoveEntry(std::int32_t entry) {
  Entry& e = entries_[entry];
  const std::int32_t first = FindLocked(e.text(), e.hash);
  if (first == entry) {
    // The next twin, if any, takes the place in the chain.
    std::int32_t* link = &buckets_[e.hash & (buckets_.size() - 1)];
    while (*link != entry) link = &entries_[*link].chain_next;
    if (e.twin_next == kNone) {
      *link = e.chain_next;
    } else {
      *link = e.twin_next;
      entries_[e.twin_next].chain_next = e.chain_next;
      entries_[e.twin_next].twin_prev = e.twin_prev;
    }
  } else {
    entries_[e.twin_prev].twin_next = e.twin_next;
    entries_[e.twin_next == kNone ? first : e.twin_next].twin_prev =
        e.twin_prev;
  }
  e.block = kNone;
  e.chain_next = unused_entry_;
  unused_entry_ = entry;
  --num_keys_;
  ++removed_keys_;
}

// `removed` has room for the block's keys.
void HashedBlockPool::RemoveKeysLocked(std::int32_t block,
                                       std::vector<RemovedKey>* removed) {
  std::int32_t entry = first_key_[block];
  if (entry == kNone) return;
  first_key_[block] = kNone;
  --num_keyed_;
  while (entry != kNone) {
    const std::int32_t next = entries_[entry].block_next;
    if (removed != nullptr) {
      removed->push_back({block, std::string(entries_[entry].text())});
    }
    RemoveEntry(entry);
    entry = next;
  }
}

std::int64_t HashedBlockPool::NumKeysLocked(std::int32_t block) const {
  std::int64_t count = 0;
  for (std::int32_t e = first_key_[block]; e != kNone;
       e = entries_[e].block_next) {
    ++count;
  }
  return count;
}

void HashedBlockPool::Check() const {
  const std::lock_guard lock(mutex_);
  CheckQueue();
  CheckKeys();
}

void HashedBlockPool::CheckQueue() const {
  std::vector<bool> is_queued(static_cast<std::size_t>(num_blocks_));
  std::int64_t num_queued = 0;
  std::int32_t last = num_blocks_;
  for (std::int32_t id = next_[num_blocks_]; id != num_blocks_;
       id = next_[id]) {
    if (id < 0 || id > num_blocks_) {
      ThrowBroken(StrCat("block ", last, " of the queue is followed by ", id));
    }
    if (is_queued[id]) ThrowBroken(StrCat("block ", id, " is queued twice"));
    if (prev_[id] != last) {
      ThrowBroken(StrCat("block ", id, " follows ", last, " and links back to ",
                         prev_[id]));
    }
    is_queued[id] = true;
    ++num_queued;
    last = id;
  }
  if (prev_[num_blocks_] != last || num_queued != num_free_) {
    ThrowBroken(StrCat("the queue ends with ", last, " after ", num_queued,
                       " blocks, not with ", prev_[num_blocks_], " after ",
                       num_free_));
  }
  std::int64_t total = 0;
  for (std::int32_t id = 0; id < num_blocks_; ++id) {
    if (refs_[id] < 0 || (refs_[id] == 0) != is_queued[id]) {
      ThrowBroken(StrCat("block ", id, " has ", refs_[id],
                         " references and is ", is_queued[id] ? "" : "not ",
                         "queued"));
    }
    if (!is_queued[id] && (prev_[id] != kNone || next_[id] != kNone)) {
      ThrowBroken(StrCat("block ", id, " is in use and has links"));
    }
    total += refs_[id];
  }
  if (total != total_refs_) {
    ThrowBroken(StrCat("there are ", total, " references, not ", total_refs_));
  }
}

void HashedBlockPool::CheckKeys() const {
  std::int64_t num_keyed = 0;
  std::int64_t num_of_blocks = 0;
  for (std::int32_t id = 0; id < num_blocks_; ++id) {
    num_keyed += first_key_[id] == kNone ? 0 : 1;
    for (std::int32_t e = first_key_[id]; e != kNone;
         e = entries_[e].block_next) {
      if (++num_of_blocks > num_keys_ || entries_[e].block != id) {
        ThrowBroken(StrCat("a key of block ", id, " belongs to block ",
                           entries_[e].block, " or is linked twice"));
      }
    }
  }
  std::int64_t num_in_table = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::int32_t first = buckets_[b]; first != kNone;
         first = entries_[first].chain_next) {
      const Entry& head = entries_[first];
      if ((head.hash & (buckets_.size() - 1)) != b ||
          FindLocked(head.text(), HashOf(head.text())) != first) {
        ThrowBroken(StrCat("a key of block ", head.block, " cannot be found"));
      }
      std::int32_t last = head.twin_prev;
      for (std::int32_t e = first; e != kNone; e = entries_[e].twin_next) {
        if (++num_in_table > num_keys_ || entries_[e].twin_prev != last ||
            entries_[e].text() != head.text()) {
          ThrowBroken(StrCat("the blocks of a key of block ", head.block,
                             " are linked wrongly"));
        }
        last = e;
      }
      if (head.twin_prev != last) {
        ThrowBroken(StrCat("block ", head.block,
                           " does not know the last "
                           "block of its key"));
      }
    }
  }
  if (num_keyed != num_keyed_ || num_of_blocks != num_keys_ ||
      num_in_table != num_keys_) {
    ThrowBroken(StrCat(num_keyed, " blocks have ", num_of_blocks,
                       " keys and the table ", num_in_table, ", not ",
                       num_keyed_, " and ", num_keys_));
  }
}

}  // namespace servecore::kv
