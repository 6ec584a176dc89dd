// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/event_log.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;
using Flags = std::vector<std::uint8_t>;

TEST(EventLogTest, GivesEventsInOrderAndOnce) {
  EventLog log(10);
  log.Reserve(4);
  log.AddStored(Ids{5, 6, 7}, 2);
  log.AddRemoved(Ids{6});
  log.AddStored(Ids{8}, -1);
  log.AddStored(Ids{}, 3);
  const CacheEvents events = log.Fetch();
  EXPECT_EQ(events.is_stored, (Flags{1, 1, 1, 0, 1}));
  EXPECT_EQ(events.block_ids, (Ids{5, 6, 7, 6, 8}));
  EXPECT_EQ(events.parent_ids, (Ids{2, 5, 6, -1, -1}));
  EXPECT_EQ(events.num_lost, 0);
  EXPECT_TRUE(log.Fetch().block_ids.empty());
}

TEST(EventLogTest, DropsAllThatWaitWhenThereAreTooMany) {
  EventLog log(3);
  log.AddStored(Ids{1, 2, 3}, -1);
  log.AddRemoved(Ids{3});
  CacheEvents events = log.Fetch();
  EXPECT_EQ(events.block_ids, Ids{3});
  EXPECT_EQ(events.num_lost, 3);
  // More at once than may wait.
  log.AddRemoved(Ids{4});
  log.AddStored(Ids{1, 2, 3, 4}, -1);
  events = log.Fetch();
  EXPECT_TRUE(events.block_ids.empty());
  EXPECT_EQ(events.num_lost, 5);
  EXPECT_EQ(log.Fetch().num_lost, 0);
}

TEST(EventLogTest, KeepsNothingWhereNothingMayWait) {
  EventLog log(0);
  log.Reserve(100);
  log.AddStored(Ids{1, 2}, -1);
  EXPECT_EQ(log.Fetch().num_lost, 2);
}

TEST(EventLogTest, AddsWithoutMemoryWhatWasReserved) {
  EventLog log(1000);
  log.Reserve(100);
  log.AddRemoved(Ids{0});
  const CacheEvents events = log.Fetch();
  EXPECT_GE(events.block_ids.capacity(), 100U);
  EXPECT_GE(events.parent_ids.capacity(), 100U);
  EXPECT_GE(events.is_stored.capacity(), 100U);
}

}  // namespace
}  // namespace servecore::kv
