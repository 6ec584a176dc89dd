// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace servecore::ops {
namespace {

TEST(TargetTest, TheWidestIsUsedUnlessAnotherIsForced) {
  ASSERT_FALSE(SupportedTargets().empty());
  EXPECT_EQ(SupportedTargets().front(), Target::kBaseline);
  EXPECT_TRUE(std::ranges::is_sorted(SupportedTargets()));
  EXPECT_EQ(ActiveTarget(), SupportedTargets().back());
  for (const Target target : SupportedTargets()) {
    const ForcedTarget forced(target);
    EXPECT_EQ(ActiveTarget(), target);
  }
  EXPECT_EQ(ActiveTarget(), SupportedTargets().back());
}

TEST(TargetTest, WhatTheMachineLacksIsRefused) {
  for (const Target target : {Target::kBaseline, Target::kAvx2, Target::kAvx512,
                              Target::kAvx512Bf16}) {
    if (target <= SupportedTargets().back()) {
      EXPECT_NO_THROW(ForcedTarget{target});
      continue;
    }
    EXPECT_THROW(ForcedTarget{target}, std::invalid_argument);
    EXPECT_EQ(ActiveTarget(), SupportedTargets().back());
  }
}

TEST(TargetTest, Names) {
  EXPECT_EQ(NameOf(Target::kBaseline), std::string("baseline"));
  EXPECT_EQ(NameOf(Target::kAvx2), std::string("avx2"));
  EXPECT_EQ(NameOf(Target::kAvx512), std::string("avx512"));
  EXPECT_EQ(NameOf(Target::kAvx512Bf16), std::string("avx512_bf16"));
}

}  // namespace
}  // namespace servecore::ops
