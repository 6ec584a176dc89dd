// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/named_blocks.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cc/kv/block_set.h"
#include "cc/kv/id_run.h"

namespace servecore::kv {
namespace {

using Ids = std::vector<std::int32_t>;

class NamedBlocksTest : public testing::Test {
 protected:
  // Names the first `num_found` of `ids` as duplicates and the others for
  // places of their own; what the error says, or nothing.
  std::string Name(const Ids& ids, std::size_t num_found, bool keep = false) {
    NamedBlocks blocks(cached, named, ids);
    try {
      for (std::size_t i = 0; i < num_found; ++i) blocks.NameDuplicate(i);
      const auto rest = std::span(ids).subspan(num_found);
      blocks.NameRest(num_found, SplitIntoRuns(rest));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    EXPECT_EQ(blocks.duplicates().size(), num_found);
    if (keep) blocks.Keep();
    return "";
  }

  static Ids In(const BlockSet& set) {
    Ids ids;
    set.ForEachDescending([&ids](std::int32_t id) { ids.push_back(id); });
    return ids;
  }

  BlockSet cached{16};
  BlockSet named{16};
};

TEST_F(NamedBlocksTest, WhatIsKeptIsCached) {
  EXPECT_EQ(Name({5, 2, 7}, 1), "");
  EXPECT_EQ(In(cached), Ids{});
  EXPECT_EQ(Name({5, 2, 7}, 1, /*keep=*/true), "");
  EXPECT_EQ(In(cached), (Ids{7, 2}));
  EXPECT_EQ(In(named), Ids{});
}

TEST_F(NamedBlocksTest, ABlockIsNamedOnce) {
  ASSERT_EQ(Name({9, 10}, 0, /*keep=*/true), "");
  const auto expect = [this](const Ids& ids, std::size_t num_found,
                             const std::string& words) {
    const std::string error = Name(ids, num_found);
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_EQ(In(cached), (Ids{10, 9}));
    EXPECT_EQ(In(named), Ids{});
  };
  expect({1, 1}, 0, "block_ids[1] is block 1, which is named before");
  expect({1, 1}, 1, "block_ids[1] is block 1, which is named before");
  expect({1, 1}, 2, "block_ids[1] is block 1, which is named before");
  expect({1, 2, 3, 1}, 1, "block_ids[3] is block 1, which is named before");
  expect({1, 9}, 0, "block_ids[1] is block 9, which is cached under other");
  expect({1, 9}, 2, "block_ids[1] is block 9, which is cached under other");
  expect({1, 9, 1}, 1, "block_ids[1] is block 9, which is cached under other");
}

}  // namespace
}  // namespace servecore::kv
