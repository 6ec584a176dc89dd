// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_match.h"

#include <cstddef>
#include <utility>

namespace servecore::kv {

PrefixMatch::PrefixMatch(std::int64_t block_size, std::span<const IdRun> runs) {
  std::size_t num_stored = 0;
  for (const IdRun& run : runs) {
    num_blocks_ += static_cast<std::int64_t>(run.size());
    num_stored += run.step() == 0 ? run.size() : 0;
  }
  num_tokens_ = num_blocks_ * block_size;
  // Before any run refers to them, so that they stay where they are.
  stored_.reserve(num_stored);
  for (IdRun run : runs) {
    if (run.step() == 0) {
      const std::size_t before = stored_.size();
      stored_.insert(stored_.end(), run.stored().begin(), run.stored().end());
      run = IdRun{std::span(stored_).subspan(before)};
    }
    if (runs_.empty() || !runs_.back().Extend(run)) runs_.push_back(run);
  }
}

PrefixMatch::PrefixMatch(PrefixMatch&& other) noexcept
    : pool_(std::move(other.pool_)),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      num_blocks_(std::exchange(other.num_blocks_, 0)),
      runs_(std::move(other.runs_)),
      stored_(std::move(other.stored_)) {}

PrefixMatch& PrefixMatch::operator=(PrefixMatch&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::move(other.pool_);
    num_tokens_ = std::exchange(other.num_tokens_, 0);
    num_blocks_ = std::exchange(other.num_blocks_, 0);
    runs_ = std::move(other.runs_);
    stored_ = std::move(other.stored_);
  }
  return *this;
}

PrefixMatch::~PrefixMatch() { Release(); }

void PrefixMatch::WriteBlockIds(std::int32_t* out) const {
  for (const IdRun& run : runs_) {
    run.WriteTo(out);
    out += run.size();
  }
}

std::vector<std::int32_t> PrefixMatch::block_ids() const {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(num_blocks_));
  WriteBlockIds(ids.data());
  return ids;
}

void PrefixMatch::Hold(std::shared_ptr<BlockPool> pool) {
  if (num_blocks_ > 0) BlockPool::Transaction(*pool).RetainGuarded(runs_);
  pool_ = std::move(pool);
}

void PrefixMatch::Release() noexcept {
  // The last owner of the pool may be this one, so the pool has to outlive the
  // transaction on it.
  const std::shared_ptr<BlockPool> pool = std::exchange(pool_, nullptr);
  if (pool == nullptr || num_blocks_ == 0) return;
  BlockPool::Transaction(*pool).ReleaseGuarded(runs_);
}

}  // namespace servecore::kv
