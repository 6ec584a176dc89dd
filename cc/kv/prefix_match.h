// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_PREFIX_MATCH_H_
#define SERVECORE_CC_KV_PREFIX_MATCH_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"

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

  // What was found; not after a move. Both stay readable after Release, as a
  // record: the blocks may then be evicted and given to another at any time.
  std::int64_t num_tokens() const { return num_tokens_; }
  const std::vector<std::int32_t>& block_ids() const { return *block_ids_; }

  // A share in block_ids(), for who reads them after this object is gone.
  const std::shared_ptr<const std::vector<std::int32_t>>& shared_block_ids()
      const {
    return block_ids_;
  }

  // Whether the references are still held: from Match until Release or a move.
  bool held() const { return pool_ != nullptr; }

  // Gives the references back; the second call does nothing. O(blocks).
  void Release() noexcept;

 private:
  friend class PrefixCache;

  // Takes over a guarded reference on each block.
  PrefixMatch(std::shared_ptr<BlockPool> pool, std::int64_t num_tokens,
              std::shared_ptr<const std::vector<std::int32_t>> block_ids)
      : pool_(std::move(pool)),
        num_tokens_(num_tokens),
        block_ids_(std::move(block_ids)) {}

  std::shared_ptr<BlockPool> pool_;  // null once nothing is held
  std::int64_t num_tokens_ = 0;
  std::shared_ptr<const std::vector<std::int32_t>> block_ids_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_PREFIX_MATCH_H_
