// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/hashed_block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/cc/run_together.h"

namespace servecore::kv {

class HashedBlockPoolTestPeer {
 public:
  explicit HashedBlockPoolTestPeer(HashedBlockPool& pool) : pool_(pool) {}

  std::vector<std::int32_t>& prev() { return pool_.prev_; }
  std::vector<std::int32_t>& next() { return pool_.next_; }
  std::vector<std::int32_t>& refs() { return pool_.refs_; }
  std::vector<std::int32_t>& buckets() { return pool_.buckets_; }
  std::int32_t& num_free() { return pool_.num_free_; }
  std::int64_t& total_refs() { return pool_.total_refs_; }
  std::int64_t& num_keys() { return pool_.num_keys_; }
  std::int32_t& BlockOf(std::size_t entry) {
    return pool_.entries_[entry].block;
  }
  std::int32_t& TwinPrevOf(std::size_t entry) {
    return pool_.entries_[entry].twin_prev;
  }

 private:
  HashedBlockPool& pool_;
};

namespace {

using Ids = std::vector<std::int32_t>;
using Keys = std::vector<std::string_view>;

// Runs `call`, which has to throw Error, and shows that nothing changed.
template <class Error, class Call>
void ExpectUnchanged(HashedBlockPool& pool, Call call) {
  const HashedBlockPoolStats before = pool.stats();
  const Ids queue = pool.FreeBlocks();
  std::vector<std::vector<std::string>> keys;
  for (int i = 0; i < pool.num_blocks(); ++i) keys.push_back(pool.KeysOf(i));
  EXPECT_THROW(call(), Error);
  EXPECT_EQ(pool.stats(), before);
  EXPECT_EQ(pool.FreeBlocks(), queue);
  for (int i = 0; i < pool.num_blocks(); ++i) {
    EXPECT_EQ(pool.KeysOf(i), keys[i]);
  }
  EXPECT_NO_THROW(pool.Check());
}

TEST(HashedBlockPool, FreshPoolCountsUp) {
  HashedBlockPool pool(4);
  EXPECT_EQ(pool.Allocate(3), (Ids{0, 1, 2}));
  EXPECT_EQ(pool.Allocate(2), std::nullopt);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.Allocate(1), (Ids{3}));
  EXPECT_EQ(pool.Allocate(0), (Ids{}));
  pool.Check();
}

TEST(HashedBlockPool, MayBeEmpty) {
  HashedBlockPool pool(0);
  EXPECT_EQ(pool.Allocate(0), (Ids{}));
  EXPECT_EQ(pool.Allocate(1), std::nullopt);
  pool.Check();
}

TEST(HashedBlockPool, KeyedBlocksQueueAtTheEndOthersInFront) {
  HashedBlockPool pool(6);
  pool.Allocate(5);
  pool.Insert(Ids{1, 3}, Keys{"a", "b"});
  pool.Free(Ids{3, 2, 1, 0});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{2, 0, 5, 3, 1}));
  pool.Check();
}

TEST(HashedBlockPool, KeyedBlocksComeLastInAnEmptyQueueToo) {
  HashedBlockPool pool(3);
  pool.Allocate(3);
  pool.Insert(Ids{0, 1}, Keys{"a", "b"});
  pool.Free(Ids{0, 2, 1});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{2, 0, 1}));
}

TEST(HashedBlockPool, BlocksFreedLastJoinTheEndWithoutAKeyToo) {
  HashedBlockPool pool(6);
  pool.Allocate(5);
  pool.Insert(Ids{1}, Keys{"a"});
  pool.Free(Ids{3, 1, 2, 0}, /*last=*/true);
  EXPECT_EQ(pool.FreeBlocks(), (Ids{5, 3, 1, 2, 0}));
  pool.Free(Ids{4});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{4, 5, 3, 1, 2, 0}));
  pool.Check();
}

TEST(HashedBlockPool, ShowsTheNeighborsInTheQueue) {
  HashedBlockPool pool(4);
  pool.Touch(Ids{1});
  const auto neighbors = [&pool](std::int64_t block) {
    return pool.FreeNeighbors(block);
  };
  using Pair = std::pair<std::int32_t, std::int32_t>;
  EXPECT_EQ(neighbors(0), (Pair{-1, 2}));
  EXPECT_EQ(neighbors(2), (Pair{0, 3}));
  EXPECT_EQ(neighbors(3), (Pair{2, -1}));
  EXPECT_EQ(neighbors(-1), (Pair{3, 0}));
  EXPECT_THROW(neighbors(1), std::logic_error);
  EXPECT_THROW(neighbors(4), std::out_of_range);
  EXPECT_THROW(neighbors(-2), std::out_of_range);
  pool.Allocate(3);
  EXPECT_EQ(neighbors(-1), (Pair{-1, -1}));
}

