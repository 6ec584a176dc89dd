// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_pool.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cc/base/errors.h"
#include "cc/kv/checked_ids.h"

namespace servecore::kv {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

std::int32_t CheckedNumBlocks(std::int64_t num_blocks) {
  if (num_blocks < 0 || num_blocks > kMaxInt32) {
    throw std::invalid_argument(
        StrCat("num_blocks is ", num_blocks, "; allowed are 0 to ", kMaxInt32));
  }
  return static_cast<std::int32_t>(num_blocks);
}

std::int32_t CheckedCount(std::int64_t n) {
  if (n < 0 || n > kMaxInt32) {
    throw std::invalid_argument(
        StrCat("cannot allocate ", n, " blocks; allowed are 0 to ", kMaxInt32));
  }
  return static_cast<std::int32_t>(n);
}

// The running sums of the counts, beginning with 0.
std::vector<std::int32_t> CheckedOffsets(const IntSpan& counts) {
  std::vector<std::int32_t> offsets;
  offsets.reserve(static_cast<std::size_t>(Size(counts)) + 1);
  offsets.push_back(0);
  std::visit(
      [&offsets](const auto& span) {
        for (std::int64_t i = 0; i < span.size; ++i) {
          const std::int64_t count = span[i];
          if (count < 0) {
            throw std::invalid_argument(StrCat("counts[", i, "] is ", count,
                                               "; a count has to be 0 or "
                                               "more"));
          }
          if (count > kMaxInt32 - offsets.back()) {
            throw std::invalid_argument(
                StrCat("the sum of counts up to counts[", i, "] = ", count,
                       " is over the ", kMaxInt32,
                       " that a pool can have; ask for fewer"));
          }
          offsets.push_back(static_cast<std::int32_t>(offsets.back() + count));
        }
      },
      counts);
  return offsets;
}

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("BlockPool is corrupt: " + what);
}

}  // namespace

BlockPool::BlockPool(std::int64_t num_blocks)
    : num_blocks_(CheckedNumBlocks(num_blocks)),
      free_(static_cast<std::size_t>(num_blocks_)),
      refs_(num_blocks_),
      num_free_(num_blocks_) {
  for (std::int32_t i = 0; i < num_blocks_; ++i) {
    free_[i] = num_blocks_ - 1 - i;
  }
}

std::optional<std::vector<std::int32_t>> BlockPool::Allocate(std::int64_t n) {
  return Transaction(*this).Allocate(n);
}

std::optional<std::vector<std::vector<std::int32_t>>> BlockPool::AllocateMany(
    const IntSpan& counts) {
  const std::vector<std::int32_t> offsets = CheckedOffsets(counts);
  std::vector<std::vector<std::int32_t>> lists;
  lists.reserve(offsets.size() - 1);
  const std::lock_guard lock(mutex_);
  if (offsets.back() > num_free_) return std::nullopt;
  // All memory comes before the first change, since it may not be there.
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    lists.emplace_back(static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  }
  for (std::vector<std::int32_t>& list : lists) {
    AllocateLocked(static_cast<std::int32_t>(list.size()), list.data());
  }
  return lists;
}

std::optional<BlockLists> BlockPool::AllocateManyFlat(const IntSpan& counts) {
  BlockLists lists;
  lists.offsets = CheckedOffsets(counts);
  const std::int32_t total = lists.offsets.back();
  std::optional<std::vector<std::int32_t>> ids = Allocate(total);
  if (!ids.has_value()) return std::nullopt;
  lists.ids = *std::move(ids);
  return lists;
}

void BlockPool::Retain(std::int64_t block) {
  const std::int32_t id = CheckedId(block);
  const std::lock_guard lock(mutex_);
  if (!refs_.AddOne(id, kOneRef)) ThrowNotRetainable(id, kOneRef);
  ++total_refs_;
}

void BlockPool::Release(std::int64_t block) {
  const std::int32_t id = CheckedId(block);
  const std::lock_guard lock(mutex_);
  if (!refs_.TakeOne(id, kOneRef)) ThrowNotReleasable(id);
  --total_refs_;
  if (refs_.Get(id) == 0) {
    free_[num_free_++] = id;
    ++freed_blocks_;
  }
}

void BlockPool::RetainArray(const IntSpan& blocks) {
  const std::vector<std::int32_t> ids =
      CheckedIds(blocks, Size(blocks), num_blocks_, "blocks");
  const std::lock_guard lock(mutex_);
  RetainLocked(IdRun(ids), kOneRef);
}

