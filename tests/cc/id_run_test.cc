// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/id_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;

Ids Counting(std::int32_t first, std::int32_t step, std::size_t size) {
  Ids ids(size);
  for (std::size_t i = 0; i < size; ++i) {
    ids[i] = first + (step * static_cast<std::int32_t>(i));
  }
  return ids;
}

Ids Written(const IdRun& run) {
  Ids ids(run.size());
  run.WriteTo(ids.data());
  return ids;
}

void ExpectIs(const IdRun& run, const Ids& ids) {
  ASSERT_EQ(run.size(), ids.size());
  EXPECT_EQ(Written(run), ids);
  EXPECT_TRUE(run.Equals(ids));
  Ids reversed(ids.size());
  run.WriteReversedTo(reversed.data());
  EXPECT_TRUE(std::ranges::equal(reversed.rbegin(), reversed.rend(),
                                 ids.begin(), ids.end()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(run[i], ids[i]);
    Ids other = ids;
    ++other[i];
    EXPECT_FALSE(run.Equals(other)) << i;
    const IdRun part = run.Part(i, ids.size() - i);
    EXPECT_EQ(Written(part),
              Ids(ids.begin() + static_cast<std::ptrdiff_t>(i), ids.end()));
  }
  if (!ids.empty()) {
    EXPECT_EQ(run.back(), ids.back());
  }
}

TEST(IdRunTest, CountedAndStoredOnesReadAlike) {
  for (const std::int32_t step : {1, -1}) {
    for (const std::size_t size : {0, 1, 2, 7, 8, 9, 63, 64, 65, 150}) {
      const Ids ids = Counting(200, step, size);
      ExpectIs(IdRun(200, step, size), ids);
      ExpectIs(IdRun(ids), ids);
    }
  }
  ExpectIs(IdRun(Ids{}), {});
}

TEST(IdRunTest, ExtendsByWhatGoesOn) {
  IdRun up(5, 1, 3);
  EXPECT_FALSE(up.Extend(IdRun(9, 1, 2)));
  EXPECT_FALSE(up.Extend(IdRun(8, -1, 2)));
  EXPECT_TRUE(up.Extend(IdRun(8, -1, 1)));
  EXPECT_TRUE(up.Extend(IdRun(9, 1, 2)));
  ExpectIs(up, {5, 6, 7, 8, 9, 10});
  IdRun down(5, -1, 2);
  EXPECT_TRUE(down.Extend(IdRun(3, -1, 2)));
  ExpectIs(down, {5, 4, 3, 2});

  const Ids ids = {4, 9, 2, 7, 6};
  const std::span<const std::int32_t> all(ids);
  IdRun stored(all.first(2));
  EXPECT_FALSE(stored.Extend(IdRun(all.subspan(3))));
  EXPECT_FALSE(stored.Extend(IdRun(10, 1, 1)));
  EXPECT_FALSE(up.Extend(stored));
  EXPECT_TRUE(stored.Extend(IdRun(all.subspan(2, 2))));
  ExpectIs(stored, {4, 9, 2, 7});
}

TEST(IdRunTest, CountingEndsWhereAnIdIsOutOfOrder) {
  EXPECT_EQ(CountingLength({}), 0U);
  for (const std::int32_t step : {1, -1}) {
    const Ids ids = Counting(300, step, 200);
    EXPECT_EQ(CountingLength(ids), ids.size());
    for (std::size_t i = 2; i < ids.size(); ++i) {
      Ids broken = ids;
      broken[i] += 7;
      EXPECT_EQ(CountingLength(broken), i);
    }
  }
  EXPECT_EQ(CountingLength(Ids{3, 3, 3}), 1U);
  EXPECT_EQ(CountingLength(Ids{3, 5}), 1U);
  EXPECT_EQ(CountingLength(Ids{3, 4, 3}), 2U);
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(CountingLength(Ids{kMost, -kMost - 1, -kMost}), 1U);
  EXPECT_EQ(CountingLength(Ids{kMost - 1, kMost, -kMost - 1}), 2U);
  // Ids that would go on only if ints wrapped, in one chunk of vectors.
  Ids wrapped = Counting(kMost - 29, 1, 30);
  const Ids rest = Counting(-kMost - 1, 1, 170);
  wrapped.insert(wrapped.end(), rest.begin(), rest.end());
  EXPECT_EQ(CountingLength(wrapped), 30U);
  std::ranges::reverse(wrapped);
  EXPECT_EQ(CountingLength(wrapped), 170U);
}

TEST(IdRunTest, SplitsIntoLongRunsAndWhatLiesBetween) {
  const auto joined = [](std::span<const Ids> parts) {
    Ids ids;
    for (const Ids& part : parts) {
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  };
  const Ids strays = {7, 9, 10, 11, 3};
  const Ids up = Counting(1000, 1, kFewestCounted);
  const Ids down = Counting(900, -1, kFewestCounted + 70);
  const Ids short_one = Counting(20, 1, kFewestCounted - 1);
  const Ids ids =
      joined(std::vector<Ids>{strays, up, down, short_one, strays, up});
  const std::vector<IdRun> runs = SplitIntoRuns(ids);
  ASSERT_EQ(runs.size(), 5U);
  ExpectIs(runs[0], strays);
  ExpectIs(runs[1], up);
  ExpectIs(runs[2], down);
  ExpectIs(runs[3], joined(std::vector<Ids>{short_one, strays}));
  ExpectIs(runs[4], up);
  EXPECT_EQ(runs[0].step(), 0);
  EXPECT_EQ(runs[1].step(), 1);
  EXPECT_EQ(runs[2].step(), -1);
  EXPECT_EQ(runs[3].step(), 0);
  EXPECT_TRUE(SplitIntoRuns({}).empty());
}

}  // namespace
}  // namespace servecore::kv
