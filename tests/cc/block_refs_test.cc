// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_refs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kBlocks = 200;

TEST(BlockRefsTest, CountsAreToldApart) {
  const BlockRefs refs = 3 * kOneRef + 2 * kOneGuarded + kOneCached;
  EXPECT_EQ(TotalOf(refs), 6);
  EXPECT_EQ(GuardedOf(refs), 3);
  EXPECT_EQ(CachesOf(refs), 1);
  EXPECT_TRUE(IsIdle(kOneCached));
  EXPECT_FALSE(IsIdle(kOneGuarded));
  EXPECT_FALSE(IsIdle(kOneCached + kOneRef));
}

TEST(BlockRefsTest, ARunRisesOrFallsByOne) {
  Ids ids(16);
  for (std::int32_t i = 0; i < 16; ++i) ids[i] = 40 + i;
  EXPECT_EQ(RunOf16(ids.data(), kBlocks), 40);
  EXPECT_EQ(RunOf16(ids.data(), 56), 40);
  EXPECT_EQ(RunOf16(ids.data(), 55), -1);
  std::ranges::reverse(ids);
  EXPECT_EQ(RunOf16(ids.data(), kBlocks), 40);
  std::swap(ids[4], ids[5]);
  EXPECT_EQ(RunOf16(ids.data(), kBlocks), -1);
  for (std::int32_t i = 0; i < 16; ++i) ids[i] = i - 1;
  EXPECT_EQ(RunOf16(ids.data(), kBlocks), -1);
}

// Lists of runs and of single ids, of blocks in every state, against a loop.
void CompareWithALoop(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](std::uint32_t n) { return random() % n; };
  int num_stopped = 0;
  int num_freed = 0;
  for (int round = 0; round < 3000; ++round) {
    const BlockRefs one = pick(2) == 0 ? kOneGuarded : kOneCached;
    std::vector<BlockRefs> refs(kBlocks);
    for (BlockRefs& of_block : refs) {
      of_block = pick(2) == 0 ? kOneCached : kOneCached + pick(3) * kOneGuarded;
    }
    if (pick(2) == 0) {
      const BlockRefs odd[] = {0, BlockRefs{kMaxGuarded},
                               kMaxCaches * kOneCached};
      refs[pick(kBlocks)] = odd[pick(3)];
    }
    Ids ids;
    while (ids.size() < 60) {
      const auto first = static_cast<std::int32_t>(pick(kBlocks - 40)) + 20;
      const std::int32_t step = pick(2) == 0 ? 1 : -1;
      const std::int32_t length = pick(2) == 0 ? 20 : 1;
      for (std::int32_t i = 0; i < length; ++i) ids.push_back(first + i * step);
    }
    if (pick(10) == 0) ids[pick(60)] = pick(2) == 0 ? -1 : kBlocks;

    std::vector<BlockRefs> expected = refs;
    BulkResult added;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= kBlocks || !MayAdd(expected[id], one)) break;
      added.num_idle += IsIdle(expected[id]) ? 1 : 0;
      expected[id] += one;
      ++added.num_done;
    }
    const BulkResult result = AddToBlocks(refs, ids, one);
    ASSERT_EQ(result.num_done, added.num_done);
    ASSERT_EQ(result.num_idle, added.num_idle);
    ASSERT_EQ(refs, expected);
    num_stopped += result.num_done < ids.size() ? 1 : 0;

    ids.resize(result.num_done);
    for (const std::int32_t id : ids) {
      if (pick(3) == 0) {
        refs[id] = static_cast<BlockRefs>(std::ranges::count(ids, id)) * one;
      }
    }
    expected = refs;
    Ids freed;
    std::int64_t num_idle = 0;
    for (const std::int32_t id : ids) {
      expected[id] -= one;
      num_idle += IsIdle(expected[id]) ? 1 : 0;
      if (expected[id] == 0) freed.push_back(id);
    }
    Ids freed_here(ids.size());
    const BulkResult taken =
        SubtractFromBlocks(refs, ids, one, freed_here.data());
    freed_here.resize(static_cast<std::size_t>(taken.num_freed));
    ASSERT_EQ(freed_here, freed);
    ASSERT_EQ(taken.num_idle, num_idle);
    ASSERT_EQ(refs, expected);
    num_freed += taken.num_freed;
  }
  // Nothing is proved where nothing happened.
  EXPECT_GT(num_stopped, 300);
  EXPECT_GT(num_freed, 3000);
}

TEST(BlockRefsTest, BulkOperationsDoWhatALoopDoes) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    CompareWithALoop(seed);
  }
}

}  // namespace
}  // namespace servecore::kv
