// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_refs.h"
#include "cc/kv/id_run.h"
#include "cc/kv/ref_table.h"

namespace servecore::kv {

class RefTableTestPeer {
 public:
  static void SetWord(RefTable& table, std::int32_t block, BlockRefs word) {
    table.SetWord(block, word);
  }
  static std::int64_t& num_idle(RefTable& table) { return table.num_idle_; }
};

// Breaks a pool in one place, so that Check can be seen to notice.
class BlockPoolTestPeer {
 public:
  explicit BlockPoolTestPeer(BlockPool& pool) : pool_(pool) {}

  std::vector<std::int32_t>& free_list() { return pool_.free_; }
  std::int32_t& num_free() { return pool_.num_free_; }
  void SetRefs(std::int32_t block, std::int32_t total, std::int32_t guarded = 0,
               std::int32_t caches = 0) {
    RefTableTestPeer::SetWord(
        pool_.refs_, block,
        static_cast<std::uint32_t>(total) |
            std::uint64_t{static_cast<std::uint32_t>(guarded)} << 32 |
            std::uint64_t{static_cast<std::uint32_t>(caches)} << 56);
  }
  std::int64_t& num_idle() { return RefTableTestPeer::num_idle(pool_.refs_); }
  std::int64_t& total_refs() { return pool_.total_refs_; }
  std::int64_t& peak_used() { return pool_.peak_used_; }
  std::int64_t& freed_blocks() { return pool_.freed_blocks_; }

