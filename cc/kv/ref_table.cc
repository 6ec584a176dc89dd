// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/ref_table.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

#include "cc/base/errors.h"

namespace servecore::kv {
namespace {

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("BlockPool is corrupt: " + what);
}

std::size_t NumGroups(std::int32_t num_blocks) {
  return (static_cast<std::size_t>(num_blocks) + kGroupBlocks - 1) /
         kGroupBlocks;
}

}  // namespace

RefTable::RefTable(std::int32_t num_blocks)
    : num_blocks_(num_blocks),
      words_(NumGroups(num_blocks) * kGroupBlocks),
      groups_(NumGroups(num_blocks), {.num_zero = kGroupBlocks}) {}

std::int32_t RefTable::NumIdleIn(const Group& group) {
  if (group.refs == 0) return group.num_cached;
  return group.refs == kOneCached ? group.num_zero : 0;
}

bool RefTable::HasRoomFor(const Group& group, BlockRefs one) {
  return !group.has_high_counts && ((group.refs + one) & kHighCounts) == 0;
}

// Writes a group's references to each of its blocks.
void RefTable::HandDown(std::int32_t group) noexcept {
  Group& from = groups_[group];
  const auto words = std::span(words_).subspan(
      group * std::size_t{kGroupBlocks}, kGroupBlocks);
  std::int32_t num_cached = 0;
  BlockRefs high_counts = 0;
  for (BlockRefs& word : words) {
    word += from.refs;
    num_cached += word == kOneCached ? 1 : 0;
    high_counts |= word & kHighCounts;
  }
  from = {.refs = 0,
          .num_zero = 0,
          .num_cached = num_cached,
          .has_high_counts = high_counts != 0};
}

std::size_t RefTable::Add(const IdRun& blocks, BlockRefs one) noexcept {
  std::int64_t idle_change = 0;
  const std::size_t num_done = ForEachInGroups(
      blocks,
      [&](std::int32_t g, std::size_t /*i*/) {
        if (g >= num_blocks_ / kGroupBlocks) return false;
        Group& group = groups_[g];
        const bool all_in_use = group.refs != 0 || group.num_zero == 0;
        if (!all_in_use || !HasRoomFor(group, one)) return false;
        idle_change -= NumIdleIn(group);
        group.refs += one;
        return true;
      },
      [&](std::int32_t block) {
        return block >= 0 && block < num_blocks_ && AddOne(block, one);
      });
  num_idle_ += idle_change;
  return num_done;
}

void RefTable::AddToAny(const IdRun& blocks, BlockRefs one) noexcept {
  std::int64_t idle_change = 0;
  ForEachInGroups(
      blocks,
      [&](std::int32_t g, std::size_t /*i*/) {
        Group& group = groups_[g];
        if (!HasRoomFor(group, one)) return false;
        idle_change -= NumIdleIn(group);
        group.refs += one;
        idle_change += NumIdleIn(group);
        return true;
      },
      [&](std::int32_t block) {
        AddOneToAny(block, one);
        return true;
      });
  num_idle_ += idle_change;
}

RefTable::Taken RefTable::Take(const IdRun& blocks, BlockRefs one,
                               std::int32_t* freed) noexcept {
  std::size_t num_freed = 0;
  std::int64_t idle_change = 0;
  const std::size_t num_done = ForEachInGroups(
      blocks,
      [&](std::int32_t g, std::size_t first) {
        Group& group = groups_[g];
        if (!Has(group.refs, one)) return false;
        idle_change -= NumIdleIn(group);
        group.refs -= one;
        idle_change += NumIdleIn(group);
        if (group.refs != 0 || group.num_zero == 0) return true;
        const IdRun ids = blocks.Part(first, kGroupBlocks);
        if (group.num_zero == kGroupBlocks) {
          ids.WriteTo(freed + num_freed);
          num_freed += kGroupBlocks;
          return true;
        }
        for (std::size_t i = 0; i < kGroupBlocks; ++i) {
          if (words_[ids[i]] == 0) freed[num_freed++] = ids[i];
        }
        return true;
      },
      [&](std::int32_t block) {
        if (!TakeOne(block, one)) return false;
        if (Get(block) == 0) freed[num_freed++] = block;
        return true;
      });
  num_idle_ += idle_change;
  return {.num_done = num_done, .num_freed = num_freed};
}

std::size_t RefTable::NumIdle(const IdRun& blocks) const {
  return ForEachInGroups(
      blocks,
      [this](std::int32_t group, std::size_t /*i*/) {
        return NumIdleIn(groups_[group]) == kGroupBlocks;
      },
      [this](std::int32_t block) { return IsIdle(Get(block)); });
}

void RefTable::Check() const {
  std::int64_t num_idle = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const auto words =
        std::span(words_).subspan(g * kGroupBlocks, kGroupBlocks);
    const auto num_zero = std::ranges::count(words, BlockRefs{0});
    const auto num_cached = std::ranges::count(words, kOneCached);
    if (group.num_zero != num_zero || group.num_cached != num_cached) {
      ThrowBroken(StrCat("group ", g, " counts ", group.num_zero,
                         " words of 0 and ", group.num_cached,
                         " of a cache's one reference, but has ", num_zero,
                         " and ", num_cached));
    }
    const bool has_high_counts = std::ranges::any_of(
        words, [](BlockRefs word) { return (word & kHighCounts) != 0; });
    if (has_high_counts && !group.has_high_counts) {
      ThrowBroken(StrCat("group ", g, " has a high count and denies it"));
    }
    num_idle += NumIdleIn(group);
  }
  if (num_idle != num_idle_) {
    ThrowBroken(StrCat("num_idle is ", num_idle_, ", but ", num_idle,
                       " blocks are idle"));
  }
}

}  // namespace servecore::kv
