// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_REF_TABLE_H_
#define SERVECORE_CC_KV_REF_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/kv/block_groups.h"
#include "cc/kv/block_refs.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {

// The references of all blocks of a pool, below BlockPool: which block has how
// many of each kind, without a lock or an order of free blocks.
//
// A block's references are the sum of a word of its own and one of its group of
// 64 neighbours (block_groups.h). What is done to a whole group in a row, as
// when a lookup holds thousands of small blocks, changes the group's word only;
// so a reference on each of 64 blocks costs as much as one on a single block.
// Two references of a kind are alike, so each may be taken away wherever one is
// written: from the group's word, or from the block's own, to which the group's
// is handed down first where only that has one.
//
// A group also counts its blocks whose own word is 0, or a cache's one
// reference. So whether all are in use, which of them are free when the group's
// word goes, and how many become idle is known without a look at 64 words.
//
// Costs: Get O(1). The others O(1) for each block, and for each group in rising
// or falling order of its ids.
// Memory: 8.4 bytes a block.
// Thread safety: that of a std::vector.
class RefTable {
 public:
  // Of blocks 0 .. num_blocks - 1, all free.
  explicit RefTable(std::int32_t num_blocks);

  BlockRefs Get(std::int32_t block) const {
    return words_[block] + groups_[block / kGroupBlocks].refs;
  }

  // Blocks whose only reference is a cache's.
  std::int64_t num_idle() const { return num_idle_; }

  // How many of `blocks`, which are in the table, are idle from the first on.
  std::size_t NumIdle(const IdRun& blocks) const;

  // Adds `one` to each block, up to the first that is not in the table or for
  // which MayAdd is false, and gives the number of blocks done.
  [[nodiscard]] std::size_t Add(const IdRun& blocks, BlockRefs one) noexcept;

  // The same for one block of the table.
  [[nodiscard]] bool AddOne(std::int32_t block, BlockRefs one) noexcept {
    if (!MayAdd(Get(block), one)) return false;
    SetWord(block, words_[block] + one);
    return true;
  }

  // Adds `one` to each block, free or not; no count is at its end.
  void AddToAny(const IdRun& blocks, BlockRefs one) noexcept;
  void AddOneToAny(std::int32_t block, BlockRefs one) noexcept {
    SetWord(block, words_[block] + one);
  }

  struct Taken {
    std::size_t num_done = 0;
    std::size_t num_freed = 0;
  };

  // Takes `one` from each block, up to the first that has none of this kind,
  // and writes those that are free then to `freed`, in order. The blocks are in
  // the table.
  [[nodiscard]] Taken Take(const IdRun& blocks, BlockRefs one,
                           std::int32_t* freed) noexcept;

  // The same for one block: whether it had such a reference.
  [[nodiscard]] bool TakeOne(std::int32_t block, BlockRefs one) noexcept {
    if (!Has(words_[block], one)) {
      if (!Has(Get(block), one)) return false;
      HandDown(block / kGroupBlocks);
    }
    SetWord(block, words_[block] - one);
    return true;
  }

  // Verifies what groups count of their blocks. Throws std::logic_error that
  // names what is wrong.
  void Check() const;

 private:
  friend class RefTableTestPeer;

  // Where one of these bits is set, a count is so high that the sum of a
  // block's two words might pass the end of it. Then only single blocks are
  // counted on, each with a look at the sum.
  static constexpr BlockRefs kHighCounts =
      BlockRefs{0b11} << 62 | BlockRefs{0b11} << 54 | BlockRefs{0xfff} << 20;

  struct Group {
    BlockRefs refs = 0;            // on each of its blocks
    std::int32_t num_zero = 0;     // words that are 0
    std::int32_t num_cached = 0;   // words that are kOneCached
    bool has_high_counts = false;  // a word's; then no more are added to refs
  };

  static std::int32_t NumIdleIn(const Group& group);
  static bool HasRoomFor(const Group& group, BlockRefs one);
  void SetWord(std::int32_t block, BlockRefs word) noexcept {
    Group& group = groups_[block / kGroupBlocks];
    const BlockRefs before = words_[block];
    words_[block] = word;
    const auto change = [](bool is, bool was) {
      return static_cast<std::int32_t>(is) - static_cast<std::int32_t>(was);
    };
    group.num_zero += change(word == 0, before == 0);
    group.num_cached += change(word == kOneCached, before == kOneCached);
    num_idle_ += change(IsIdle(word + group.refs), IsIdle(before + group.refs));
    if ((word & kHighCounts) != 0) [[unlikely]] {
      group.has_high_counts = true;
    }
  }
  void HandDown(std::int32_t group) noexcept;

  const std::int32_t num_blocks_;
  std::vector<BlockRefs> words_;  // whole groups of them
  std::vector<Group> groups_;
  std::int64_t num_idle_ = 0;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_REF_TABLE_H_
