// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_refs.h"

#include <gtest/gtest.h>

namespace servecore::kv {
namespace {

TEST(BlockRefsTest, CountsAreToldApart) {
  const BlockRefs refs = 3 * kOneRef + 2 * kOneGuarded + kOneCached;
  EXPECT_EQ(TotalOf(refs), 6);
  EXPECT_EQ(GuardedOf(refs), 3);
  EXPECT_EQ(CachesOf(refs), 1);
  EXPECT_TRUE(IsIdle(kOneCached));
  EXPECT_FALSE(IsIdle(kOneGuarded));
  EXPECT_FALSE(IsIdle(kOneCached + kOneRef));
}

TEST(BlockRefsTest, AReferenceIsTakenWhereOneOfItsKindIs) {
  EXPECT_TRUE(Has(kOneRef, kOneRef));
  EXPECT_FALSE(Has(kOneRef, kOneGuarded));
  EXPECT_FALSE(Has(kOneRef, kOneCached));
  EXPECT_TRUE(Has(kOneGuarded, kOneGuarded));
  EXPECT_FALSE(Has(kOneGuarded, kOneRef));
  EXPECT_FALSE(Has(kOneGuarded, kOneCached));
  EXPECT_TRUE(Has(kOneCached, kOneCached));
  EXPECT_FALSE(Has(kOneCached, kOneRef));
  EXPECT_FALSE(Has(kOneCached, kOneGuarded));
}

TEST(BlockRefsTest, AReferenceIsAddedUpToTheEndOfItsCount) {
  EXPECT_FALSE(MayAdd(0, kOneRef));
  const BlockRefs full = kMaxRefs * kOneRef;
  EXPECT_FALSE(MayAdd(full, kOneRef));
  EXPECT_TRUE(MayAdd(full - kOneRef, kOneRef));
  const BlockRefs guarded = kMaxGuarded * kOneGuarded;
  EXPECT_FALSE(MayAdd(guarded, kOneGuarded));
  EXPECT_FALSE(MayAdd(guarded, kOneCached));
  EXPECT_TRUE(MayAdd(guarded, kOneRef));
  EXPECT_TRUE(MayAdd(guarded - kOneGuarded, kOneGuarded));
  const BlockRefs cached = kMaxCaches * kOneCached;
  EXPECT_FALSE(MayAdd(cached, kOneCached));
  EXPECT_TRUE(MayAdd(cached, kOneGuarded));
  EXPECT_TRUE(MayAdd(cached - kOneCached, kOneCached));
}

}  // namespace
}  // namespace servecore::kv
