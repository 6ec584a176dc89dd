// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/aligned.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace servecore {
namespace {

TEST(AlignedTest, AddressIsAMultipleOfTheAlignment) {
  for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
    const AlignedMemory memory = MakeAligned(100, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % alignment, 0U);
    std::memset(memory.get(), 1, 100);
  }
}

TEST(AlignedTest, DefaultIsACacheLine) {
  const AlignedMemory memory = MakeAligned(1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U);
}

TEST(AlignedTest, ZeroBytesAreNoMemory) { EXPECT_EQ(MakeAligned(0), nullptr); }

TEST(AlignedTest, AlignmentHasToBeAPowerOfTwo) {
  for (const std::size_t alignment : {0, 3, 48, 65}) {
    try {
      MakeAligned(8, alignment);
      FAIL() << "alignment " << alignment << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(alignment)),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace servecore