 private:
  BlockPool& pool_;
};

namespace {

using Ids = std::vector<std::int32_t>;
using Wide = std::vector<std::int64_t>;

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

std::array<IdRun, 1> One(const Ids& ids) { return {IdRun(ids)}; }

// Runs `action` and expects an Error whose message holds each of `words`, and a
// pool that is afterwards as it was before.
template <class Error, class Action>
void ExpectRefused(BlockPool& pool, const std::vector<std::string>& words,
                   Action action) {
  const BlockPoolStats before = pool.stats();
  Ids refs;
  for (std::int32_t i = 0; i < pool.num_blocks(); ++i) {
    refs.push_back(pool.RefCount(i));
  }
  try {
    action();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "no '" << word << "' in: " << error.what();
    }
  }
  EXPECT_EQ(pool.stats(), before);
  for (std::int32_t i = 0; i < pool.num_blocks(); ++i) {
    EXPECT_EQ(pool.RefCount(i), refs[static_cast<std::size_t>(i)]);
  }
  pool.Check();
}

TEST(BlockPoolTest, FreshPoolCountsUp) {
  BlockPool pool(8);
  EXPECT_EQ(pool.num_blocks(), 8);
  EXPECT_EQ(pool.num_free(), 8);
  EXPECT_EQ(pool.Allocate(3), (Ids{0, 1, 2}));
  EXPECT_EQ(pool.num_free(), 5);
  EXPECT_EQ(pool.Allocate(0), Ids{});
  EXPECT_EQ(pool.Allocate(5), (Ids{3, 4, 5, 6, 7}));
  pool.Check();
}

TEST(BlockPoolTest, TooFewBlocksGiveNothingAndChangeNothing) {
  BlockPool pool(8);
  pool.Allocate(3);
  const BlockPoolStats before = pool.stats();
  EXPECT_EQ(pool.Allocate(10), std::nullopt);
  EXPECT_EQ(pool.Allocate(6), std::nullopt);
  EXPECT_EQ(pool.Allocate(kMaxInt32), std::nullopt);
  EXPECT_EQ(pool.AllocateMany(Ids{5, 1}), std::nullopt);
  EXPECT_EQ(pool.AllocateManyFlat(Ids{5, 1}), std::nullopt);
  EXPECT_EQ(pool.stats(), before);
  pool.Check();
}

TEST(BlockPoolTest, LastFreedIsFirstReused) {
  BlockPool pool(8);
  pool.Allocate(4);
  pool.Release(1);
  pool.Release(3);
  EXPECT_EQ(pool.Allocate(3), (Ids{3, 1, 4}));
  pool.ReleaseArray(Ids{4, 0, 2});
  EXPECT_EQ(pool.Allocate(4), (Ids{2, 0, 4, 5}));
}

TEST(BlockPoolTest, PoolWithoutBlocksGivesNone) {
  BlockPool pool(0);
  EXPECT_EQ(pool.Allocate(0), Ids{});
  EXPECT_EQ(pool.Allocate(1), std::nullopt);
  EXPECT_THROW(pool.RefCount(0), std::out_of_range);
  pool.Check();
}

TEST(BlockPoolTest, AllocateManyFollowsTheCounts) {
  BlockPool pool(8);
  using Lists = std::vector<Ids>;
  EXPECT_EQ(pool.AllocateMany(Ids{2, 0, 3}), (Lists{{0, 1}, {}, {2, 3, 4}}));
  EXPECT_EQ(pool.AllocateMany(Ids{}), Lists{});
  EXPECT_EQ(pool.AllocateMany(Wide{3}), (Lists{{5, 6, 7}}));
  EXPECT_EQ(pool.num_free(), 0);
  pool.Check();
}

TEST(BlockPoolTest, AllocateManyFlatGivesTheSameLists) {
  BlockPool pool(8);
  const std::optional<BlockLists> lists = pool.AllocateManyFlat(Wide{2, 0, 3});
  ASSERT_TRUE(lists.has_value());
  EXPECT_EQ(lists->ids, (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(lists->offsets, (Ids{0, 2, 2, 5}));
  const std::optional<BlockLists> none = pool.AllocateManyFlat(Ids{});
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->ids, Ids{});
  EXPECT_EQ(none->offsets, Ids{0});
  pool.Check();
}

TEST(BlockPoolTest, BlockIsFreeWhenItsLastReferenceGoes) {
  BlockPool pool(2);
  pool.Allocate(1);
  pool.Retain(0);
  EXPECT_EQ(pool.RefCount(0), 2);
  pool.Release(0);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.RefCount(0), 1);
  pool.Release(0);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_EQ(pool.RefCount(0), 0);
}

TEST(BlockPoolTest, ArraysCountRepetitions) {
  BlockPool pool(4);
  pool.Allocate(2);
  pool.RetainArray(Ids{1, 0, 1, 1});
  EXPECT_EQ(pool.RefCount(0), 2);
  EXPECT_EQ(pool.RefCount(1), 4);
  pool.ReleaseArray(Wide{1, 1, 0, 1, 1, 0});
  EXPECT_EQ(pool.num_free(), 4);
  // Each went on the stack where its last reference went: 1, then 0.
  EXPECT_EQ(pool.Allocate(2), (Ids{0, 1}));
  pool.Check();
}

TEST(BlockPoolTest, ArraysAreReadByTheirStrides) {
  BlockPool pool(8);
  const Ids ids = *pool.Allocate(6);
  pool.RetainArray(StridedSpan<std::int32_t>(ids.data(), 3, 2));
  pool.RetainArray(StridedSpan<std::int32_t>(ids.data() + 5, 2, -1));
  pool.RetainArray(StridedSpan<std::int32_t>(ids.data(), 2, 0));
  const Ids expected = {4, 1, 2, 1, 3, 2};
  for (std::int32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pool.RefCount(i), expected[static_cast<std::size_t>(i)]);
  }
  const Ids counts = {1, 9, 1, 9};
  const auto lists =
      pool.AllocateMany(StridedSpan<std::int32_t>(counts.data(), 2, 2));
  EXPECT_EQ(lists, (std::vector<Ids>{{6}, {7}}));
}

