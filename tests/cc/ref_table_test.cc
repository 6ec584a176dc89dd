// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/ref_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_refs.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {

class RefTableTestPeer {
 public:
  using Group = RefTable::Group;

  static std::vector<Group>& groups(RefTable& table) { return table.groups_; }
  static std::int64_t& num_idle(RefTable& table) { return table.num_idle_; }
  static void SetWord(RefTable& table, std::int32_t block, BlockRefs word) {
    table.SetWord(block, word);
  }
};

namespace {

using Ids = std::vector<std::int32_t>;
using Peer = RefTableTestPeer;

constexpr std::int32_t kBlocks = 330;  // five groups and a part of one
constexpr std::array<BlockRefs, 3> kKinds = {kOneRef, kOneGuarded, kOneCached};

TEST(RefTableTest, AWholeGroupIsCountedAtOnce) {
  RefTable table(kBlocks);
  table.AddToAny(IdRun(0, 1, kBlocks), kOneRef);
  EXPECT_EQ(Peer::groups(table)[0].refs, kOneRef);
  EXPECT_EQ(Peer::groups(table)[4].refs, kOneRef);
  // The last one is no whole group.
  EXPECT_EQ(Peer::groups(table)[5].refs, 0U);
  EXPECT_EQ(table.Get(kBlocks - 1), kOneRef);
  EXPECT_EQ(table.Add(IdRun(319, -1, 320), kOneCached), 320U);
  EXPECT_EQ(Peer::groups(table)[2].refs, kOneRef + kOneCached);
  // One block less, and the group's references are its blocks' own.
  Ids freed(kBlocks);
  const Ids one = {70};
  EXPECT_EQ(table.Take(IdRun(one), kOneRef, freed.data()).num_done, 1U);
  EXPECT_EQ(Peer::groups(table)[1].refs, 0U);
  EXPECT_EQ(table.Get(70), kOneCached);
  EXPECT_EQ(table.Get(71), kOneCached + kOneRef);
  EXPECT_EQ(table.num_idle(), 1);
  table.Check();
}

TEST(RefTableTest, HighCountsStayExact) {
  RefTable table(64);
  const IdRun all(0, 1, 64);
  table.AddToAny(all, kOneRef);
  Peer::SetWord(table, 7, BlockRefs{kMaxRefs} - 2);
  EXPECT_EQ(table.Add(all, kOneRef), 64U);
  EXPECT_EQ(TotalOf(table.Get(7)), kMaxRefs);
  EXPECT_EQ(table.Add(all, kOneRef), 7U);
  EXPECT_EQ(TotalOf(table.Get(7)), kMaxRefs);
  EXPECT_EQ(TotalOf(table.Get(6)), 3);
  EXPECT_EQ(TotalOf(table.Get(8)), 2);
  table.Check();
}

// A group's own count has an end, too, and then the blocks' words go on.
TEST(RefTableTest, AGroupCountsUpToManyReferencesOfCaches) {
  RefTable table(64);
  const IdRun all(0, 1, 64);
  table.AddToAny(all, kOneRef);
  for (int i = 0; i < kMaxCaches; ++i) {
    ASSERT_EQ(table.Add(all, kOneCached), 64U);
  }
  EXPECT_EQ(CachesOf(table.Get(63)), kMaxCaches);
  EXPECT_EQ(table.Add(all, kOneCached), 0U);
  table.Check();
  Ids freed(64);
  for (int i = 0; i < kMaxCaches; ++i) {
    ASSERT_EQ(table.Take(all, kOneCached, freed.data()).num_done, 64U);
  }
  EXPECT_EQ(table.Take(all, kOneRef, freed.data()).num_freed, 64U);
  table.Check();
}

// Runs of every kind and blocks in every state, against one word a block.
class Comparison {
 public:
  explicit Comparison(std::uint32_t seed)
      : random_(seed), table_(kBlocks), model_(kBlocks) {}

  void Run() {
    for (int round = 0; round < 20'000; ++round) {
      const Ids ids = PickIds();
      const BlockRefs one = kKinds[Pick(3)];
      switch (Pick(6)) {
        case 0:
          AddToAny(ids);
          break;
        case 1:
          Add(ids, one);
          break;
        default:
          Take(ids, one);
      }
      if (testing::Test::HasFatalFailure()) return;
      Compare(ids);
    }
    // Nothing is proved where nothing happened.
    EXPECT_GT(num_stopped_, 300);
    EXPECT_GT(num_freed_, 1000);
  }

 private:
  std::uint32_t Pick(std::uint32_t n) { return random_() % n; }

