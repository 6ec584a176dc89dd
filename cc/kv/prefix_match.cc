// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_match.h"

#include <utility>

namespace servecore::kv {

PrefixMatch::PrefixMatch(PrefixMatch&& other) noexcept
    : pool_(std::move(other.pool_)),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      block_ids_(std::move(other.block_ids_)) {}

PrefixMatch& PrefixMatch::operator=(PrefixMatch&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::move(other.pool_);
    num_tokens_ = std::exchange(other.num_tokens_, 0);
    block_ids_ = std::move(other.block_ids_);
  }
  return *this;
}

PrefixMatch::~PrefixMatch() { Release(); }

void PrefixMatch::Release() noexcept {
  // The last owner of the pool may be this one, so the pool has to outlive the
  // transaction on it.
  const std::shared_ptr<BlockPool> pool = std::exchange(pool_, nullptr);
  if (pool == nullptr || block_ids_->empty()) return;
  BlockPool::Transaction(*pool).ReleaseGuarded(*block_ids_);
}

}  // namespace servecore::kv