TEST(BlockPoolTest, NumberOfBlocksHasToFit) {
  for (const std::int64_t bad : {std::int64_t{-1}, kMaxInt32 + 1}) {
    try {
      BlockPool pool(bad);
      FAIL() << "nothing was thrown";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(std::to_string(bad)), std::string::npos);
      EXPECT_NE(message.find("0 to 2147483647"), std::string::npos);
    }
  }
}

TEST(BlockPoolTest, BadCountsAreRefused) {
  BlockPool pool(8);
  pool.Allocate(2);
  ExpectRefused<std::invalid_argument>(pool, {"-1", "0 to"},
                                       [&] { pool.Allocate(-1); });
  ExpectRefused<std::invalid_argument>(pool, {"2147483648"},
                                       [&] { pool.Allocate(kMaxInt32 + 1); });
  const Ids negative = {1, -2};
  ExpectRefused<std::invalid_argument>(pool, {"counts[1] is -2"},
                                       [&] { pool.AllocateMany(negative); });
  ExpectRefused<std::invalid_argument>(
      pool, {"counts[1] is -2"}, [&] { pool.AllocateManyFlat(negative); });
}

TEST(BlockPoolTest, SumsOverInt32AreRefused) {
  BlockPool pool(8);
  const Ids narrow = {1, static_cast<std::int32_t>(kMaxInt32)};
  // Its sum is 3 modulo 2^64.
  const Wide wide = {std::numeric_limits<std::int64_t>::max(),
                     std::numeric_limits<std::int64_t>::max(), 5};
  ExpectRefused<std::invalid_argument>(pool, {"counts[1]", "2147483647"},
                                       [&] { pool.AllocateMany(narrow); });
  ExpectRefused<std::invalid_argument>(pool, {"counts[0]", "2147483647"},
                                       [&] { pool.AllocateMany(wide); });
  ExpectRefused<std::invalid_argument>(pool, {"counts[0]"},
                                       [&] { pool.AllocateManyFlat(wide); });
  // Its sum is not even in int64.
  const Wide wider = {1, std::numeric_limits<std::int64_t>::max()};
  ExpectRefused<std::invalid_argument>(pool, {"counts[1]"},
                                       [&] { pool.AllocateMany(wider); });
}

TEST(BlockPoolTest, IdsOutsideThePoolAreRefused) {
  BlockPool pool(8);
  pool.Allocate(8);
  const std::int64_t over = std::int64_t{1} << 32;  // 0 when cut to 32 bits
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{8}, over}) {
    const std::vector<std::string> words = {std::to_string(bad), "0 to 7"};
    ExpectRefused<std::out_of_range>(pool, words, [&] { pool.Retain(bad); });
    ExpectRefused<std::out_of_range>(pool, words, [&] { pool.Release(bad); });
    ExpectRefused<std::out_of_range>(pool, words, [&] { pool.RefCount(bad); });
    const Wide ids = {1, 2, bad};
    ExpectRefused<std::out_of_range>(pool, words,
                                     [&] { pool.RetainArray(ids); });
    ExpectRefused<std::out_of_range>(pool, words,
                                     [&] { pool.ReleaseArray(ids); });
  }
}

TEST(BlockPoolTest, FreeBlocksAreRefused) {
  BlockPool pool(8);
  pool.Allocate(3);
  ExpectRefused<std::logic_error>(pool, {"retain block 5", "free"},
                                  [&] { pool.Retain(5); });
  ExpectRefused<std::logic_error>(pool, {"release block 5", "free"},
                                  [&] { pool.Release(5); });
  ExpectRefused<std::logic_error>(pool, {"block 5"},
                                  [&] { pool.RetainArray(Ids{0, 1, 5, 2}); });
  ExpectRefused<std::logic_error>(pool, {"block 5"},
                                  [&] { pool.ReleaseArray(Ids{0, 1, 5, 2}); });
}