void BlockPool::ReleaseArray(const IntSpan& blocks) {
  const std::vector<std::int32_t> ids =
      CheckedIds(blocks, Size(blocks), num_blocks_, "blocks");
  const std::lock_guard lock(mutex_);
  ReleaseLocked(IdRun(ids));
}

std::int32_t BlockPool::RefCount(std::int64_t block) const {
  const std::int32_t id = CheckedId(block);
  const std::lock_guard lock(mutex_);
  return TotalOf(refs_.Get(id));
}

std::int32_t BlockPool::num_free() const {
  const std::lock_guard lock(mutex_);
  return num_free_;
}

BlockPoolStats BlockPool::stats() const {
  const std::lock_guard lock(mutex_);
  return {.num_blocks = num_blocks_,
          .num_free = num_free_,
          .num_used = num_blocks_ - num_free_,
          .num_idle = refs_.num_idle(),
          .total_refs = total_refs_,
          .peak_used = peak_used_,
          .allocated_blocks = allocated_blocks_,
          .freed_blocks = freed_blocks_};
}

void BlockPool::Check() const {
  std::vector<bool> is_free(static_cast<std::size_t>(num_blocks_));
  const std::lock_guard lock(mutex_);
  if (num_free_ < 0 || num_free_ > num_blocks_) {
    ThrowBroken(
        StrCat("num_free is ", num_free_, ", not in 0 to ", num_blocks_));
  }
  for (std::int32_t i = 0; i < num_free_; ++i) {
    const std::int32_t id = free_[i];
    if (id < 0 || id >= num_blocks_) {
      ThrowBroken(StrCat("the free list holds ", id, ", not in 0 to ",
                         num_blocks_ - 1));
    }
    if (is_free[id]) {
      ThrowBroken(StrCat("block ", id, " is in the free list twice"));
    }
    is_free[id] = true;
  }
  std::int64_t total_refs = 0;
  for (std::int32_t id = 0; id < num_blocks_; ++id) {
    const BlockRefs refs = refs_.Get(id);
    const std::int32_t total = TotalOf(refs);
    const std::int32_t guarded = GuardedOf(refs);
    if (guarded > total) {
      ThrowBroken(StrCat("block ", id, " has ", guarded,
                         " guarded references of ", total));
    }
    if (CachesOf(refs) > guarded) {
      ThrowBroken(StrCat("block ", id, " is in ", CachesOf(refs),
                         " caches and has ", guarded, " guarded references"));
    }
    if (total < 0 || is_free[id] != (total == 0)) {
      ThrowBroken(StrCat("block ", id, " has ", total, " references and is ",
                         is_free[id] ? "in" : "not in", " the free list"));
    }
    total_refs += total;
  }
  if (total_refs != total_refs_) {
    ThrowBroken(StrCat("total_refs is ", total_refs_, ", but the blocks have ",
                       total_refs));
  }
  refs_.Check();
  const std::int64_t num_used = num_blocks_ - num_free_;
  if (allocated_blocks_ - freed_blocks_ != num_used) {
    ThrowBroken(StrCat(allocated_blocks_, " blocks were allocated and ",
                       freed_blocks_, " freed, but ", num_used, " are in use"));
  }
  if (peak_used_ < num_used || peak_used_ > num_blocks_) {
    ThrowBroken(StrCat("peak_used is ", peak_used_, ", but ", num_used, " of ",
                       num_blocks_, " are in use"));
  }
}

std::int32_t BlockPool::CheckedId(std::int64_t block) const {
  if (block < 0 || block >= num_blocks_) {
    throw std::out_of_range(
        num_blocks_ == 0
            ? StrCat("block id is ", block, ", but the pool has no blocks")
            : StrCat("block id is ", block,
                     "; the blocks of this pool are 0 to ", num_blocks_ - 1));
  }
  return static_cast<std::int32_t>(block);
}

void BlockPool::AllocateLocked(std::int32_t n, std::int32_t* out) {
  if (n == 1) {
    *out = free_[num_free_ - 1];
    refs_.AddOneToAny(*out, kOneRef);
  } else {
    const auto top = free_.cbegin() + num_free_;
    std::reverse_copy(top - n, top, out);
    refs_.AddToAny(IdRun({out, static_cast<std::size_t>(n)}), kOneRef);
  }
  num_free_ -= n;
  total_refs_ += n;
  allocated_blocks_ += n;
  peak_used_ = std::max<std::int64_t>(peak_used_, num_blocks_ - num_free_);
}

