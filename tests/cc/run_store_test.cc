// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/run_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace servecore::kv {
namespace {

constexpr std::int64_t kSegment = RunStore::kSegmentWords;

TEST(RunStoreTest, RunsLieBehindOneAnotherAndAreAligned) {
  RunStore store;
  EXPECT_EQ(store.room(), 0);
  const RunStore::Place first = store.Add(3);
  const RunStore::Place second = store.Add(20);
  EXPECT_EQ(first.segment, second.segment);
  EXPECT_EQ(first.offset, 0);
  EXPECT_EQ(second.offset, 16);
  EXPECT_EQ(store.room(), kSegment - 16 - 32);
  EXPECT_EQ(store.live_words(first.segment), 23);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(store.words(first.segment)) % 64,
            0U);
}

TEST(RunStoreTest, ARunThatDoesNotFitOpensASegment) {
  RunStore store;
  const RunStore::Place first = store.Add(kSegment - 16);
  const RunStore::Place second = store.Add(17);
  EXPECT_NE(first.segment, second.segment);
  EXPECT_EQ(second.offset, 0);
}

TEST(RunStoreTest, ARunLongerThanASegmentGetsOneOfItsOwn) {
  RunStore store;
  const RunStore::Place before = store.Add(1);
  const RunStore::Place large = store.Add(3 * kSegment + 5);
  const RunStore::Place after = store.Add(1);
  EXPECT_EQ(before.segment, after.segment);
  EXPECT_NE(large.segment, before.segment);
  store.words(large.segment)[3 * kSegment + 4] = 7;
  const std::int64_t total = store.total_words();
  store.Drop(large.segment, 3 * kSegment + 5);
  EXPECT_LT(store.total_words(), total - 3 * kSegment);
}

TEST(RunStoreTest, WhatWasDroppedWhollyIsUsedAgain) {
  RunStore store;
  std::int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    const RunStore::Place place = store.Add(kSegment / 2 + 1);
    store.Drop(place.segment, kSegment / 2 + 1);
    most = std::max(most, store.total_words());
  }
  EXPECT_LE(most, 2 * kSegment);
  EXPECT_EQ(store.total_live_words(), 0);
}

TEST(RunStoreTest, NamesTheEmptiestSegmentOnceMemoryIsWorthIt) {
  RunStore store;
  std::vector<RunStore::Place> halves;
  for (int i = 0; i < 40; ++i) halves.push_back(store.Add(kSegment / 2));
  EXPECT_EQ(store.SegmentToClean(), RunStore::kNone);
  for (std::size_t i = 0; i < halves.size(); i += 2) {
    store.Drop(halves[i].segment, kSegment / 2 - 100);
  }
  EXPECT_EQ(store.SegmentToClean(), RunStore::kNone) << "half is still in use";
  store.Drop(halves[8].segment, 50);
  for (std::size_t i = 1; i < halves.size(); i += 2) {
    if (i != 9) store.Drop(halves[i].segment, kSegment / 2 - 1000);
  }
  store.Drop(halves[9].segment, kSegment / 2);
  EXPECT_EQ(store.SegmentToClean(), halves[8].segment);
}

// What is moved out of the named segments makes room for what comes, so memory
// stays within about twice what is in use, whichever runs go.
void PlaceMoveAndDrop(std::uint32_t seed) {
  struct Run {
    RunStore::Place place;
    std::int64_t num_words;
  };
  RunStore store;
  std::mt19937 random(seed);
  std::vector<Run> runs;
  std::int64_t live = 0;
  for (int step = 0; step < 2000; ++step) {
    for (std::int32_t segment = store.SegmentToClean();
         segment != RunStore::kNone; segment = store.SegmentToClean()) {
      for (Run& run : runs) {
        if (run.place.segment != segment) continue;
        run.place = store.Add(run.num_words);
        store.Drop(segment, run.num_words);
      }
      EXPECT_EQ(store.live_words(segment), 0);
    }
    const auto num_words = static_cast<std::int64_t>(1 + random() % 20000);
    runs.push_back({store.Add(num_words), num_words});
    live += num_words;
    while (live > 20 * kSegment) {
      std::swap(runs[random() % runs.size()], runs.back());
      store.Drop(runs.back().place.segment, runs.back().num_words);
      live -= runs.back().num_words;
      runs.pop_back();
    }
    ASSERT_EQ(store.total_live_words(), live);
    ASSERT_LE(store.total_words(), 2 * live + 8 * kSegment);
  }
}

TEST(RunStoreTest, CleaningBoundsTheMemory) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    PlaceMoveAndDrop(seed);
  }
}

}  // namespace
}  // namespace servecore::kv