TEST(BlockPoolTest, ReleasingTwiceIsRefused) {
  BlockPool pool(8);
  pool.Allocate(3);
  pool.Release(1);
  ExpectRefused<std::logic_error>(pool, {"block 1", "once too often"},
                                  [&] { pool.Release(1); });
  // Within one array: 0 has one reference, 2 has two.
  pool.Retain(2);
  ExpectRefused<std::logic_error>(pool, {"block 0"},
                                  [&] { pool.ReleaseArray(Ids{2, 0, 2, 0}); });
  pool.ReleaseArray(Ids{2, 0, 2});
  EXPECT_EQ(pool.num_free(), 8);
  // What was undone left the stack as it would be without it.
  EXPECT_EQ(pool.Allocate(3), (Ids{2, 0, 1}));
}

TEST(BlockPoolTest, CountOfReferencesCannotOverflow) {
  BlockPool pool(2);
  pool.Allocate(1);
  BlockPoolTestPeer peer(pool);
  peer.SetRefs(0, static_cast<std::int32_t>(kMaxInt32) - 1);
  peer.total_refs() = kMaxInt32 - 1;
  ExpectRefused<std::overflow_error>(pool, {"block 0", "2147483647"},
                                     [&] { pool.RetainArray(Ids{0, 0}); });
  pool.Retain(0);
  ExpectRefused<std::overflow_error>(pool, {"block 0", "2147483647"},
                                     [&] { pool.Retain(0); });
}

TEST(BlockPoolTest, CountOfGuardedReferencesCannotOverflow) {
  constexpr std::int32_t kMost = (1 << 24) - 1;
  BlockPool pool(2);
  pool.Allocate(2);
  BlockPoolTestPeer peer(pool);
  peer.SetRefs(0, kMost + 1, kMost - 1);
  peer.total_refs() = kMost + 2;
  const auto transaction = [&pool] { return BlockPool::Transaction(pool); };
  ExpectRefused<std::overflow_error>(pool, {"block 0", "16777215"}, [&] {
    transaction().RetainGuarded(One(Ids{1, 0, 0}));
  });
  transaction().RetainGuarded(One(Ids{1, 0}));
  ExpectRefused<std::overflow_error>(pool, {"block 0", "16777215"}, [&] {
    transaction().RetainGuarded(One(Ids{1, 0}));
  });
  // A loose one still fits.
  pool.Retain(0);
  EXPECT_EQ(pool.RefCount(0), kMost + 3);
}

TEST(BlockPoolTest, StatsCount) {
  BlockPool pool(8);
  EXPECT_EQ(pool.stats(), (BlockPoolStats{.num_blocks = 8, .num_free = 8}));
  pool.Allocate(3);
  pool.Allocate(2);
  pool.RetainArray(Ids{0, 1, 1});
  pool.ReleaseArray(Ids{4, 3, 2, 1});
  pool.Allocate(1);
  EXPECT_EQ(pool.stats(), (BlockPoolStats{.num_blocks = 8,
                                          .num_free = 5,
                                          .num_used = 3,
                                          .total_refs = 2 + 2 + 1,
                                          .peak_used = 5,
                                          .allocated_blocks = 6,
                                          .freed_blocks = 3}));
}

TEST(BlockPoolTransactionTest, GuardedReferencesAreNotACallersToRelease) {
  BlockPool pool(4);
  pool.Allocate(2);
  BlockPool::Transaction(pool).RetainGuarded(One(Ids{0}));
  EXPECT_EQ(pool.RefCount(0), 2);
  pool.Release(0);
  ExpectRefused<std::logic_error>(pool, {"block 0", "prefix caches"},
                                  [&] { pool.Release(0); });
  ExpectRefused<std::logic_error>(pool, {"block 0", "prefix caches"},
                                  [&] { pool.ReleaseArray(Ids{1, 0}); });
  pool.RetainArray(Ids{0, 0});
  pool.ReleaseArray(Ids{0, 0});
  EXPECT_EQ(pool.num_free(), 2);
  BlockPool::Transaction(pool).ReleaseGuarded(One(Ids{0}));
  EXPECT_EQ(pool.num_free(), 3);
  pool.Check();
}