  Ids PickIds() {
    Ids ids;
    const auto num_parts = 1 + Pick(3);
    for (std::uint32_t part = 0; part < num_parts; ++part) {
      auto id = static_cast<std::int32_t>(Pick(kBlocks));
      // Whole groups are what it is about.
      if (Pick(2) == 0) id = id / 64 * 64;
      const auto step = Pick(2) == 0 ? 1 : -1;
      if (step < 0 && id % 64 == 0) id = std::min(id + 63, kBlocks - 1);
      const std::uint32_t length = Pick(4) == 0 ? 1 : Pick(200);
      for (std::uint32_t i = 0; i < length && id >= 0 && id < kBlocks; ++i) {
        ids.push_back(id);
        id += step;
      }
    }
    return ids;
  }

  IdRun RunOf(const Ids& ids) {
    if (ids.size() < 2 || CountingLength(ids) < ids.size() || Pick(2) == 0) {
      return {ids};
    }
    return {ids[0], ids[1] - ids[0], ids.size()};
  }

  void AddToAny(const Ids& ids) {
    Ids free;
    std::ranges::copy_if(ids, std::back_inserter(free),
                         [this](std::int32_t id) { return model_[id] == 0; });
    table_.AddToAny(RunOf(free), kOneRef);
    for (const std::int32_t id : free) model_[id] += kOneRef;
  }

  void Add(Ids ids, BlockRefs one) {
    if (Pick(10) == 0) ids.push_back(Pick(2) == 0 ? -1 : kBlocks);
    std::size_t num_done = 0;
    for (; num_done < ids.size(); ++num_done) {
      const std::int32_t id = ids[num_done];
      if (id < 0 || id >= kBlocks || !MayAdd(model_[id], one)) break;
      model_[id] += one;
    }
    ASSERT_EQ(table_.Add(RunOf(ids), one), num_done);
    num_stopped_ += num_done < ids.size() ? 1 : 0;
  }

  void Take(const Ids& ids, BlockRefs one) {
    Ids freed;
    std::size_t num_done = 0;
    for (; num_done < ids.size(); ++num_done) {
      BlockRefs& refs = model_[ids[num_done]];
      if (!Has(refs, one)) break;
      refs -= one;
      if (refs == 0) freed.push_back(ids[num_done]);
    }
    Ids freed_here(ids.size());
    const auto taken = table_.Take(RunOf(ids), one, freed_here.data());
    ASSERT_EQ(taken.num_done, num_done);
    freed_here.resize(taken.num_freed);
    ASSERT_EQ(freed_here, freed);
    num_stopped_ += num_done < ids.size() ? 1 : 0;
    num_freed_ += static_cast<int>(freed.size());
  }

  void Compare(const Ids& ids) {
    for (std::int32_t id = 0; id < kBlocks; ++id) {
      ASSERT_EQ(table_.Get(id), model_[id]) << id;
    }
    const auto is_idle = [](BlockRefs refs) { return IsIdle(refs); };
    ASSERT_EQ(table_.num_idle(), std::ranges::count_if(model_, is_idle));
    const auto first_held = std::ranges::find_if_not(
        ids, [&](std::int32_t id) { return IsIdle(model_[id]); });
    ASSERT_EQ(table_.NumIdle(RunOf(ids)),
              static_cast<std::size_t>(first_held - ids.begin()));
    table_.Check();
  }

  std::mt19937 random_;
  RefTable table_;
  std::vector<BlockRefs> model_;
  int num_stopped_ = 0;
  int num_freed_ = 0;
};

TEST(RefTableTest, DoesWhatOneWordABlockDoes) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    Comparison(seed).Run();
  }
}

TEST(RefTableTest, CheckNoticesWhatIsBroken) {
  using Break = void (*)(RefTable&);
  const std::vector<std::pair<std::string, Break>> breaks = {
      {"group 1 counts 64",
       [](RefTable& t) { Peer::groups(t)[1].num_zero = 64; }},
      {"group 0 counts 0 words of 0 and 3",
       [](RefTable& t) { Peer::groups(t)[0].num_cached = 3; }},
      {"group 0 has a high count",
       [](RefTable& t) {
         Peer::SetWord(t, 0, BlockRefs{1} << 30);
         Peer::groups(t)[0].has_high_counts = false;
       }},
      {"num_idle is 1", [](RefTable& t) { Peer::num_idle(t) = 1; }},
  };
  for (const auto& [words, do_break] : breaks) {
    RefTable table(128);
    for (std::int32_t id = 0; id < 128; ++id) Peer::SetWord(table, id, kOneRef);
    table.Check();
    do_break(table);
    try {
      table.Check();
      ADD_FAILURE() << "Check did not notice: " << words;
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace servecore::kv
