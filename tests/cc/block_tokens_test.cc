// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace servecore::kv {
namespace {

using Narrow = std::vector<std::int32_t>;
using Wide = std::vector<std::int64_t>;

constexpr std::int64_t kFar = (std::int64_t{1} << 32) + 5;

Narrow Low(const TokenBlock& tokens, std::int64_t block_size) {
  return {tokens.low, tokens.low + block_size};
}

TEST(TokenReaderTest, ReadsWholeBlocksOnly) {
  const Narrow tokens = {1, 2, 3, 4, 5, 6, 7};
  TokenReader reader(tokens, 3);
  ASSERT_EQ(reader.num_blocks(), 2);
  EXPECT_EQ(Low(reader.Read(0), 3), (Narrow{1, 2, 3}));
  EXPECT_EQ(Low(reader.Read(1), 3), (Narrow{4, 5, 6}));
  EXPECT_EQ(TokenReader(tokens, 8).num_blocks(), 0);
  EXPECT_EQ(TokenReader(IntSpan(), 1).num_blocks(), 0);
}

TEST(TokenReaderTest, BothWidthsGiveOneForm) {
  const Narrow narrow = {1, -2, 2147483647, -2147483648};
  const Wide wide(narrow.begin(), narrow.end());
  TokenReader narrow_reader(narrow, 2);
  TokenReader wide_reader(wide, 2);
  for (const std::int64_t i : {1, 0}) {
    const TokenBlock a = narrow_reader.Read(i);
    const TokenBlock b = wide_reader.Read(i);
    EXPECT_EQ(Low(a, 2), Low(b, 2));
    EXPECT_EQ(a.high, nullptr);
    EXPECT_EQ(b.high, nullptr);
  }
}

TEST(TokenReaderTest, HighWordsComeWhereATokenNeedsThem) {
  const Wide tokens = {1, 2, kFar, -1, 3, 4};
  TokenReader reader(tokens, 2);
  EXPECT_EQ(reader.Read(0).high, nullptr);
  const TokenBlock far = reader.Read(1);
  EXPECT_EQ(Low(far, 2), (Narrow{5, -1}));
  ASSERT_NE(far.high, nullptr);
  EXPECT_EQ(Narrow(far.high, far.high + 2), (Narrow{1, -1}));
  EXPECT_EQ(reader.Read(2).high, nullptr);
}

TEST(TokenReaderTest, StridesMayBeAny) {
  const Narrow narrow = {4, 0, 3, 0, 2, 0, 1};
  TokenReader reader(StridedSpan<std::int32_t>(narrow.data() + 6, 4, -2), 2);
  EXPECT_EQ(Low(reader.Read(0), 2), (Narrow{1, 2}));
  EXPECT_EQ(Low(reader.Read(1), 2), (Narrow{3, 4}));
  const Wide one = {9};
  TokenReader repeated(StridedSpan<std::int64_t>(one.data(), 4, 0), 2);
  EXPECT_EQ(Low(repeated.Read(1), 2), (Narrow{9, 9}));
}

TEST(HashTokensTest, DependsOnEveryTokenAndTheSeed) {
  for (const std::int64_t block_size : {1, 2, 3, 4, 5, 8, 17}) {
    std::set<std::uint64_t> hashes;
    Narrow tokens(static_cast<std::size_t>(block_size), 100);
    const TokenBlock block{.low = tokens.data()};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      hashes.insert(HashTokens(block, block_size, seed));
    }
    for (std::int32_t& token : tokens) {
      for (std::int32_t bit = 0; bit < 32; ++bit) {
        token = static_cast<std::int32_t>(100U ^ (1U << bit));
        hashes.insert(HashTokens(block, block_size, 0));
      }
      token = 100;
    }
    EXPECT_EQ(hashes.size(), 50U + 32U * static_cast<unsigned>(block_size));
    EXPECT_EQ(HashTokens(block, block_size, 0),
              HashTokens(block, block_size, 0));
  }
}

TEST(TokenStoreTest, KeepsTheTokensOfEachBlock) {
  // The largest has one block a slab.
  for (const std::int64_t block_size : {1, 3, 16, 70000}) {
    TokenStore store(block_size);
    const std::vector<std::int32_t> blocks = {70, 0, 1, 5000};
    const auto tokens_of = [block_size](std::int32_t block) {
      return Narrow(static_cast<std::size_t>(block_size), 3 * block + 1);
    };
    for (const std::int32_t block : blocks) {
      const Narrow tokens = tokens_of(block);
      store.Store(block, {.low = tokens.data()});
    }
    for (const std::int32_t block : blocks) {
      EXPECT_EQ(Low(store.At(block), block_size), tokens_of(block));
      for (const std::int32_t other : blocks) {
        const Narrow tokens = tokens_of(other);
        EXPECT_EQ(store.Equals(block, {.low = tokens.data()}), block == other);
      }
    }
  }
}

TEST(TokenStoreTest, OneDifferentTokenIsNoticed) {
  TokenStore store(4);
  const Narrow tokens = {1, 2, 3, 4};
  store.Store(9, {.low = tokens.data()});
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Narrow other = tokens;
    other[i] ^= 1 << 31;
    EXPECT_FALSE(store.Equals(9, {.low = other.data()}));
  }
}

TEST(TokenStoreTest, HighWordsAreCompared) {
  TokenStore store(2);
  const Narrow low = {5, 6};
  const Narrow high = {1, 0};
  const Narrow other_high = {2, 0};
  store.Store(0, {.low = low.data()});
  store.Store(1, {.low = low.data(), .high = high.data()});
  EXPECT_TRUE(store.Equals(0, {.low = low.data()}));
  EXPECT_FALSE(store.Equals(0, {.low = low.data(), .high = high.data()}));
  EXPECT_FALSE(store.Equals(1, {.low = low.data()}));
  EXPECT_TRUE(store.Equals(1, {.low = low.data(), .high = high.data()}));
  EXPECT_FALSE(store.Equals(1, {.low = low.data(), .high = other_high.data()}));
}

TEST(TokenStoreTest, StoringAgainReplacesAndDropForgetsHighWords) {
  TokenStore store(2);
  const Narrow low = {5, 6};
  const Narrow high = {1, 0};
  store.Store(1, {.low = low.data(), .high = high.data()});
  store.Store(1, {.low = low.data()});
  EXPECT_EQ(store.At(1).high, nullptr);
  store.Store(1, {.low = low.data(), .high = high.data()});
  store.Drop(1);
  EXPECT_EQ(store.At(1).high, nullptr);
  EXPECT_EQ(Low(store.At(1), 2), low);
}

}  // namespace
}  // namespace servecore::kv
