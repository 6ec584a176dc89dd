// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_set.h"

namespace servecore::kv {
namespace {

constexpr std::uint64_t Bit(std::int32_t block) {
  return std::uint64_t{1} << (block % kGroupBlocks);
}

}  // namespace

BlockSet::BlockSet(std::int32_t num_blocks)
    : words_((static_cast<std::size_t>(num_blocks) + kGroupBlocks - 1) /
             kGroupBlocks) {}

std::size_t BlockSet::AddNew(const IdRun& blocks) noexcept {
  return ForEachInGroups(
      blocks,
      [this](std::int32_t group, std::size_t /*i*/) {
        if (words_[group] != 0) return false;
        words_[group] = ~std::uint64_t{0};
        return true;
      },
      [this](std::int32_t block) {
        std::uint64_t& word = words_[block / kGroupBlocks];
        if ((word & Bit(block)) != 0) return false;
        word |= Bit(block);
        return true;
      });
}

void BlockSet::Remove(const IdRun& blocks) noexcept {
  ForEachInGroups(
      blocks,
      [this](std::int32_t group, std::size_t /*i*/) {
        words_[group] = 0;
        return true;
      },
      [this](std::int32_t block) {
        words_[block / kGroupBlocks] &= ~Bit(block);
        return true;
      });
}

}  // namespace servecore::kv
