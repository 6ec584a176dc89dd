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

// Vectors of the compiler's own kind, which makes as many registers of one as
// the machine needs. Not of 64 bytes: gcc 12 misplaces such under the address
// sanitizer.
using Ids [[gnu::vector_size(32)]] = std::int32_t;
using Words [[gnu::vector_size(32)]] = std::int64_t;
constexpr std::size_t kIds = 8;
constexpr std::size_t kWords = 4;

template <class Vector, class T>
[[gnu::always_inline]] inline Vector Load(const T* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

[[gnu::always_inline]] inline std::int64_t Or(const Words& words) {
  return words[0] | words[1] | words[2] | words[3];
}

[[gnu::always_inline]] inline std::int64_t Sum(const Words& words) {
  return words[0] + words[1] + words[2] + words[3];
}

[[gnu::always_inline]] inline std::int32_t LowestOfRun(
    const std::int32_t* blocks, std::size_t num_blocks) {
  constexpr Ids kIota = {0, 1, 2, 3, 4, 5, 6, 7};
  constexpr auto kHalf = static_cast<std::int32_t>(kIds);
  constexpr auto kSpan = static_cast<std::int32_t>(kRun) - 1;
  // Most of what is no run is told by its ends.
  const std::int32_t first = blocks[0];
  const std::int32_t last = blocks[kSpan];
  if (last != first + kSpan && last != first - kSpan) return -1;
  const std::int32_t lowest = std::min(first, last);
  if (lowest < 0 || static_cast<std::size_t>(lowest) + kRun > num_blocks) {
    return -1;
  }
  const std::int32_t step = last > first ? 1 : -1;
  const Ids rising = step * kIota;
  const Ids different =
      (Load<Ids>(blocks) ^ (first + rising)) |
      (Load<Ids>(blocks + kIds) ^ (first + step * kHalf + rising));
  Words bits;
  std::memcpy(&bits, &different, sizeof bits);
  return Or(bits) == 0 ? lowest : -1;
}

[[gnu::always_inline]] inline bool AddToRun(BlockRefs* refs, BlockRefs one,
                                            std::int64_t& num_idle) {
  constexpr auto kIdle = static_cast<std::int64_t>(kOneCached);
  // MayAdd is false where one of these is negative.
  Words refused = {};
  // Comparisons give -1 where they hold.
  Words minus_idle = {};
  for (std::size_t i = 0; i < kRun; i += kWords) {
    const auto words = Load<Words>(refs + i);
    const Words total = words & 0xffffffff;
    refused |= (total - 1) | (kMaxGuarded - 1 - total);
    if (one == kOneCached) {
      refused |= kMaxCaches - 1 - (words >> 56 & kMaxCaches);
    }
    minus_idle += words == kIdle;
  }
  if (Or(refused) < 0) return false;
  for (std::size_t i = 0; i < kRun; i += kWords) {
    const Words words = Load<Words>(refs + i) + static_cast<std::int64_t>(one);
    std::memcpy(refs + i, &words, sizeof words);
  }
  num_idle -= Sum(minus_idle);
  return true;
}

[[gnu::always_inline]] inline bool SubtractFromRun(BlockRefs* refs,
                                                   BlockRefs one,
                                                   std::int64_t& num_idle) {
  constexpr auto kIdle = static_cast<std::int64_t>(kOneCached);
  const auto less = static_cast<std::int64_t>(one);
  Words freed = {};
  Words minus_idle = {};
  for (std::size_t i = 0; i < kRun; i += kWords) {
    const Words words = Load<Words>(refs + i) - less;
    freed |= words == 0;
    minus_idle += words == kIdle;
  }
  if (Or(freed) != 0) return false;
  for (std::size_t i = 0; i < kRun; i += kWords) {
    const Words words = Load<Words>(refs + i) - less;
    std::memcpy(refs + i, &words, sizeof words);
  }
  num_idle -= Sum(minus_idle);
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
