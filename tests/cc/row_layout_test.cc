// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/row_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace servecore::ops {
namespace {

using Ints = std::vector<std::int64_t>;

// The offsets of all rows, by nested counting instead of a cursor.
Ints ExpectedOffsets(const Ints& sizes, const Ints& strides) {
  Ints offsets{0};
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    Ints next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t index = 0; index < sizes[i]; ++index) {
        next.push_back(offset + index * strides[i]);
      }
    }
    offsets = next;
  }
  return offsets;
}

Ints WalkFrom(const RowLayout& layout, std::int64_t begin) {
  Ints offsets;
  RowCursor cursor(layout, begin);
  for (std::int64_t row = begin; row < layout.rows(); ++row) {
    offsets.push_back(cursor.offset());
    cursor.Next();
  }
  return offsets;
}

Ints ToVector(std::span<const std::int64_t> values) {
  return {values.begin(), values.end()};
}

TEST(RowLayoutTest, AVectorIsOneRow) {
  const RowLayout layout(Ints{5}, Ints{3});
  EXPECT_EQ(layout.rows(), 1);
  EXPECT_EQ(layout.dim(), 5);
  EXPECT_EQ(layout.stride(), 3);
  EXPECT_TRUE(layout.leading_sizes().empty());
  EXPECT_EQ(WalkFrom(layout, 0), Ints{0});
}

TEST(RowLayoutTest, MergesContiguousLeadingDimensions) {
  const RowLayout layout(Ints{2, 3, 4, 5}, Ints{60, 20, 5, 1});
  EXPECT_EQ(layout.rows(), 24);
  EXPECT_EQ(ToVector(layout.leading_sizes()), Ints{24});
  EXPECT_EQ(ToVector(layout.leading_strides()), Ints{5});
}

TEST(RowLayoutTest, DropsDimensionsOfSizeOne) {
  const RowLayout layout(Ints{1, 4, 1, 5}, Ints{999, 10, -7, 1});
  EXPECT_EQ(layout.rows(), 4);
  EXPECT_EQ(ToVector(layout.leading_sizes()), Ints{4});
  EXPECT_EQ(ToVector(layout.leading_strides()), Ints{10});
}

TEST(RowLayoutTest, KeepsDimensionsThatAreNoProgression) {
  const RowLayout layout(Ints{7, 4, 8}, Ints{8, 56, 1});
  EXPECT_EQ(ToVector(layout.leading_sizes()), (Ints{7, 4}));
  EXPECT_EQ(ToVector(layout.leading_strides()), (Ints{8, 56}));
}

struct Case {
  std::string name;
  Ints sizes;
  Ints strides;
};

class RowCursorTest : public testing::TestWithParam<Case> {};

TEST_P(RowCursorTest, GivesEveryRowInOrderFromEveryStart) {
  const auto& [name, sizes, strides] = GetParam();
  const RowLayout layout(sizes, strides);
  const Ints expected = ExpectedOffsets(sizes, strides);
  ASSERT_EQ(layout.rows(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t begin = 0; begin <= layout.rows(); ++begin) {
    EXPECT_EQ(WalkFrom(layout, begin),
              Ints(expected.begin() + begin, expected.end()))
        << "from row " << begin;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RowCursorTest,
    testing::Values(Case{"Contiguous", {2, 3, 4}, {12, 4, 1}},
                    Case{"Transposed", {3, 2, 4}, {4, 12, 1}},
                    Case{"Sliced", {2, 3, 4}, {100, 20, 2}},
                    Case{"Expanded", {3, 2, 4}, {0, 4, 1}},
                    Case{"Negative", {3, 2, 4}, {-8, 4, 1}},
                    Case{"Permuted", {2, 3, 4, 5}, {5, 40, 10, 1}},
                    Case{"Beyond32Bits", {2, 3, 4}, {1LL << 40, 1LL << 33, 1}},
                    Case{"NoRows", {3, 0, 4}, {0, 4, 1}},
                    Case{"EmptyRows", {3, 2, 0}, {2, 1, 1}}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST(RowCursorTest, WrapsAroundAfterTheLastRow) {
  const RowLayout layout(Ints{2, 3, 4}, Ints{100, 4, 1});
  RowCursor cursor(layout, 5);
  EXPECT_EQ(cursor.offset(), 108);
  cursor.Next();
  EXPECT_EQ(cursor.offset(), 0);
}

std::string MessageOf(const Ints& sizes, const Ints& strides) {
  try {
    const RowLayout layout(sizes, strides);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(RowLayoutTest, RefusesWhatIsNoTensorWithRows) {
  EXPECT_EQ(MessageOf({2, 3}, {1}),
            "RowLayout: 2 sizes, but 1 strides; give one stride per size");
  EXPECT_EQ(MessageOf({}, {}),
            "RowLayout: rank 0; allowed are 1 to 64 dimensions");
  EXPECT_EQ(MessageOf(Ints(65, 1), Ints(65, 1)),
            "RowLayout: rank 65; allowed are 1 to 64 dimensions");
  EXPECT_EQ(MessageOf({2, -1}, {1, 1}),
            "RowLayout: size -1; sizes must not be negative");
}

TEST(RowLayoutTest, TakesTheLargestRankOfTorch) {
  // Strides of 7 everywhere let no two dimensions merge.
  Ints sizes(64, 1);
  for (std::size_t i = 0; i < 20; ++i) sizes[3 * i] = 2;
  const RowLayout layout(sizes, Ints(64, 7));
  EXPECT_EQ(layout.rows(), 1 << 20);
  EXPECT_EQ(layout.leading_sizes().size(), 20U);
}

}  // namespace
}  // namespace servecore::ops
