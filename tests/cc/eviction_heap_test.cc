// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/eviction_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cc/kv/eviction_policy.h"

namespace servecore::kv {
namespace {

void PushAndPop(std::uint32_t seed) {
  std::mt19937 random(seed);
  EvictionHeap heap;
  std::vector<EvictionKey> keys;
  for (std::int32_t node = 0; node < 500; ++node) {
    keys.push_back({.rank = random() % 3, .time = random()});
    heap.Push(keys.back(), node);
    EXPECT_TRUE(heap.IsOrdered());
  }
  std::vector<EvictionKey> sorted = keys;
  std::ranges::sort(sorted);
  for (const EvictionKey& key : sorted) {
    EXPECT_EQ(heap.top().key, key);
    const EvictionHeap::Entry entry = heap.Pop();
    EXPECT_EQ(entry.key, key);
    EXPECT_EQ(keys[static_cast<std::size_t>(entry.node)], key);
  }
  EXPECT_TRUE(heap.empty());
}

TEST(EvictionHeapTest, GivesTheLeastKeyFirst) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    PushAndPop(seed);
  }
}

TEST(EvictionHeapTest, PushesWithoutMemoryWhatWasReserved) {
  EvictionHeap heap;
  heap.Reserve(100);
  const std::size_t capacity = heap.entries().capacity();
  EXPECT_GE(capacity, 100U);
  for (std::int32_t node = 0; node < 100; ++node) heap.Push({}, node);
  EXPECT_EQ(heap.entries().capacity(), capacity);
  heap.Clear();
  EXPECT_TRUE(heap.empty());
}

}  // namespace
}  // namespace servecore::kv