TEST(BlockPoolTransactionTest, MisuseIsRefused) {
  BlockPool pool(4);
  pool.Allocate(1);
  const auto transaction = [&pool] { return BlockPool::Transaction(pool); };
  ExpectRefused<std::logic_error>(pool, {"block 3", "free"}, [&] {
    transaction().RetainGuarded(One(Ids{3}));
  });
  ExpectRefused<std::out_of_range>(
      pool, {"4"}, [&] { transaction().RetainGuarded(One(Ids{4})); });
  ExpectRefused<std::out_of_range>(
      pool, {"-1"}, [&] { transaction().RetainGuarded(One(Ids{-1})); });
  ExpectRefused<std::out_of_range>(pool, {"4"},
                                   [&] { transaction().RefCount(4); });
  ExpectRefused<std::invalid_argument>(pool, {"-1"},
                                       [&] { transaction().Allocate(-1); });
}

// Idle is a block from the moment when a cache's reference is the only one to
// the moment when it is not, whoever brings that about.
TEST(BlockPoolTransactionTest, IdleBlocksAreThoseOnlyACacheHolds) {
  BlockPool pool(4);
  const auto num_idle = [&pool] {
    pool.Check();
    return pool.stats().num_idle;
  };
  pool.Allocate(3);
  BlockPool::Transaction(pool).RetainCached(One(Ids{0, 1}));
  EXPECT_EQ(num_idle(), 0);
  pool.ReleaseArray(Ids{0, 1});
  EXPECT_EQ(num_idle(), 2);
  EXPECT_TRUE(BlockPool::Transaction(pool).IsIdle(0));
  EXPECT_FALSE(BlockPool::Transaction(pool).IsIdle(2));
  pool.Retain(0);
  EXPECT_EQ(num_idle(), 1);
  BlockPool::Transaction(pool).RetainGuarded(One(Ids{1}));
  EXPECT_EQ(num_idle(), 0);
  BlockPool::Transaction(pool).ReleaseGuarded(One(Ids{1}));
  EXPECT_EQ(num_idle(), 1);
  // Refusals leave the count alone.
  EXPECT_THROW(pool.RetainArray(Ids{1, 3}), std::logic_error);
  EXPECT_EQ(num_idle(), 1);
  EXPECT_THROW(pool.ReleaseArray(Ids{0, 0}), std::logic_error);
  EXPECT_EQ(num_idle(), 1);
  // A second cache holds it for the first.
  BlockPool::Transaction(pool).RetainCached(One(Ids{1}));
  EXPECT_EQ(num_idle(), 0);
  BlockPool::Transaction(pool).ReleaseCached(IdRun(Ids{1}));
  EXPECT_EQ(num_idle(), 1);
  BlockPool::Transaction(pool).ReleaseCached(IdRun(Ids{1}));
  EXPECT_EQ(num_idle(), 0);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPoolTransactionTest, MisuseOfACachesReferencesIsRefused) {
  BlockPool pool(4);
  pool.Allocate(2);
  const auto transaction = [&pool] { return BlockPool::Transaction(pool); };
  // All or nothing, though the first could be had.
  ExpectRefused<std::logic_error>(pool, {"block 3", "free"}, [&] {
    transaction().RetainCached(One(Ids{0, 1, 3}));
  });
  for (int i = 0; i < 255; ++i) transaction().RetainCached(One(Ids{0}));
  ExpectRefused<std::overflow_error>(pool, {"block 0", "255"}, [&] {
    transaction().RetainCached(One(Ids{0}));
  });
}

TEST(BlockPoolTransactionTest, SeesItsOwnSteps) {
  BlockPool pool(4);
  {
    BlockPool::Transaction transaction(pool);
    EXPECT_EQ(transaction.num_free(), 4);
    EXPECT_EQ(transaction.Allocate(3), (Ids{0, 1, 2}));
    EXPECT_EQ(transaction.Allocate(2), std::nullopt);
    EXPECT_EQ(transaction.num_free(), 1);
    EXPECT_EQ(transaction.RefCount(2), 1);
    EXPECT_EQ(transaction.RefCount(3), 0);
  }
  EXPECT_EQ(pool.num_free(), 1);
}

