// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/eviction_policy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

namespace servecore::kv {
namespace {

TEST(EvictionPolicyTest, NamesAndPoliciesMatch) {
  for (const EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kLfu, EvictionPolicy::kSlru,
        EvictionPolicy::kFifo, EvictionPolicy::kPriority}) {
    EXPECT_EQ(EvictionPolicyFromName(EvictionPolicyName(policy)), policy);
  }
  EXPECT_THROW(EvictionPolicyName(static_cast<EvictionPolicy>(5)),
               std::invalid_argument);
  try {
    EvictionPolicyFromName("LRU");
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "eviction policy is 'LRU'; allowed are 'lru', 'lfu', 'slru', "
                 "'fifo' and 'priority'");
  }
}

using Limits = std::numeric_limits<std::int32_t>;

TEST(EvictionPolicyTest, LruGoesByTheLastUseAlone) {
  const BlockUse early = {.hits = 9, .last_use = 1, .priority = 9};
  const BlockUse late = {.hits = 0, .last_use = 2, .priority = 0};
  EXPECT_LT(KeyOf(EvictionPolicy::kLru, early, 9),
            KeyOf(EvictionPolicy::kLru, late, 0));
}

TEST(EvictionPolicyTest, LfuGoesByHitsAndThenByTheLastUse) {
  constexpr auto kLfu = EvictionPolicy::kLfu;
  EXPECT_LT(KeyOf(kLfu, {.hits = 1, .last_use = 9}, 0),
            KeyOf(kLfu, {.hits = 2, .last_use = 1}, 0));
  EXPECT_LT(KeyOf(kLfu, {.hits = 2, .last_use = 1}, 0),
            KeyOf(kLfu, {.hits = 2, .last_use = 2}, 0));
}

TEST(EvictionPolicyTest, SlruProtectsWhatWasFoundAtAll) {
  constexpr auto kSlru = EvictionPolicy::kSlru;
  EXPECT_LT(KeyOf(kSlru, {.hits = 0, .last_use = 9}, 0),
            KeyOf(kSlru, {.hits = 1, .last_use = 1}, 0));
  EXPECT_LT(KeyOf(kSlru, {.hits = 7, .last_use = 1}, 0),
            KeyOf(kSlru, {.hits = 1, .last_use = 2}, 0));
}

TEST(EvictionPolicyTest, FifoGoesByTheInsertAlone) {
  EXPECT_LT(KeyOf(EvictionPolicy::kFifo, {.hits = 9, .last_use = 9}, 1),
            KeyOf(EvictionPolicy::kFifo, {.hits = 0, .last_use = 1}, 2));
}

TEST(EvictionPolicyTest, PriorityGoesByItsWholeRangeAndThenByTheLastUse) {
  const auto key = [](std::int32_t priority, std::uint64_t last_use) {
    return KeyOf(EvictionPolicy::kPriority,
                 {.hits = 0, .last_use = last_use, .priority = priority}, 0);
  };
  EXPECT_LT(key(Limits::min(), 9), key(-1, 1));
  EXPECT_LT(key(-1, 9), key(0, 1));
  EXPECT_LT(key(0, 9), key(Limits::max(), 1));
  EXPECT_LT(key(0, 1), key(0, 2));
}

TEST(EvictionPolicyTest, UsesAddUp) {
  BlockUse use = {.hits = 1, .last_use = 5, .priority = -3};
  use.Add({.hits = 2, .last_use = 4, .priority = 2});
  EXPECT_EQ(use, (BlockUse{.hits = 3, .last_use = 5, .priority = 2}));
  use.Add({});
  EXPECT_EQ(use, (BlockUse{.hits = 3, .last_use = 5, .priority = 2}));
}

}  // namespace
}  // namespace servecore::kv
