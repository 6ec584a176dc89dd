// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "cc/base/spin_barrier.h"
#include "cc/kv/block_pool.h"
#include "cc/kv/id_run.h"
#include "tests/cc/run_together.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;

std::array<IdRun, 1> One(const Ids& ids) { return {IdRun(ids)}; }

constexpr int kThreads = 4;
constexpr int kSteps = 2000;

// A block belongs to the thread that allocated it. Were it given to two, both
// would write its owner, which the thread sanitizer sees, and one of them would
// find the other's number, which this test sees.
TEST(BlockPoolConcurrencyTest, NoBlockIsGivenToTwo) {
  BlockPool pool(64);
  std::vector<int> owner(64, -1);
  std::vector<int> num_stolen(kThreads);
  RunTogether(kThreads, [&](int t) {
    std::mt19937 random(static_cast<std::uint32_t>(t));
    Ids mine;
    for (int step = 0; step < kSteps; ++step) {
      const std::optional<Ids> ids =
          pool.Allocate(static_cast<std::int64_t>(random() % 8));
      if (ids.has_value()) {
        for (const std::int32_t id : *ids) {
          owner[static_cast<std::size_t>(id)] = t;
          mine.push_back(id);
        }
      }
      if (!ids.has_value() || random() % 2 == 0) {
        for (const std::int32_t id : mine) {
          num_stolen[static_cast<std::size_t>(t)] +=
              owner[static_cast<std::size_t>(id)] != t;
        }
        pool.RetainArray(mine);
        pool.ReleaseArray(mine);
        pool.ReleaseArray(mine);
        mine.clear();
      }
    }
    pool.ReleaseArray(mine);
  });
  EXPECT_EQ(num_stolen, std::vector<int>(kThreads));
  EXPECT_EQ(pool.num_free(), 64);
  EXPECT_EQ(pool.stats().total_refs, 0);
  pool.Check();
}

// Everybody adds and removes references on the same blocks; none is lost.
TEST(BlockPoolConcurrencyTest, NoReferenceIsLost) {
  BlockPool pool(16);
  const Ids ids = *pool.Allocate(16);
  RunTogether(kThreads, [&](int t) {
    for (int step = 0; step < kSteps; ++step) {
      pool.Retain((step + t) % 16);
      pool.RetainArray(ids);
      pool.ReleaseArray(ids);
    }
  });
  pool.Check();
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.stats().total_refs, 16 + kThreads * kSteps);
}

// Of many that release the last reference, one succeeds.
TEST(BlockPoolConcurrencyTest, OneOfManyReleasesSucceeds) {
  BlockPool pool(1);
  SpinBarrier barrier(kThreads);
  std::vector<int> num_released(kThreads);
  std::vector<int> num_refused(kThreads);
  constexpr int kRounds = 200;
  RunTogether(kThreads, [&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      if (t == 0) pool.Allocate(1);
      barrier.Wait();
      try {
        pool.Release(0);
        ++num_released[static_cast<std::size_t>(t)];
      } catch (const std::logic_error&) {
        ++num_refused[static_cast<std::size_t>(t)];
      }
      barrier.Wait();
    }
  });
  const auto sum = [](const std::vector<int>& counts) {
    return std::accumulate(counts.begin(), counts.end(), 0);
  };
  EXPECT_EQ(sum(num_released), kRounds);
  EXPECT_EQ(sum(num_refused), (kThreads - 1) * kRounds);
  pool.Check();
}

// Readers see a whole state, never one between two steps.
TEST(BlockPoolConcurrencyTest, SnapshotsAreConsistent) {
  BlockPool pool(32);
  std::vector<int> num_wrong(kThreads);
  RunTogether(kThreads, [&](int t) {
    for (int step = 0; step < kSteps; ++step) {
      if (t % 2 == 0) {
        const std::optional<Ids> ids = pool.Allocate(8);
        if (ids.has_value()) pool.ReleaseArray(*ids);
      } else {
        const BlockPoolStats stats = pool.stats();
        num_wrong[static_cast<std::size_t>(t)] +=
            stats.num_free % 8 != 0 || stats.total_refs != stats.num_used ||
            stats.allocated_blocks - stats.freed_blocks != stats.num_used;
        if (step % 50 == 0) pool.Check();
      }
    }
  });
  EXPECT_EQ(num_wrong, std::vector<int>(kThreads));
}

// A transaction keeps others out, whatever they call.
TEST(BlockPoolConcurrencyTest, TransactionsAreNotInterrupted) {
  BlockPool pool(8);
  std::vector<int> num_interrupted(kThreads);
  RunTogether(kThreads, [&](int t) {
    for (int step = 0; step < kSteps; ++step) {
      if (t % 2 == 0) {
        const std::optional<Ids> ids = pool.Allocate(2);
        if (ids.has_value()) pool.ReleaseArray(*ids);
        continue;
      }
      BlockPool::Transaction transaction(pool);
      const std::int32_t before = transaction.num_free();
      const std::optional<Ids> ids = transaction.Allocate(1);
      std::this_thread::yield();
      num_interrupted[static_cast<std::size_t>(t)] +=
          transaction.num_free() != before - (ids.has_value() ? 1 : 0);
      if (!ids.has_value()) continue;
      transaction.RetainGuarded(One(*ids));
      transaction.ReleaseGuarded(One(*ids));
    }
  });
  EXPECT_EQ(num_interrupted, std::vector<int>(kThreads));
  pool.Check();
}

}  // namespace
}  // namespace servecore::kv
