// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_compare.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cc/base/strided_span.h"

namespace servecore::kv {
namespace {

using Narrow = std::vector<std::int32_t>;
using Wide = std::vector<std::int64_t>;

constexpr std::int64_t kMost = 200;

Narrow Rising() {
  Narrow tokens(kMost);
  std::iota(tokens.begin(), tokens.end(), -100);
  return tokens;
}

// Every length around the vectors' and every place of the first difference.
template <class Token>
void ExpectFindsEveryDifference() {
  const Narrow stored = Rising();
  for (std::int64_t n : {0, 1, 63, 64, 65, 128, 199}) {
    for (std::int64_t place = 0; place <= n; ++place) {
      std::vector<Token> tokens(stored.begin(), stored.end());
      if (place < n) tokens[static_cast<std::size_t>(place)] ^= 1;
      ASSERT_EQ(CommonTokens(stored.data(), tokens, 0, n), place) << n;
    }
  }
}

TEST(TokenCompareTest, FindsEveryDifference) {
  ExpectFindsEveryDifference<std::int32_t>();
  ExpectFindsEveryDifference<std::int64_t>();
}

TEST(TokenCompareTest, BeginsWhereItIsTold) {
  const Narrow stored = Rising();
  const Wide tokens(stored.begin(), stored.end());
  EXPECT_EQ(CommonTokens(stored.data() + 7, tokens, 7, 150), 150);
  EXPECT_EQ(CommonTokens(stored.data() + 8, tokens, 7, 150), 0);
}

TEST(TokenCompareTest, SeesWhatOnlyTheHighHalfTells) {
  const Narrow stored = Rising();
  Wide tokens(stored.begin(), stored.end());
  for (const std::size_t place : {0U, 70U, 190U}) {
    Wide changed = tokens;
    changed[place] += std::int64_t{1} << 32;
    EXPECT_EQ(CommonTokens(stored.data(), changed, 0, kMost),
              static_cast<std::int64_t>(place));
  }
  // -1 is not 2^32 - 1.
  const Narrow minus_one = {-1};
  EXPECT_EQ(CommonTokens(minus_one.data(), Wide{0xffffffff}, 0, 1), 0);
}

TEST(TokenCompareTest, WideTokensMeetBothWidths) {
  const Wide stored = {1, std::int64_t{1} << 40, 3};
  EXPECT_EQ(CommonTokens(stored.data(), stored, 0, 3), 3);
  EXPECT_EQ(CommonTokens(stored.data(), Narrow{1, 0, 3}, 0, 3), 1);
}

TEST(TokenCompareTest, ReadsByStrides) {
  const Narrow stored = Rising();
  const Narrow reversed(stored.rbegin(), stored.rend());
  const StridedSpan<std::int32_t> backwards(reversed.data() + kMost - 1, kMost,
                                            -1);
  EXPECT_EQ(CommonTokens(stored.data(), backwards, 0, kMost), kMost);
  EXPECT_EQ(CommonTokens(stored.data() + 5, backwards, 5, 9), 9);
  EXPECT_EQ(HashTokens(stored, 3, 16, 1), HashTokens(backwards, 3, 16, 1));
  Narrow copy(kMost);
  EXPECT_TRUE(CopyTokens(backwards, 0, kMost, copy.data()));
  EXPECT_EQ(copy, stored);
}

template <class Out>
void ExpectCopies() {
  const Narrow narrow = Rising();
  const Wide wide(narrow.begin(), narrow.end());
  for (std::int64_t n : {0, 1, 17, 64, 197}) {
    std::vector<Out> from_narrow(kMost, 99);
    std::vector<Out> from_wide(kMost, 99);
    EXPECT_TRUE(CopyTokens(narrow, 2, n, from_narrow.data()));
    EXPECT_TRUE(CopyTokens(wide, 2, n, from_wide.data()));
    for (std::size_t i = 0; i < kMost; ++i) {
      const auto expected =
          static_cast<std::int64_t>(i) < n ? Out{narrow[i + 2]} : Out{99};
      ASSERT_EQ(from_narrow[i], expected);
      ASSERT_EQ(from_wide[i], expected);
    }
  }
}

TEST(TokenCompareTest, CopiesBetweenWidths) {
  ExpectCopies<std::int32_t>();
  ExpectCopies<std::int64_t>();
}

TEST(TokenCompareTest, CopyTellsWhatDidNotFit) {
  using Limits = std::numeric_limits<std::int32_t>;
  Narrow out(kMost);
  for (const std::size_t place : {0U, 70U, 199U}) {
    Wide tokens(kMost, Limits::max());
    tokens[3] = Limits::min();
    EXPECT_TRUE(CopyTokens(tokens, 0, kMost, out.data()));
    tokens[place] = std::int64_t{Limits::max()} + 1;
    EXPECT_FALSE(CopyTokens(tokens, 0, kMost, out.data()));
    tokens[place] = std::int64_t{Limits::min()} - 1;
    EXPECT_FALSE(CopyTokens(tokens, 0, kMost, out.data()));
    const StridedSpan<std::int64_t> backwards(&tokens[kMost - 1], kMost, -1);
    EXPECT_FALSE(CopyTokens(backwards, 0, kMost, out.data()));
  }
}

TEST(TokenCompareTest, HashesDifferWhereTokensOrSeedsDo) {
  for (std::int64_t n = 1; n <= 17; ++n) {
    const Narrow tokens = Rising();
    const std::uint64_t hash = HashTokens(tokens, 0, n, 5);
    EXPECT_EQ(HashTokens(Wide(tokens.begin(), tokens.end()), 0, n, 5), hash);
    EXPECT_NE(HashTokens(tokens, 0, n, 6), hash);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      Narrow changed = tokens;
      changed[i] ^= 1 << 20;
      EXPECT_NE(HashTokens(changed, 0, n, 5), hash);
    }
  }
}

}  // namespace
}  // namespace servecore::kv