// Each entry breaks one thing in a pool of 4 of whose blocks 0 and 1 are used.
TEST(BlockPoolCheckTest, NoticesEveryBreak) {
  using Break = void (*)(BlockPoolTestPeer&);
  const std::vector<std::pair<std::string, Break>> breaks = {
      {"num_free is -1", [](auto& p) { p.num_free() = -1; }},
      {"num_free is 5", [](auto& p) { p.num_free() = 5; }},
      {"free list holds 4", [](auto& p) { p.free_list()[0] = 4; }},
      {"free list holds -1", [](auto& p) { p.free_list()[0] = -1; }},
      {"block 2 is in the free list twice",
       [](auto& p) { p.free_list()[0] = 2; }},
      {"block 3 has 1 references and is in the free list",
       [](auto& p) { p.SetRefs(3, 1); }},
      {"block 0 has 0 references and is not in the free list",
       [](auto& p) { p.SetRefs(0, 0); }},
      {"block 0 has 0 guarded references of -1",
       [](auto& p) { p.SetRefs(0, -1); }},
      {"block 1 has 2 guarded", [](auto& p) { p.SetRefs(1, 1, 2); }},
      {"block 1 is in 1 caches", [](auto& p) { p.SetRefs(1, 1, 0, 1); }},
      {"num_idle is 1", [](auto& p) { p.num_idle() = 1; }},
      {"total_refs is 3", [](auto& p) { p.total_refs() = 3; }},
      {"1 freed", [](auto& p) { p.freed_blocks() = 1; }},
      {"peak_used is 1", [](auto& p) { p.peak_used() = 1; }},
      {"peak_used is 5", [](auto& p) { p.peak_used() = 5; }},
  };
  for (const auto& [words, do_break] : breaks) {
    BlockPool pool(4);
    pool.Allocate(2);
    pool.Check();
    BlockPoolTestPeer peer(pool);
    do_break(peer);
    try {
      pool.Check();
      ADD_FAILURE() << "Check did not notice: " << words;
    } catch (const std::logic_error& error) {
      // A negative count is noticed by way of the guarded part, 0, of it.
      const std::string expected =
          words == "block 0 has -1 references"
              ? "block 0 has 0 guarded references of -1"
              : words;
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << error.what();
    }
  }
}

// The pool as one would write it without a thought for speed.
class ModelPool {
 public:
  explicit ModelPool(std::int32_t num_blocks)
      : refs_(static_cast<std::size_t>(num_blocks)) {
    for (std::int32_t i = num_blocks - 1; i >= 0; --i) stack_.push_back(i);
  }

  std::optional<Ids> Allocate(std::int32_t n) {
    if (n > static_cast<std::int32_t>(stack_.size())) return std::nullopt;
    Ids ids;
    for (std::int32_t i = 0; i < n; ++i) {
      ids.push_back(stack_.back());
      refs_.at(static_cast<std::size_t>(stack_.back())) = 1;
      stack_.pop_back();
    }
    peak_ = std::max(peak_, refs_.size() - stack_.size());
    allocated_ += n;
    return ids;
  }

