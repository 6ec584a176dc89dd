// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_refs.h"

#include <algorithm>
#include <cstring>

namespace servecore::kv {
namespace {

constexpr std::size_t kRun = 16;

// It says that a vector's way between functions depends on the machine; all of
// these functions are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

// Vectors of the compiler's own kind; it makes as many registers of one as the
// machine needs.
using Ids [[gnu::vector_size(64)]] = std::int32_t;
using Words [[gnu::vector_size(64)]] = std::int64_t;
constexpr std::size_t kWords = 8;

template <class Vector, class T>
[[gnu::always_inline]] inline Vector Load(const T* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

[[gnu::always_inline]] inline std::int64_t Or(const Words& words) {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < kWords; ++i) all |= words[i];
  return all;
}

[[gnu::always_inline]] inline std::int64_t Sum(const Words& words) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kWords; ++i) sum += words[i];
  return sum;
}

[[gnu::always_inline]] inline std::int32_t LowestOfRun(
    const std::int32_t* blocks, std::size_t num_blocks) {
  constexpr Ids kIota = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto span = static_cast<std::int32_t>(kRun) - 1;
  // Most of what is no run is told by its ends.
  const std::int32_t first = blocks[0];
  const std::int32_t last = blocks[kRun - 1];
  if (last != first + span && last != first - span) return -1;
  const std::int32_t lowest = std::min(first, last);
  if (lowest < 0 || static_cast<std::size_t>(lowest) + kRun > num_blocks) {
    return -1;
  }
  const Ids expected = last > first ? first + kIota : first - kIota;
  const Ids different = Load<Ids>(blocks) ^ expected;
  Words bits;
  std::memcpy(&bits, &different, sizeof bits);
  return Or(bits) == 0 ? lowest : -1;
}

[[gnu::always_inline]] inline bool AddToRun(BlockRefs* refs, BlockRefs one,
                                            std::int64_t& num_idle) {
  const auto low = Load<Words>(refs);
  const auto high = Load<Words>(refs + kWords);
  // MayAdd is false where one of these is negative.
  const Words low_total = low & 0xffffffff;
  const Words high_total = high & 0xffffffff;
  Words refused = (low_total - 1) | (kMaxGuarded - 1 - low_total) |
                  (high_total - 1) | (kMaxGuarded - 1 - high_total);
  if (one == kOneCached) {
    refused |= kMaxCaches - 1 - (low >> 56 & kMaxCaches);
    refused |= kMaxCaches - 1 - (high >> 56 & kMaxCaches);
  }
  if (Or(refused) < 0) return false;
  constexpr auto kIdle = static_cast<std::int64_t>(kOneCached);
  // Comparisons give -1 where they hold.
  num_idle -= Sum((low == kIdle) + (high == kIdle));
  const Words new_low = low + static_cast<std::int64_t>(one);
  const Words new_high = high + static_cast<std::int64_t>(one);
  std::memcpy(refs, &new_low, sizeof new_low);
  std::memcpy(refs + kWords, &new_high, sizeof new_high);
  return true;
}

[[gnu::always_inline]] inline bool SubtractFromRun(BlockRefs* refs,
                                                   BlockRefs one,
                                                   std::int64_t& num_idle) {
  const Words low = Load<Words>(refs) - static_cast<std::int64_t>(one);
  const Words high =
      Load<Words>(refs + kWords) - static_cast<std::int64_t>(one);
  if (Or((low == 0) | (high == 0)) != 0) return false;
  constexpr auto kIdle = static_cast<std::int64_t>(kOneCached);
  num_idle -= Sum((low == kIdle) + (high == kIdle));
  std::memcpy(refs, &low, sizeof low);
  std::memcpy(refs + kWords, &high, sizeof high);
  return true;
}

[[gnu::always_inline]] inline BulkResult Add(
    std::span<BlockRefs> refs, std::span<const std::int32_t> blocks,
    BlockRefs one) {
  BulkResult result;
  BlockRefs* const all = refs.data();
  std::size_t i = 0;
  while (i < blocks.size()) {
    std::size_t end = std::min(i + kRun, blocks.size());
    if (end - i == kRun) {
      const std::int32_t lowest = LowestOfRun(&blocks[i], refs.size());
      if (lowest >= 0 && AddToRun(all + lowest, one, result.num_idle)) {
        i = end;
        continue;
      }
    }
    for (; i < end; ++i) {
      const auto block = static_cast<std::uint32_t>(blocks[i]);
      if (block >= refs.size() || !MayAdd(all[block], one)) [[unlikely]] {
        result.num_done = i;
        return result;
      }
      result.num_idle += IsIdle(all[block]) ? 1 : 0;
      all[block] += one;
    }
  }
  result.num_done = i;
  return result;
}

[[gnu::always_inline]] inline BulkResult Subtract(
    std::span<BlockRefs> refs, std::span<const std::int32_t> blocks,
    BlockRefs one, std::int32_t* freed) {
  BulkResult result;
  BlockRefs* const all = refs.data();
  std::size_t i = 0;
  while (i < blocks.size()) {
    const std::size_t end = std::min(i + kRun, blocks.size());
    if (end - i == kRun) {
      const std::int32_t lowest = LowestOfRun(&blocks[i], refs.size());
      if (lowest >= 0 && SubtractFromRun(all + lowest, one, result.num_idle)) {
        i = end;
        continue;
      }
    }
    for (; i < end; ++i) {
      const BlockRefs left = all[blocks[i]] -= one;
      result.num_idle += IsIdle(left) ? 1 : 0;
      if (left == 0) freed[result.num_freed++] = blocks[i];
    }
  }
  result.num_done = i;
  return result;
}

// The same source for each width of vectors that machines have.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] BulkResult AddAvx512(
    std::span<BlockRefs> refs, std::span<const std::int32_t> blocks,
    BlockRefs one) {
  return Add(refs, blocks, one);
}
[[gnu::target("avx2")]] BulkResult AddAvx2(std::span<BlockRefs> refs,
                                           std::span<const std::int32_t> blocks,
                                           BlockRefs one) {
  return Add(refs, blocks, one);
}
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] BulkResult SubtractAvx512(
    std::span<BlockRefs> refs, std::span<const std::int32_t> blocks,
    BlockRefs one, std::int32_t* freed) {
  return Subtract(refs, blocks, one, freed);
}
[[gnu::target("avx2")]] BulkResult SubtractAvx2(
    std::span<BlockRefs> refs, std::span<const std::int32_t> blocks,
    BlockRefs one, std::int32_t* freed) {
  return Subtract(refs, blocks, one, freed);
}

const bool kHasAvx512 = __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq");
const bool kHasAvx2 = __builtin_cpu_supports("avx2");

}  // namespace

BulkResult AddToBlocks(std::span<BlockRefs> refs,
                       std::span<const std::int32_t> blocks, BlockRefs one) {
  if (kHasAvx512) return AddAvx512(refs, blocks, one);
  if (kHasAvx2) return AddAvx2(refs, blocks, one);
  return Add(refs, blocks, one);
}

BulkResult SubtractFromBlocks(std::span<BlockRefs> refs,
                              std::span<const std::int32_t> blocks,
                              BlockRefs one, std::int32_t* freed) {
  if (kHasAvx512) return SubtractAvx512(refs, blocks, one, freed);
  if (kHasAvx2) return SubtractAvx2(refs, blocks, one, freed);
  return Subtract(refs, blocks, one, freed);
}

std::int32_t RunOf16(const std::int32_t* blocks, std::size_t num_blocks) {
  return LowestOfRun(blocks, num_blocks);
}

}  // namespace servecore::kv
