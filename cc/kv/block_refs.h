// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_REFS_H_
#define SERVECORE_CC_KV_BLOCK_REFS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace servecore::kv {

// The references of a block in one word, so that a change of several counts is
// one addition and a question about them one comparison: bits 0 to 31 count
// all, 32 to 55 the guarded ones among them, 56 to 63 those of caches among
// these.
using BlockRefs = std::uint64_t;
inline constexpr BlockRefs kOneRef = 1;
inline constexpr BlockRefs kOneGuarded = (BlockRefs{1} << 32) + kOneRef;
inline constexpr BlockRefs kOneCached = (BlockRefs{1} << 56) + kOneGuarded;

inline constexpr std::int32_t kMaxGuarded = (1 << 24) - 1;
inline constexpr std::int32_t kMaxCaches = 255;

constexpr std::int32_t TotalOf(BlockRefs refs) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(refs));
}
constexpr std::int32_t GuardedOf(BlockRefs refs) {
  return static_cast<std::int32_t>(refs >> 32) & kMaxGuarded;
}
constexpr std::int32_t CachesOf(BlockRefs refs) {
  return static_cast<std::int32_t>(refs >> 56);
}
// Whether a cache's is the only reference.
constexpr bool IsIdle(BlockRefs refs) { return refs == kOneCached; }

// Whether `refs` are so that `one` may be added without a closer look: the
// block is in use, and no count is near its end.
constexpr bool MayAdd(BlockRefs refs, BlockRefs one) {
  return static_cast<std::uint32_t>(refs) - 1 < kMaxGuarded - 1U &&
         (one != kOneCached || refs < BlockRefs{kMaxCaches} << 56);
}

// What a bulk operation did.
struct BulkResult {
  std::size_t num_done = 0;   // blocks changed, from the first on
  std::int64_t num_idle = 0;  // of those, idle ones (before adding, or after
                              // subtracting)
  std::int32_t num_freed = 0;
};

// Adds `one` to each block, up to the first for which MayAdd is false or that
// is not in `refs`.
//
// The ids that a cache holds mostly come in runs, rising or falling by one,
// since that is how a pool gives them; so sixteen at a time are looked at, and
// a run's words changed as vectors. A lookup of small blocks spends its time
// here.
//
// Costs: O(blocks), 0.5 ns a block of a run and 1.7 ns of others (2.6 GHz).
// Thread safety: none; the pool's lock is held.
BulkResult AddToBlocks(std::span<BlockRefs> refs,
                       std::span<const std::int32_t> blocks, BlockRefs one);

// Takes `one` from each block, all of which have it, and writes those that are
// free then to `freed`, in order.
BulkResult SubtractFromBlocks(std::span<BlockRefs> refs,
                              std::span<const std::int32_t> blocks,
                              BlockRefs one, std::int32_t* freed);

// The lowest id if blocks[0 .. 15] are a run of `num_blocks` or fewer ids that
// rise or fall by one; else -1.
std::int32_t RunOf16(const std::int32_t* blocks, std::size_t num_blocks);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_REFS_H_
