// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/vector_add.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace servecore::ops {
namespace {

template <class T>
class VectorAddTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(VectorAddTest, Types);

TYPED_TEST(VectorAddTest, AddsElementByElement) {
  using Vector = std::vector<TypeParam>;
  const Vector a = {1, 2, 3};
  const Vector b = {10, 20, 30};
  Vector out(3);
  VectorAdd(a, b, out.data());
  EXPECT_EQ(out, (Vector{11, 22, 33}));
}

TYPED_TEST(VectorAddTest, NothingIsAddedToNothing) {
  VectorAdd(StridedSpan<TypeParam>(), StridedSpan<TypeParam>(), nullptr);
}

TYPED_TEST(VectorAddTest, StridesMayBeAny) {
  using Vector = std::vector<TypeParam>;
  const Vector a = {1, 0, 2, 0, 3};
  const Vector b = {30, 20, 10};
  const StridedSpan<TypeParam> every_second(a.data(), 3, 2);
  const StridedSpan<TypeParam> reversed(b.data() + 2, 3, -1);
  const StridedSpan<TypeParam> repeated(b.data(), 3, 0);
  Vector out(3);
  VectorAdd(every_second, reversed, out.data());
  EXPECT_EQ(out, (Vector{11, 22, 33}));
  VectorAdd(every_second, repeated, out.data());
  EXPECT_EQ(out, (Vector{31, 32, 33}));
}

TYPED_TEST(VectorAddTest, ResultMayTakeThePlaceOfAnInput) {
  using Vector = std::vector<TypeParam>;
  Vector a = {1, 2, 3};
  VectorAdd(a, a, a.data());
  EXPECT_EQ(a, (Vector{2, 4, 6}));
}

TYPED_TEST(VectorAddTest, UnequalLengthsAreAnErrorThatNamesBoth) {
  using Vector = std::vector<TypeParam>;
  const Vector a = {1, 2, 3};
  const Vector b = {1, 2};
  Vector out = {7, 7, 7};
  for (const bool swapped : {false, true}) {
    try {
      VectorAdd(swapped ? b : a, swapped ? a : b, out.data());
      FAIL() << "nothing was thrown";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find('3'), std::string::npos) << message;
      EXPECT_NE(message.find('2'), std::string::npos) << message;
    }
  }
  EXPECT_EQ(out, (Vector{7, 7, 7}));
}

}  // namespace
}  // namespace servecore::ops
