// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/use_marks.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "cc/kv/eviction_policy.h"

namespace servecore::kv {
namespace {

constexpr std::int32_t kNone = UseMarks::kNone;
constexpr std::int32_t kBlocks = 12;

// The use of each block of a run of `num_blocks` that was used as `use` says at
// its end.
std::vector<BlockUse> UsesOf(const UseMarks& marks, std::int32_t first,
                             std::int32_t num_blocks, const BlockUse& use) {
  std::vector<BlockUse> uses(static_cast<std::size_t>(num_blocks), use);
  for (std::int32_t mark = first; mark != kNone; mark = marks[mark].next) {
    for (std::int32_t i = 0; i < marks[mark].end; ++i) {
      uses[static_cast<std::size_t>(i)].Add(marks[mark].use);
    }
  }
  return uses;
}

std::int64_t LengthOf(const UseMarks& marks, std::int32_t first) {
  std::int64_t length = 0;
  for (; first != kNone; first = marks[first].next) ++length;
  return length;
}

// Without hits, as a policy sees it that does not count them.
std::vector<BlockUse> Visible(std::vector<BlockUse> uses, bool counts_hits) {
  if (!counts_hits) {
    for (BlockUse& use : uses) use.hits = 0;
  }
  return uses;
}

// Marks against a use for each block, through additions and one cut.
void CompareWithBlocks(std::uint32_t seed, bool counts_hits) {
  std::mt19937 random(seed);
  const auto pick = [&random](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
  };
  UseMarks marks(counts_hits);
  BlockUse use = {.hits = 0, .last_use = 1, .priority = 0};
  std::vector<BlockUse> model(kBlocks, use);
  std::int32_t first = kNone;
  for (std::uint64_t now = 2; now < 40; ++now) {
    const BlockUse added = {
        .hits = 1, .last_use = now, .priority = pick(3) - 1};
    const std::int32_t end = 1 + pick(kBlocks);
    marks.Reserve();
    if (end < kBlocks) {
      marks.Add(first, end, added);
    } else {
      use.Add(added);
      marks.DropNeedless(first, use);
    }
    for (std::int32_t i = 0; i < end; ++i) {
      model[static_cast<std::size_t>(i)].Add(added);
    }
    ASSERT_EQ(Visible(UsesOf(marks, first, kBlocks, use), counts_hits),
              Visible(model, counts_hits));
    marks.Check(LengthOf(marks, first));
  }
  const std::int32_t cut = 1 + pick(kBlocks - 1);
  BlockUse head_use = use;
  std::int32_t tail = first;
  const std::int32_t head = marks.Cut(tail, cut, head_use);
  std::vector<BlockUse> both = UsesOf(marks, head, cut, head_use);
  for (const BlockUse& of_tail : UsesOf(marks, tail, kBlocks - cut, use)) {
    both.push_back(of_tail);
  }
  EXPECT_EQ(Visible(both, counts_hits), Visible(model, counts_hits));
  if (head != kNone) {
    EXPECT_LT(marks[head].end, cut);
  }
  marks.Check(LengthOf(marks, head) + LengthOf(marks, tail));
  marks.Drop(head);
  marks.Drop(tail);
  marks.Check(0);
}

TEST(UseMarksTest, SaysWhatWasUsedHow) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    CompareWithBlocks(seed, /*counts_hits=*/true);
    CompareWithBlocks(seed, /*counts_hits=*/false);
  }
}

TEST(UseMarksTest, AMarkThatSaysNothingIsDropped) {
  UseMarks marks(/*counts_hits=*/false);
  std::int32_t first = kNone;
  for (std::uint64_t now = 1; now < 100; ++now) {
    marks.Reserve();
    marks.Add(first, 1 + static_cast<std::int32_t>(now % 10),
              {.hits = 1, .last_use = now, .priority = 0});
    EXPECT_LE(LengthOf(marks, first), 10);
  }
  marks.DropNeedless(first, {.hits = 0, .last_use = 100, .priority = 0});
  EXPECT_EQ(first, kNone);
  EXPECT_THROW(marks.Check(1), std::logic_error);
}

}  // namespace
}  // namespace servecore::kv
