// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_NAMED_BLOCKS_H_
#define SERVECORE_CC_KV_NAMED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cc/kv/block_set.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {

// The blocks that one PrefixCache::Insert names, below it: each of them may be
// named once, and none that is cached at another place.
//
// Costs: O(1) a block named; NameRest as BlockSet::AddNew.
// Lifetime: borrows its arguments. Its end takes back what it wrote into the
//   sets, but for what was kept.
// Thread safety: that of a std::vector.
class NamedBlocks {
 public:
  // `cached`: the blocks that the cache has. `named`: an empty set of equal
  // size. `ids`: what the insert names, one block for each place.
  NamedBlocks(BlockSet& cached, BlockSet& named,
              std::span<const std::int32_t> ids)
      : cached_(cached), named_(named), ids_(ids) {}
  NamedBlocks(const NamedBlocks&) = delete;
  NamedBlocks& operator=(const NamedBlocks&) = delete;
  ~NamedBlocks();

  // ids[i], for a place where the cache has another block. This and NameRest
  // throw std::invalid_argument for a block that is named before or cached.
  void NameDuplicate(std::size_t i);

  // All ids from `begin` on, which are `runs`, for places of their own. They
  // are in `cached` from here on.
  void NameRest(std::size_t begin, std::span<const IdRun> runs);

  // Lets the blocks of NameRest stay in `cached`.
  void Keep() noexcept { num_added_ = 0; }

  std::span<const std::int32_t> duplicates() const { return duplicates_; }

 private:
  [[noreturn]] void Refuse(std::size_t i) const;

  BlockSet& cached_;
  BlockSet& named_;
  const std::span<const std::int32_t> ids_;
  std::vector<std::int32_t> duplicates_;
  std::size_t begin_ = 0;      // of NameRest
  std::size_t num_added_ = 0;  // to cached_, from there on
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_NAMED_BLOCKS_H_