  // Whether all went well; otherwise nothing has changed.
  bool Add(const Ids& ids, std::int32_t change) {
    ModelPool changed = *this;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= static_cast<std::int32_t>(refs_.size())) return false;
      std::int32_t& refs = changed.refs_[static_cast<std::size_t>(id)];
      if (refs == 0) return false;
      refs += change;
      if (refs == 0) {
        changed.stack_.push_back(id);
        ++changed.freed_;
      }
    }
    *this = std::move(changed);
    return true;
  }

  BlockPoolStats stats() const {
    const auto num_free = static_cast<std::int64_t>(stack_.size());
    const auto num_blocks = static_cast<std::int64_t>(refs_.size());
    return {.num_blocks = num_blocks,
            .num_free = num_free,
            .num_used = num_blocks - num_free,
            .total_refs =
                std::accumulate(refs_.begin(), refs_.end(), std::int64_t{0}),
            .peak_used = static_cast<std::int64_t>(peak_),
            .allocated_blocks = allocated_,
            .freed_blocks = freed_};
  }
  const Ids& refs() const { return refs_; }

 private:
  Ids stack_;
  Ids refs_;
  std::size_t peak_ = 0;
  std::int64_t allocated_ = 0;
  std::int64_t freed_ = 0;
};

// Calls `action`; whether it went through.
template <class Action>
bool Succeeds(Action action) {
  try {
    action();
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

TEST(BlockPoolModelTest, RandomOperationsDoWhatTheModelDoes) {
  constexpr std::int32_t kBlocks = 12;
  int num_refused = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&random](std::int32_t low, std::int32_t high) {
      return std::uniform_int_distribution<std::int32_t>(low, high)(random);
    };
    BlockPool pool(kBlocks);
    ModelPool model(kBlocks);
    for (int step = 0; step < 1000; ++step) {
      // Mostly blocks in use, so that most long arrays are good ones.
      Ids used;
      for (std::int32_t id = 0; id < kBlocks; ++id) {
        if (pool.RefCount(id) > 0) used.push_back(id);
      }
      Ids ids(static_cast<std::size_t>(pick(0, 4)));
      for (std::int32_t& id : ids) {
        id = used.empty() || pick(0, 9) == 0
                 ? pick(-1, kBlocks)
                 : used[static_cast<std::size_t>(
                       pick(0, static_cast<std::int32_t>(used.size()) - 1))];
      }
      switch (pick(0, 5)) {
        case 0: {
          const std::int32_t n = pick(0, 4);
          ASSERT_EQ(pool.Allocate(n), model.Allocate(n));
          break;
        }
        case 1: {
          const Ids counts = {pick(0, 2), pick(0, 2), pick(0, 2)};
          const auto lists = pool.AllocateMany(counts);
          const auto flat =
              model.Allocate(std::accumulate(counts.begin(), counts.end(), 0));
          ASSERT_EQ(lists.has_value(), flat.has_value());
          if (!lists.has_value()) break;
          Ids joined;
          for (std::size_t i = 0; i < counts.size(); ++i) {
            const Ids& list = (*lists)[i];
            ASSERT_EQ(static_cast<std::int32_t>(list.size()), counts[i]);
            joined.insert(joined.end(), list.begin(), list.end());
          }
          ASSERT_EQ(joined, *flat);
          break;
        }
        case 2: {
          const bool done = Succeeds([&] { pool.RetainArray(ids); });
          ASSERT_EQ(done, model.Add(ids, 1));
          num_refused += done ? 0 : 1;
          break;
        }
        case 3: {
          const bool done = Succeeds([&] { pool.ReleaseArray(ids); });
          ASSERT_EQ(done, model.Add(ids, -1));
          num_refused += done ? 0 : 1;
          break;
        }
        case 4:
          if (ids.empty()) break;
          ASSERT_EQ(Succeeds([&] { pool.Retain(ids[0]); }),
                    model.Add({ids[0]}, 1));
          break;
        default:
          for (const std::int32_t id : ids) {
            ASSERT_EQ(Succeeds([&] { pool.Release(id); }), model.Add({id}, -1));
          }
      }
      ASSERT_EQ(pool.stats(), model.stats());
      for (std::int32_t id = 0; id < kBlocks; ++id) {
        ASSERT_EQ(pool.RefCount(id),
                  model.refs()[static_cast<std::size_t>(id)]);
      }
      pool.Check();
    }
  }
  EXPECT_GT(num_refused, 200);
}

}  // namespace
}  // namespace servecore::kv
