// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_EVENT_LOG_H_
#define SERVECORE_CC_KV_EVENT_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace servecore::kv {

// What happened to the blocks of a cache, in order, in arrays of one length.
struct CacheEvents {
  std::vector<std::uint8_t> is_stored;  // 1: stored; 0: removed
  std::vector<std::int32_t> block_ids;
  // Of a stored block: the block that it continues. -1: none, as for every
  // removed block.
  std::vector<std::int32_t> parent_ids;
  // Events that were dropped before these, because nobody fetched them.
  std::int64_t num_lost = 0;
};

// Events that wait for somebody to fetch them, at most a given number.
//
// Who fetches too late for one has to start anew in any case, so all that wait
// are dropped together, and counted.
//
// Costs: O(1) an event. Thread safety: that of a std::vector.
class EventLog {
 public:
  explicit EventLog(std::int64_t max_events) : max_events_(max_events) {}

  // Makes room for up to n more, so that adding them needs no memory. Throws
  // std::bad_alloc, and then nothing has changed.
  void Reserve(std::int64_t n) {
    const std::size_t needed =
        std::min(waiting_.block_ids.size() + static_cast<std::size_t>(n),
                 static_cast<std::size_t>(max_events_));
    if (needed <= waiting_.block_ids.capacity()) return;
    const std::size_t capacity =
        std::max(needed, 2 * waiting_.block_ids.capacity());
    waiting_.is_stored.reserve(capacity);
    waiting_.parent_ids.reserve(capacity);
    waiting_.block_ids.reserve(capacity);
  }

  // Each of `blocks` continues the one before it, the first one `parent`.
  void AddStored(std::span<const std::int32_t> blocks,
                 std::int32_t parent) noexcept {
    if (blocks.empty() || !MakePlace(blocks.size())) return;
    waiting_.is_stored.insert(waiting_.is_stored.end(), blocks.size(), 1);
    waiting_.parent_ids.push_back(parent);
    waiting_.parent_ids.insert(waiting_.parent_ids.end(), blocks.begin(),
                               blocks.end() - 1);
    waiting_.block_ids.insert(waiting_.block_ids.end(), blocks.begin(),
                              blocks.end());
  }

  void AddRemoved(std::span<const std::int32_t> blocks) noexcept {
    if (blocks.empty() || !MakePlace(blocks.size())) return;
    waiting_.is_stored.insert(waiting_.is_stored.end(), blocks.size(), 0);
    waiting_.parent_ids.insert(waiting_.parent_ids.end(), blocks.size(), -1);
    waiting_.block_ids.insert(waiting_.block_ids.end(), blocks.begin(),
                              blocks.end());
  }

  // All that wait; none do afterwards.
  CacheEvents Fetch() noexcept { return std::exchange(waiting_, {}); }

 private:
  bool MakePlace(std::size_t n) noexcept {
    const std::size_t num_waiting = waiting_.block_ids.size();
    const auto limit = static_cast<std::size_t>(max_events_);
    if (num_waiting + n <= limit) return true;
    waiting_.num_lost += static_cast<std::int64_t>(num_waiting);
    waiting_.is_stored.clear();
    waiting_.parent_ids.clear();
    waiting_.block_ids.clear();
    if (n <= limit) return true;
    waiting_.num_lost += static_cast<std::int64_t>(n);
    return false;
  }

  std::int64_t max_events_;
  CacheEvents waiting_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_EVENT_LOG_H_
