// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "cc/base/strided_span.h"
#include "tests/cc/run_together.h"

namespace servecore::kv {
namespace {

using Narrow = std::vector<std::int32_t>;
using Wide = std::vector<std::int64_t>;

Wide Read(const TokenBuffer::Snapshot& snapshot) {
  return std::visit(
      [](const auto& span) { return Wide(span.data, span.data + span.size); },
      snapshot.span);
}

bool IsNarrow(const TokenBuffer& buffer) {
  return std::holds_alternative<StridedSpan<std::int32_t>>(
      buffer.TakeSnapshot().span);
}

TEST(TokenBufferTest, KeepsWhatIsAppended) {
  TokenBuffer buffer;
  EXPECT_EQ(buffer.size(), 0);
  EXPECT_EQ(Read(buffer.TakeSnapshot()), Wide{});
  buffer.Append(Narrow{1, 2});
  buffer.Append(Wide{3});
  buffer.Append(Narrow{});
  const Narrow reversed = {6, 5, 4};
  buffer.Append(StridedSpan<std::int32_t>(reversed.data() + 2, 3, -1));
  EXPECT_EQ(Read(buffer.TakeSnapshot()), (Wide{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(buffer.size(), 6);
  EXPECT_TRUE(IsNarrow(buffer));
}

TEST(TokenBufferTest, WidensForTheFirstTokenThatNeedsIt) {
  TokenBuffer buffer;
  const std::int64_t far = std::int64_t{1} << 40;
  buffer.Append(Narrow{-1, 2});
  const TokenBuffer::Snapshot before = buffer.TakeSnapshot();
  buffer.Append(Wide{3, far});
  EXPECT_FALSE(IsNarrow(buffer));
  EXPECT_EQ(Read(buffer.TakeSnapshot()), (Wide{-1, 2, 3, far}));
  EXPECT_EQ(Read(before), (Wide{-1, 2}));
  buffer.Append(Narrow{-5});
  EXPECT_EQ(Read(buffer.TakeSnapshot()), (Wide{-1, 2, 3, far, -5}));

  TokenBuffer wide_at_once;
  wide_at_once.Append(Wide{far});
  EXPECT_EQ(Read(wide_at_once.TakeSnapshot()), Wide{far});
}

TEST(TokenBufferTest, SnapshotsOutliveGrowthAndBuffer) {
  TokenBuffer::Snapshot first;
  {
    TokenBuffer buffer;
    buffer.Append(Narrow{7});
    first = buffer.TakeSnapshot();
    for (int i = 0; i < 1000; ++i) buffer.Append(Narrow{i});
    EXPECT_EQ(buffer.size(), 1001);
  }
  EXPECT_EQ(Read(first), Wide{7});
}

TEST(TokenBufferTest, SnapshotsAreReadWhileOthersAppend) {
  TokenBuffer buffer;
  std::atomic<int> num_wrong = 0;
  RunTogether(4, [&](int t) {
    for (std::int32_t i = 0; i < 2000; ++i) {
      if (t == 0) {
        buffer.Append(Narrow{i});
        continue;
      }
      const Wide tokens = Read(buffer.TakeSnapshot());
      for (std::size_t j = 0; j < tokens.size(); ++j) {
        if (tokens[j] != static_cast<std::int64_t>(j)) ++num_wrong;
      }
    }
  });
  EXPECT_EQ(num_wrong, 0);
  EXPECT_EQ(buffer.size(), 2000);
}

}  // namespace
}  // namespace servecore::kv
