// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "cc/kv/id_run.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kBlocks = 330;  // five groups and a part of one

Ids Descending(const BlockSet& set) {
  Ids ids;
  set.ForEachDescending([&ids](std::int32_t id) { ids.push_back(id); });
  return ids;
}

TEST(BlockSetTest, StopsAtABlockThatIsInIt) {
  BlockSet set(kBlocks);
  EXPECT_EQ(set.AddNew(IdRun(0, 1, kBlocks)), std::size_t{kBlocks});
  set.Remove(IdRun(0, 1, kBlocks));
  EXPECT_TRUE(Descending(set).empty());
  EXPECT_EQ(set.AddNew(IdRun(Ids{5, 3, 5, 9})), 2U);
  EXPECT_EQ(Descending(set), (Ids{5, 3}));
  EXPECT_EQ(set.AddNew(IdRun(127, -1, 128)), 122U);
  EXPECT_FALSE(set.Contains(4));
  EXPECT_TRUE(set.Contains(6));
}

// Runs of every kind, against a std::set.
void CompareWithASet(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&random](std::uint32_t n) { return random() % n; };
  BlockSet set(kBlocks);
  std::set<std::int32_t> model;
  int num_stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    const auto first = static_cast<std::int32_t>(pick(kBlocks));
    const auto step = pick(2) == 0 ? 1 : -1;
    for (auto id = first; ids.size() < 150 && id >= 0 && id < kBlocks;
         id += step) {
      ids.push_back(id);
    }
    if (pick(2) == 0) std::ranges::shuffle(ids, random);
    const bool counted = ids.size() > 1 && ids[1] - ids[0] == step &&
                         CountingLength(ids) == ids.size() && pick(2) == 0;
    const IdRun run = counted ? IdRun(ids[0], step, ids.size()) : IdRun(ids);
    if (pick(2) == 0) {
      std::size_t num_new = 0;
      while (num_new < ids.size() && model.insert(ids[num_new]).second) {
        ++num_new;
      }
      ASSERT_EQ(set.AddNew(run), num_new);
      num_stopped += num_new < ids.size() ? 1 : 0;
    } else {
      Ids there;
      std::ranges::copy_if(
          ids, std::back_inserter(there),
          [&](std::int32_t id) { return model.erase(id) > 0; });
      set.Remove(there.size() == ids.size() ? run : IdRun(there));
    }
    ASSERT_EQ(Descending(set), Ids(model.rbegin(), model.rend()));
  }
  EXPECT_GT(num_stopped, 200);
}

TEST(BlockSetTest, DoesWhatASetDoes) {
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(seed);
    CompareWithASet(seed);
  }
}

}  // namespace
}  // namespace servecore::kv
