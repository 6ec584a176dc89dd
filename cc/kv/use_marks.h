// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_USE_MARKS_H_
#define SERVECORE_CC_KV_USE_MARKS_H_

#include <cstdint>
#include <vector>

#include "cc/kv/eviction_policy.h"

namespace servecore::kv {

// Uses of the first blocks of runs, below PrefixTree. A lookup that ends within
// a run leaves a mark there, so that what it used and what it did not use are
// told apart, and the run need not be split.
//
// The marks of a run are a list, the one that ends last first; the tree keeps
// the number of that one, `first`, and kNone for none. A block was used as its
// run's end was, and as each mark says that ends behind it.
//
// Costs: O(marks passed over). Marks lie in one array and are used again, so
// memory is allocated by Reserve only.
// Thread safety: that of a std::vector.
class UseMarks {
 public:
  static constexpr std::int32_t kNone = -1;

  struct Mark {
    std::int32_t end = 0;  // blocks of the run; less than all
    std::int32_t next = kNone;
    BlockUse use;
  };

  // `counts_hits`: whether BlockUse::hits matters; where it does not, a mark
  // whose other values no longer matter is dropped.
  explicit UseMarks(bool counts_hits) : counts_hits_(counts_hits) {}

  const Mark& operator[](std::int32_t mark) const { return marks_[mark]; }

  // Makes memory ready for one Add. Throws std::bad_alloc.
  void Reserve();

  // Adds `use` to the blocks before `end`.
  void Add(std::int32_t& first, std::int32_t end, const BlockUse& use) noexcept;

  // Drops the marks at the front of a list that say nothing beside `use`, which
  // is of later blocks.
  void DropNeedless(std::int32_t& first, const BlockUse& use) noexcept;

  // Cuts a run's list where the run is cut, behind `num_blocks`. What stays is
  // the second part's; what is given is the first part's, whose use, which was
  // the whole run's, becomes that of its own last block.
  std::int32_t Cut(std::int32_t& first, std::int32_t num_blocks,
                   BlockUse& use) noexcept;

  // Drops the marks of a list from `first` up to, and without, `until`.
  void Drop(std::int32_t first, std::int32_t until = kNone) noexcept;

  // Verifies that num_used marks and those that are free are all. Throws
  // std::logic_error.
  void Check(std::int64_t num_used) const;

 private:
  friend class UseMarksTestPeer;

  void Free(std::int32_t mark) noexcept;

  const bool counts_hits_;
  std::vector<Mark> marks_;
  std::int32_t free_ = kNone;  // linked by next
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_USE_MARKS_H_