void BlockPool::RetainLocked(const IdRun& blocks, BlockRefs one) {
  const std::size_t num_done = refs_.Add(blocks, one);
  total_refs_ += static_cast<std::int64_t>(num_done);
  if (num_done == blocks.size()) return;
  try {
    ThrowNotRetainable(blocks[num_done], one);
  } catch (...) {
    TakeLocked(blocks.Part(0, num_done), one);
    throw;
  }
}

void BlockPool::RetainLocked(std::span<const IdRun> runs, BlockRefs one) {
  std::size_t num_done = 0;
  try {
    for (; num_done < runs.size(); ++num_done) {
      RetainLocked(runs[num_done], one);
    }
  } catch (...) {
    for (const IdRun& blocks : runs.first(num_done)) TakeLocked(blocks, one);
    throw;
  }
}

void BlockPool::ReleaseLocked(const IdRun& blocks) {
  const auto [num_done, num_freed] =
      refs_.Take(blocks, kOneRef, free_.data() + num_free_);
  if (num_done < blocks.size()) {
    try {
      ThrowNotReleasable(blocks[num_done]);
    } catch (...) {
      // What was freed went above the top of the stack, which has not moved.
      refs_.AddToAny(blocks.Part(0, num_done), kOneRef);
      throw;
    }
  }
  num_free_ += static_cast<std::int32_t>(num_freed);
  freed_blocks_ += static_cast<std::int64_t>(num_freed);
  total_refs_ -= static_cast<std::int64_t>(blocks.size());
}

void BlockPool::TakeLocked(const IdRun& blocks, BlockRefs one) noexcept {
  const auto [num_done, num_freed] =
      refs_.Take(blocks, one, free_.data() + num_free_);
  assert(num_done == blocks.size());
  num_free_ += static_cast<std::int32_t>(num_freed);
  freed_blocks_ += static_cast<std::int64_t>(num_freed);
  total_refs_ -= static_cast<std::int64_t>(num_done);
}

void BlockPool::ThrowNotReleasable(std::int32_t block) const {
  const std::int32_t total = TotalOf(refs_.Get(block));
  throw std::logic_error(
      total == 0
          ? StrCat("cannot release block ", block,
                   ": it is free; it was released once too often")
          : StrCat("cannot release block ", block, ": its ", total,
                   " reference(s) belong to prefix caches and matches; it "
                   "was released once too often"));
}

void BlockPool::ThrowNotRetainable(std::int32_t block, BlockRefs one) const {
  const BlockRefs refs = refs_.Get(CheckedId(block));
  if (TotalOf(refs) == 0) {
    throw std::logic_error(StrCat("cannot retain block ", block,
                                  ": it is free; allocate it first"));
  }
  if (one == kOneCached && CachesOf(refs) == kMaxCaches) {
    throw std::overflow_error(StrCat("block ", block, " is in ", kMaxCaches,
                                     " prefix caches, the most it can be in"));
  }
  if (one != kOneRef && GuardedOf(refs) == kMaxGuarded) {
    throw std::overflow_error(
        StrCat("block ", block, " has ", kMaxGuarded,
               " references of caches and matches, the most it can have"));
  }
  throw std::overflow_error(StrCat("block ", block, " has ", TotalOf(refs),
                                   " references, the most it can have"));
}

std::int32_t BlockPool::Transaction::RefCount(std::int64_t block) const {
  return TotalOf(pool_.refs_.Get(pool_.CheckedId(block)));
}

bool BlockPool::Transaction::IsIdle(std::int64_t block) const {
  return kv::IsIdle(pool_.refs_.Get(pool_.CheckedId(block)));
}

void BlockPool::Transaction::RetainGuarded(std::span<const IdRun> runs) {
  pool_.RetainLocked(runs, kOneGuarded);
}

void BlockPool::Transaction::ReleaseGuarded(
    std::span<const IdRun> runs) noexcept {
  for (const IdRun& blocks : runs) pool_.TakeLocked(blocks, kOneGuarded);
}

void BlockPool::Transaction::RetainCached(std::span<const IdRun> runs) {
  pool_.RetainLocked(runs, kOneCached);
}

void BlockPool::Transaction::ReleaseCached(const IdRun& blocks) noexcept {
  pool_.TakeLocked(blocks, kOneCached);
}

std::optional<std::vector<std::int32_t>> BlockPool::Transaction::Allocate(
    std::int64_t n) {
  const std::int32_t count = CheckedCount(n);
  if (count > pool_.num_free_) return std::nullopt;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  pool_.AllocateLocked(count, ids.data());
  return ids;
}

void BlockPool::Transaction::AllocateTo(std::span<std::int32_t> ids) noexcept {
  pool_.AllocateLocked(static_cast<std::int32_t>(ids.size()), ids.data());
}

}  // namespace servecore::kv
