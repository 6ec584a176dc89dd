// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace servecore {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer>);
static_assert(!std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);
static_assert(std::is_nothrow_move_assignable_v<Buffer>);

TEST(BufferTest, HoldsWhatIsWritten) {
  Buffer buffer(10 * sizeof(std::int32_t));
  EXPECT_EQ(buffer.size(), 40U);
  EXPECT_FALSE(buffer.empty());
  const auto numbers = buffer.As<std::int32_t>();
  ASSERT_EQ(numbers.size(), 10U);
  for (std::int32_t i = 0; i < 10; ++i) numbers[i] = i * i;
  EXPECT_EQ(std::as_const(buffer).As<std::int32_t>()[9], 81);
}

TEST(BufferTest, IsAligned) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Buffer(1).data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Buffer(1, 4096).data()) % 4096,
            0U);
}

TEST(BufferTest, WithoutBytesIsEmpty) {
  for (const Buffer& buffer : {Buffer(), Buffer(0)}) {
    EXPECT_TRUE(buffer.empty());
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_TRUE(buffer.As<double>().empty());
  }
}

TEST(BufferTest, ArrayOfATypeThatDoesNotDivideTheSizeIsCutShort) {
  EXPECT_EQ(Buffer(15).As<std::int64_t>().size(), 1U);
}

TEST(BufferTest, MoveConstructionLeavesTheSourceEmpty) {
  Buffer source(16);
  std::byte* const memory = source.data();
  const Buffer target(std::move(source));
  EXPECT_EQ(target.data(), memory);
  EXPECT_EQ(target.size(), 16U);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(source.data(), nullptr);
  EXPECT_EQ(source.size(), 0U);
}

TEST(BufferTest, MoveAssignmentFreesTheOldMemoryAndLeavesTheSourceEmpty) {
  Buffer source(16);
  std::byte* const memory = source.data();
  Buffer target(32, 128);
  target = std::move(source);
  EXPECT_EQ(target.data(), memory);
  EXPECT_EQ(target.size(), 16U);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_TRUE(source.empty());
  source = Buffer(8);
  EXPECT_EQ(source.size(), 8U);
}

TEST(BufferTest, MovedToItselfItStaysWhole) {
  Buffer buffer(16);
  std::byte* const memory = buffer.data();
  Buffer& alias = buffer;
  buffer = std::move(alias);
  EXPECT_EQ(buffer.data(), memory);
  EXPECT_EQ(buffer.size(), 16U);
}

}  // namespace
}  // namespace servecore