TEST(HashedBlockPool, AFreedBlockIsFoundUntilItIsGivenAgain) {
  HashedBlockPool pool(2);
  pool.Allocate(2);
  pool.Insert(Ids{0, 1}, Keys{"a", "b"});
  pool.Free(Ids{1, 0});
  EXPECT_EQ(pool.Find(Keys{"a", "b", "c"}), (Ids{0, 1}));
  std::vector<RemovedKey> removed;
  EXPECT_EQ(pool.Allocate(1, &removed), (Ids{1}));
  EXPECT_EQ(removed, (std::vector<RemovedKey>{{1, "b"}}));
  EXPECT_EQ(pool.Find(Keys{"a", "b"}), (Ids{0}));
  EXPECT_EQ(pool.Find(Keys{"b", "a"}), (Ids{}));
}

TEST(HashedBlockPool, TouchTakesABlockOutOfTheQueue) {
  HashedBlockPool pool(5);
  pool.Touch(Ids{2, 0, 4, 2});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{1, 3}));
  EXPECT_EQ(pool.RefCount(2), 2);
  pool.Check();
  pool.Free(Ids{2});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{1, 3}));
  pool.Free(Ids{2});
  EXPECT_EQ(pool.FreeBlocks(), (Ids{2, 1, 3}));
}

TEST(HashedBlockPool, TheFirstOfTwinsIsFound) {
  HashedBlockPool pool(4);
  pool.Allocate(4);
  using Flags = std::vector<std::uint8_t>;
  EXPECT_EQ(pool.Insert(Ids{2, 1}, Keys{"a", "a"}), (Flags{0, 1}));
  EXPECT_EQ(pool.Insert(Ids{0, 3}, Keys{"a", "b"}), (Flags{1, 0}));
  pool.Check();
  for (const std::int32_t first : {2, 1, 0}) {
    EXPECT_EQ(pool.Find(Keys{"a"}), (Ids{first}));
    EXPECT_EQ(pool.FindOne("a"), first);
    pool.RemoveKeys(Ids{first});
    pool.Check();
  }
  EXPECT_EQ(pool.Find(Keys{"a"}), (Ids{}));
  EXPECT_EQ(pool.FindOne("a"), std::nullopt);
  pool.Insert(Ids{0, 1, 2}, Keys{"a", "a", "a"});
  pool.RemoveKeys(Ids{1});
  pool.Check();
  pool.RemoveKeys(Ids{2});
  pool.Check();
  EXPECT_EQ(pool.Find(Keys{"a"}), (Ids{0}));
}

