// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_PREFIX_MATCH_H_
#define SERVECORE_CC_KV_PREFIX_MATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {

// The blocks that a lookup found, protected from eviction until this object
// lets them go.
//
// Ownership: it holds one guarded reference on each block and gives it back in
//   Release or the destructor. A caller who wants the blocks for longer retains
//   them in the pool before that.
// Lifetime: it may outlive its cache; it shares ownership of the pool.
// Thread safety: one thread at a time; different matches are independent.
class PrefixMatch {
 public:
  PrefixMatch(PrefixMatch&& other) noexcept;
  PrefixMatch& operator=(PrefixMatch&& other) noexcept;
  PrefixMatch(const PrefixMatch&) = delete;
  PrefixMatch& operator=(const PrefixMatch&) = delete;
  ~PrefixMatch();

  // What was found; nothing after a move. All of it stays readable after
  // Release, as a record: the blocks may then be evicted and given to another
  // at any time.
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_blocks() const { return num_blocks_; }

  // Writes the ids of the blocks to `out`, num_blocks() of them, in order.
  // O(num_blocks): a match keeps them as runs, most of which are counted.
  void WriteBlockIds(std::int32_t* out) const;
  std::vector<std::int32_t> block_ids() const;

  // Whether the references are still held: from Match until Release or a move.
  bool held() const { return pool_ != nullptr; }

  // Gives the references back; the second call does nothing.
  void Release() noexcept;

 private:
  friend class PrefixCache;

  // What a lookup found; no reference is held yet.
  PrefixMatch(std::int64_t block_size, std::span<const IdRun> runs);

  // Takes a guarded reference on each block; throws as the transaction does.
  void Hold(std::shared_ptr<BlockPool> pool);

  std::shared_ptr<BlockPool> pool_;  // null while nothing is held
  std::int64_t num_tokens_ = 0;
  std::int64_t num_blocks_ = 0;
  std::vector<IdRun> runs_;
  std::vector<std::int32_t> stored_;  // ids of runs that do not count
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_PREFIX_MATCH_H_
