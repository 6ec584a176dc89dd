// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_REFS_H_
#define SERVECORE_CC_KV_BLOCK_REFS_H_

#include <cstdint>

namespace servecore::kv {

// The references of a block in one word, so that a change of several counts is
// one addition and a question about them one comparison: bits 0 to 31 count
// all, 32 to 55 the guarded ones among them, 56 to 63 those of caches among
// these.
using BlockRefs = std::uint64_t;
inline constexpr BlockRefs kOneRef = 1;
inline constexpr BlockRefs kOneGuarded = (BlockRefs{1} << 32) + kOneRef;
inline constexpr BlockRefs kOneCached = (BlockRefs{1} << 56) + kOneGuarded;

inline constexpr std::int32_t kMaxRefs = 0x7fffffff;
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

// Whether a reference of the kind of `one`, which is one of the three above,
// may be added: the block is in use, and no count is at its end.
constexpr bool MayAdd(BlockRefs refs, BlockRefs one) {
  return TotalOf(refs) > 0 && TotalOf(refs) < kMaxRefs &&
         (one == kOneRef || GuardedOf(refs) < kMaxGuarded) &&
         (one != kOneCached || CachesOf(refs) < kMaxCaches);
}

// Whether there is a reference of that kind to take away.
constexpr bool Has(BlockRefs refs, BlockRefs one) {
  if (one == kOneCached) return CachesOf(refs) > 0;
  if (one == kOneGuarded) return GuardedOf(refs) > CachesOf(refs);
  return TotalOf(refs) > GuardedOf(refs);
}

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_REFS_H_
