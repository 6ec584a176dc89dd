// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/checked_ids.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "cc/base/strided_span.h"

namespace servecore::kv {
namespace {

template <class Id>
class CheckedIdsTest : public testing::Test {};
using IdTypes = testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CheckedIdsTest, IdTypes);

TYPED_TEST(CheckedIdsTest, CopiesTheFirstOnes) {
  const std::vector<TypeParam> ids = {4, 0, 3, 1, 99};
  EXPECT_EQ(CheckedIds(ids, 4, 5, "ids"),
            (std::vector<std::int32_t>{4, 0, 3, 1}));
  EXPECT_TRUE(CheckedIds(ids, 0, 0, "ids").empty());
  const StridedSpan<TypeParam> backwards(&ids[3], 4, -1);
  EXPECT_EQ(CheckedIds(backwards, 3, 5, "ids"),
            (std::vector<std::int32_t>{1, 3, 0}));
}

TYPED_TEST(CheckedIdsTest, NamesTheFirstBadOne) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam bad :
       {TypeParam{40}, TypeParam{-1}, Limits::max(), Limits::min()}) {
    for (std::size_t i = 0; i < 40; ++i) {
      std::vector<TypeParam> ids(40, 39);
      ids[i] = bad;
      const auto expect_refused = [&](const IntSpan& span, std::size_t place) {
        try {
          CheckedIds(span, 40, 40, "ids");
          ADD_FAILURE() << "nothing was thrown for " << bad << " at " << i;
        } catch (const std::out_of_range& error) {
          EXPECT_EQ(error.what(), "ids[" + std::to_string(place) + "] is " +
                                      std::to_string(bad) +
                                      "; the blocks of this pool are 0 to 39");
        }
      };
      expect_refused(ids, i);
      expect_refused(StridedSpan<TypeParam>(&ids[39], 40, -1), 39 - i);
    }
  }
}

}  // namespace
}  // namespace servecore::kv
