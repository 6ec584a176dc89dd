// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/errors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace servecore {
namespace {

TEST(StrCatTest, WritesEveryPart) {
  EXPECT_EQ(StrCat("id ", -7, " of ", std::int64_t{1} << 40, " '",
                   std::string_view("ns"), "'"),
            "id -7 of 1099511627776 'ns'");
}

}  // namespace
}  // namespace servecore