TEST(HashedBlockPool, ABlockMayHaveSeveralKeys) {
  HashedBlockPool pool(2);
  pool.Allocate(2);
  EXPECT_FALSE(pool.AddKey(0, "a"));
  EXPECT_FALSE(pool.AddKey(0, "b"));
  EXPECT_TRUE(pool.AddKey(1, "b"));
  EXPECT_EQ(pool.KeysOf(0), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(pool.Has(0, "b"));
  EXPECT_FALSE(pool.Has(1, "a"));
  EXPECT_EQ(pool.stats().num_keyed, 2);
  EXPECT_EQ(pool.stats().num_keys, 3);
  EXPECT_EQ(pool.RemoveKeys(Ids{0, 0}),
            (std::vector<RemovedKey>{{0, "a"}, {0, "b"}}));
  EXPECT_EQ(pool.Find(Keys{"b"}), (Ids{1}));
  pool.Check();
}

TEST(HashedBlockPool, ResetForgetsKeysAndKeepsTheQueue) {
  HashedBlockPool pool(3);
  pool.Allocate(3);
  pool.Insert(Ids{1, 2}, Keys{"a", "b"});
  pool.Free(Ids{2, 1});
  pool.Reset(1);
  EXPECT_EQ(pool.Find(Keys{"a"}), (Ids{}));
  EXPECT_EQ(pool.FreeBlocks(), (Ids{2, 1}));
  EXPECT_EQ(pool.stats().num_keys, 0);
  pool.Check();
  pool.Insert(Ids{2}, Keys{"a"});
  EXPECT_EQ(pool.Find(Keys{"a"}), (Ids{2}));
}

TEST(HashedBlockPool, RefusesMisuseAndChangesNothing) {
  HashedBlockPool pool(5);
  pool.Allocate(3);
  pool.Insert(Ids{0}, Keys{"a"});
  pool.Touch(Ids{1});
  using std::invalid_argument;
  using std::logic_error;
  using std::out_of_range;
  ExpectUnchanged<logic_error>(pool, [&] { pool.Free(Ids{0, 3}); });
  ExpectUnchanged<logic_error>(pool, [&] { pool.Free(Ids{1, 1, 2, 1}); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.Free(Ids{0, 5}); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.Free(Ids{0, -1}); });
  ExpectUnchanged<out_of_range>(
      pool, [&] { pool.Free(std::vector<std::int64_t>{0, 1LL << 32}); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.Touch(Ids{3, 5}); });
  ExpectUnchanged<invalid_argument>(pool, [&] { pool.Allocate(-1); });
  ExpectUnchanged<invalid_argument>(pool, [&] { pool.Allocate(1LL << 31); });
  ExpectUnchanged<logic_error>(
      pool, [&] { pool.Insert(Ids{1, 2, 0}, Keys{"a", "b", "c"}); });
  ExpectUnchanged<logic_error>(pool,
                               [&] { pool.Insert(Ids{1, 1}, Keys{"b", "c"}); });
  ExpectUnchanged<invalid_argument>(pool,
                                    [&] { pool.Insert(Ids{1, 2}, Keys{"b"}); });
  ExpectUnchanged<invalid_argument>(
      pool, [&] { pool.Insert(Ids{1, 2}, Keys{"b", ""}); });
  const std::string longest(HashedBlockPool::kMaxKeySize, 'x');
  ExpectUnchanged<invalid_argument>(pool,
                                    [&] { pool.AddKey(1, longest + 'x'); });
  ExpectUnchanged<logic_error>(pool, [&] { pool.AddKey(0, "a"); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.AddKey(5, "b"); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.RemoveKeys(Ids{0, 9}); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.KeysOf(-1); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.Has(5, "a"); });
  ExpectUnchanged<out_of_range>(pool, [&] { pool.RefCount(5); });
  ExpectUnchanged<logic_error>(pool, [&] { pool.Reset(2); });
  ExpectUnchanged<invalid_argument>(pool, [&] { pool.Reset(-1); });
  EXPECT_FALSE(pool.AddKey(1, longest));
  EXPECT_THROW(HashedBlockPool(-1), invalid_argument);
  EXPECT_THROW(HashedBlockPool(1LL << 31), invalid_argument);
}

TEST(HashedBlockPool, RefusesAReferenceCountOverInt32) {
  HashedBlockPool pool(2);
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  pool.Allocate(2);
  HashedBlockPoolTestPeer peer(pool);
  peer.refs()[1] = kMax - 1;
  peer.total_refs() = kMax;
  ExpectUnchanged<std::overflow_error>(pool, [&] { pool.Touch(Ids{0, 1, 1}); });
  pool.Touch(Ids{1});
  EXPECT_EQ(pool.RefCount(1), kMax);
}

TEST(HashedBlockPool, CheckFindsCorruption) {
  const auto expect_broken = [](auto corrupt) {
    HashedBlockPool pool(4);
    pool.Allocate(2);
    pool.Insert(Ids{0, 1, 2}, Keys{"a", "a", "b"});
    pool.Check();
    HashedBlockPoolTestPeer peer(pool);
    corrupt(peer);
    EXPECT_THROW(pool.Check(), std::logic_error);
  };
  expect_broken([](auto& peer) { peer.prev()[3] = 3; });
  expect_broken([](auto& peer) { peer.next()[2] = 4; });
  expect_broken([](auto& peer) { peer.next()[2] = 7; });
  expect_broken([](auto& peer) { peer.next()[3] = 2; });
  expect_broken([](auto& peer) { peer.next()[0] = 2; });
  expect_broken([](auto& peer) { peer.refs()[2] = 1; });
  expect_broken([](auto& peer) { peer.refs()[0] = 2; });
  expect_broken([](auto& peer) { peer.num_free() = 3; });
  expect_broken([](auto& peer) { ++peer.num_keys(); });
  expect_broken([](auto& peer) { peer.BlockOf(0) = 1; });
  expect_broken([](auto& peer) { peer.TwinPrevOf(1) = 2; });
  expect_broken([](auto& peer) { std::ranges::fill(peer.buckets(), -1); });
}

// The same pool in the plainest words.
struct Model {
  std::deque<std::int32_t> queue;
  std::vector<std::int32_t> refs;
  std::vector<std::vector<std::string>> keys;
  std::map<std::string, std::vector<std::int32_t>> holders;

  explicit Model(std::int32_t n) : refs(n), keys(n) {
    for (std::int32_t i = 0; i < n; ++i) queue.push_back(i);
  }
  void Forget(std::int32_t id) {
    for (const std::string& key : keys[id]) std::erase(holders[key], id);
    keys[id].clear();
  }
  void Add(std::int32_t id, const std::string& key) {
    keys[id].push_back(key);
    holders[key].push_back(id);
  }
};

TEST(HashedBlockPool, AgreesWithAModel) {
  constexpr std::int32_t kBlocks = 40;
  HashedBlockPool pool(kBlocks);
  Model model(kBlocks);
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same run each time.
  std::mt19937 random(7);
  const auto below = [&random](std::size_t n) {
    return static_cast<std::int32_t>(random() % n);
  };
  const auto new_key = [&] { return "key " + std::to_string(below(60)); };
  for (int step = 0; step < 20000; ++step) {
    Ids ids;
    switch (below(6)) {
      case 0: {
        const std::int32_t n = below(6);
        const std::optional<Ids> got = pool.Allocate(n);
        if (n > static_cast<std::int32_t>(model.queue.size())) {
          ASSERT_EQ(got, std::nullopt);
          break;
        }
        for (std::int32_t i = 0; i < n; ++i) {
          ids.push_back(model.queue.front());
          model.queue.pop_front();
          model.Forget(ids.back());
          model.refs[ids.back()] = 1;
        }
        ASSERT_EQ(got, ids);
        break;
      }
      case 1: {
        for (std::int32_t n = below(4); n > 0; --n) ids.push_back(below(40));
        pool.Touch(ids);
        for (const std::int32_t id : ids) {
          std::erase(model.queue, id);
          ++model.refs[id];
        }
        break;
      }
      case 2: {
        std::vector<std::int32_t> left = model.refs;
        for (std::int32_t n = below(20); n > 0; --n) {
          const std::int32_t id = below(40);
          if (left[id] > 0) {
            --left[id];
            ids.push_back(id);
          }
        }
        pool.Free(ids);
        std::vector<std::int32_t> first;
        for (const std::int32_t id : ids) {
          if (--model.refs[id] > 0) continue;
          if (model.keys[id].empty()) {
            first.push_back(id);
          } else {
            model.queue.push_back(id);
          }
        }
        model.queue.insert(model.queue.begin(), first.begin(), first.end());
        break;
      }
      case 3: {
        std::vector<std::string> texts;
        for (std::int32_t id = below(40); id < 40 && ids.size() < 4; ++id) {
          if (!model.keys[id].empty()) continue;
          ids.push_back(id);
          texts.push_back(new_key());
          model.Add(id, texts.back());
        }
        pool.Insert(ids, Keys(texts.begin(), texts.end()));
        break;
      }
      case 4: {
        const std::int32_t id = below(40);
        const std::string key = new_key();
        const bool has = std::ranges::count(model.keys[id], key) > 0;
        ASSERT_EQ(pool.Has(id, key), has);
        if (has) break;
        ASSERT_EQ(pool.AddKey(id, key), !model.holders[key].empty());
        model.Add(id, key);
        break;
      }
      default: {
        const std::int32_t id = below(40);
        std::vector<std::string> removed;
        for (const RemovedKey& key : pool.RemoveKeys(Ids{id})) {
          removed.push_back(key.key);
        }
        ASSERT_EQ(removed, model.keys[id]);
        model.Forget(id);
        if (below(100) == 0) {
          pool.Reset(kBlocks);
          for (std::int32_t i = 0; i < kBlocks; ++i) model.Forget(i);
        }
      }
    }
    ASSERT_EQ(pool.FreeBlocks(), Ids(model.queue.begin(), model.queue.end()));
    const std::string key = new_key();
    const Ids& holders = model.holders[key];
    ASSERT_EQ(pool.Find(Keys{key}),
              holders.empty() ? Ids{} : Ids{holders.front()});
    if (step % 16 == 0) pool.Check();
  }
  for (std::int32_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(pool.RefCount(i), model.refs[i]);
    EXPECT_EQ(pool.KeysOf(i), model.keys[i]);
  }
}

TEST(HashedBlockPool, ThreadsShareIt) {
  constexpr int kThreads = 4;
  HashedBlockPool pool(64);
  RunTogether(kThreads, [&pool](int thread) {
    std::mt19937 random(thread);
    for (int i = 0; i < 2000; ++i) {
      const std::optional<Ids> ids =
          pool.Allocate(static_cast<int>(random() % 8));
      if (!ids) continue;
      const std::string key = std::to_string(random() % 50);
      if (!ids->empty()) pool.Insert(Ids{ids->front()}, Keys{key});
      const Ids found = pool.Find(Keys{key, "0"});
      pool.Touch(*ids);
      pool.Free(*ids);
      if (i % 64 == 0) pool.Check();
      pool.Free(*ids);
    }
  });
  pool.Check();
  EXPECT_EQ(pool.num_free(), 64);
  EXPECT_EQ(pool.stats().total_refs, 0);
}

}  // namespace
}  // namespace servecore::kv
