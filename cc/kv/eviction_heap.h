// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_EVICTION_HEAP_H_
#define SERVECORE_CC_KV_EVICTION_HEAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/kv/eviction_policy.h"

namespace servecore::kv {

// Nodes in the order of keys that were true when they were pushed.
//
// A lookup raises the key of what it finds, and it would be a waste to reorder
// the heap for each: there are many lookups for one eviction. Since keys only
// rise, an old key is a lower bound of the true one. So the heap is left alone
// until a node comes to its top; whoever takes it there compares the key with
// the true one and pushes it again where that has risen. A node is moved once
// between two evictions at most, however often it was found.
//
// Costs: Push and Pop O(log size); Push allocates no memory within what was
// reserved.
// Thread safety: that of a std::vector.
class EvictionHeap {
 public:
  struct Entry {
    EvictionKey key;
    std::int32_t node = 0;
  };

  bool empty() const { return entries_.empty(); }
  const Entry& top() const { return entries_.front(); }
  const std::vector<Entry>& entries() const { return entries_; }

  void Reserve(std::size_t n) {
    if (n > entries_.capacity()) {
      entries_.reserve(std::max(n, 2 * entries_.capacity()));
    }
  }

  void Push(EvictionKey key, std::int32_t node) {
    entries_.push_back({.key = key, .node = node});
    std::ranges::push_heap(entries_, After);
  }

  Entry Pop() {
    std::ranges::pop_heap(entries_, After);
    const Entry entry = entries_.back();
    entries_.pop_back();
    return entry;
  }

  void Clear() { entries_.clear(); }

  // Whether every entry is at a place that its key allows.
  bool IsOrdered() const { return std::ranges::is_heap(entries_, After); }

 private:
  static bool After(const Entry& a, const Entry& b) { return a.key > b.key; }

  std::vector<Entry> entries_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_EVICTION_HEAP_H_
