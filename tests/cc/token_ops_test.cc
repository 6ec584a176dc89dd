// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_ops.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace servecore::kv {
namespace {

using Narrow = std::vector<std::int32_t>;
using Wide = std::vector<std::int64_t>;

TEST(CommonPrefixTest, CountsEqualTokensFromTheBeginning) {
  EXPECT_EQ(CommonPrefix(Narrow{1, 2, 3, 4}, Narrow{1, 2, 9}), 2);
  EXPECT_EQ(CommonPrefix(Narrow{1, 2}, Narrow{1, 2, 3}), 2);
  EXPECT_EQ(CommonPrefix(Narrow{1, 2}, Narrow{3, 2}), 0);
  EXPECT_EQ(CommonPrefix(Narrow{}, Narrow{3, 2}), 0);
  EXPECT_EQ(CommonPrefix(IntSpan(), IntSpan()), 0);
}

TEST(CommonPrefixTest, WidthsMayDiffer) {
  EXPECT_EQ(CommonPrefix(Narrow{1, -2, 3}, Wide{1, -2, 4}), 2);
  EXPECT_EQ(CommonPrefix(Wide{1, -2, 4}, Narrow{1, -2, 3}), 2);
  // Equal in their low 32 bits only.
  EXPECT_EQ(CommonPrefix(Narrow{1, 5}, Wide{1, (std::int64_t{1} << 32) + 5}),
            1);
}

TEST(CommonPrefixTest, StridesMayBeAny) {
  const Narrow a = {1, 0, 2, 0, 3, 0};
  const Narrow b = {9, 3, 2, 1};
  const StridedSpan<std::int32_t> every_second(a.data(), 3, 2);
  const StridedSpan<std::int32_t> reversed(b.data() + 3, 4, -1);
  EXPECT_EQ(CommonPrefix(every_second, reversed), 3);
}

// Every place of the first difference around the chunks of the fast path.
TEST(CommonPrefixTest, LongInputDiffersAnywhere) {
  Narrow a(5000);
  Wide wide(5000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int32_t>(i * 7);
    wide[i] = a[i];
  }
  EXPECT_EQ(CommonPrefix(a, a), 5000);
  EXPECT_EQ(CommonPrefix(wide, wide), 5000);
  for (const std::size_t at : {0, 1, 1023, 1024, 1025, 2047, 2048, 4999}) {
    Narrow b = a;
    b[at] ^= 1 << 30;
    EXPECT_EQ(CommonPrefix(a, b), static_cast<std::int64_t>(at));
    Wide wide_b = wide;
    wide_b[at] ^= std::int64_t{1} << 62;
    EXPECT_EQ(CommonPrefix(wide, wide_b), static_cast<std::int64_t>(at));
  }
}

TEST(CountEosTest, CountsEveryOccurrence) {
  EXPECT_EQ(CountEos(Narrow{5, 2, 7, 2, 2}, 2), 3);
  EXPECT_EQ(CountEos(Wide{5, 2, 7, 2, 2}, 2), 3);
  EXPECT_EQ(CountEos(Narrow{5, 2, 7, 2, 2}, 4), 0);
  EXPECT_EQ(CountEos(Narrow{}, 2), 0);
}

TEST(CountEosTest, NumberOutsideTheWidthOccursNowhere) {
  const std::int64_t far = (std::int64_t{1} << 32) + 2;
  EXPECT_EQ(CountEos(Narrow{2, 2}, far), 0);
  EXPECT_EQ(CountEos(Narrow{-2, -2}, -far), 0);
  EXPECT_EQ(CountEos(Wide{2, far}, far), 1);
  EXPECT_EQ(CountEos(Wide{std::numeric_limits<std::int64_t>::min()},
                     std::numeric_limits<std::int64_t>::min()),
            1);
}

TEST(CountEosTest, StridesMayBeAny) {
  const Narrow tokens = {2, 2, 1, 2, 2, 2};
  const std::int32_t* const data = tokens.data();
  EXPECT_EQ(CountEos(StridedSpan<std::int32_t>(data, 3, 2), 2), 2);
  EXPECT_EQ(CountEos(StridedSpan<std::int32_t>(data + 5, 6, -1), 2), 5);
  EXPECT_EQ(CountEos(StridedSpan<std::int32_t>(data + 2, 9, 0), 1), 9);
}

}  // namespace
}  // namespace servecore::kv
