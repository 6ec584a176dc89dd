// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_EVICTION_POLICY_H_
#define SERVECORE_CC_KV_EVICTION_POLICY_H_

#include <compare>
#include <cstdint>
#include <limits>
#include <string_view>

namespace servecore::kv {

// Which cached block goes first when room is needed, of those that nothing
// continues and nobody else holds.
enum class EvictionPolicy {
  kLru,   // the least recently used
  kLfu,   // the one that the fewest lookups found; of equals, as kLru
  kSlru,  // one that no lookup has found yet before one that was; then as kLru
  kFifo,  // the one inserted first
  kPriority,  // the one of the lowest priority; of equals, as kLru
};

// "lru", "lfu", "slru", "fifo" or "priority", and back. EvictionPolicyFromName
// throws std::invalid_argument, naming the allowed names, for any other.
EvictionPolicy EvictionPolicyFromName(std::string_view name);
std::string_view EvictionPolicyName(EvictionPolicy policy);

// What policies know of a block. Times are ticks of a cache's clock.
struct BlockUse {
  std::int64_t hits = 0;       // lookups that found it
  std::uint64_t last_use = 0;  // of the last lookup or insert on its path
  // The highest of those inserts'.
  std::int32_t priority = std::numeric_limits<std::int32_t>::min();

  // The use of a block that both uses went through.
  void Add(const BlockUse& other) {
    hits += other.hits;
    last_use = last_use < other.last_use ? other.last_use : last_use;
    priority = priority < other.priority ? other.priority : priority;
  }

  friend bool operator==(const BlockUse&, const BlockUse&) = default;
};

// The order of eviction: the least goes first. A block's key never falls while
// it is cached, and is never over that of the block that it continues, unless
// the policy is kFifo.
struct EvictionKey {
  std::uint64_t rank = 0;
  std::uint64_t time = 0;

  friend auto operator<=>(const EvictionKey&, const EvictionKey&) = default;
};

EvictionKey KeyOf(EvictionPolicy policy, const BlockUse& use,
                  std::uint64_t inserted);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_EVICTION_POLICY_H_
