// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_SET_H_
#define SERVECORE_CC_KV_BLOCK_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/kv/block_groups.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {

// A set of block ids 0 .. num_blocks - 1, of one bit each.
//
// Costs: Contains O(1). AddNew and Remove O(1) for each id, and for each group
// of 64 in rising or falling order of its ids; they allocate nothing.
// Thread safety: that of a std::vector.
class BlockSet {
 public:
  explicit BlockSet(std::int32_t num_blocks);

  bool Contains(std::int32_t block) const {
    return (words_[block / kGroupBlocks] >> (block % kGroupBlocks) & 1) != 0;
  }

  // Adds `blocks` up to the first that is in the set already, or is in `blocks`
  // for the second time; gives the number added.
  [[nodiscard]] std::size_t AddNew(const IdRun& blocks) noexcept;

  // Takes `blocks`, all of which are in the set, out of it.
  void Remove(const IdRun& blocks) noexcept;

  // Calls `visit` with each of them, the highest first.
  template <class Visit>
  void ForEachDescending(const Visit& visit) const {
    for (std::size_t i = words_.size(); i-- > 0;) {
      for (std::uint64_t left = words_[i]; left != 0;) {
        const auto highest =
            static_cast<std::int32_t>(std::bit_width(left)) - 1;
        left ^= std::uint64_t{1} << highest;
        visit(static_cast<std::int32_t>(i) * kGroupBlocks + highest);
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_SET_H_
