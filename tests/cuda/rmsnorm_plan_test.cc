// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/rmsnorm_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "cuda/dtype.h"

namespace servecore::cuda {
namespace {

// Addresses only: nothing here reads memory.
alignas(16) constexpr std::array<float, 8> kMemory{};
alignas(16) std::array<float, 8> out_memory{};

RmsNormArgs Dense(std::int64_t num_rows, std::int64_t dim) {
  RmsNormArgs args;
  args.x = kMemory.data();
  args.weight = kMemory.data();
  args.out = out_memory.data();
  args.num_rows = num_rows;
  args.dim = dim;
  for (Rows* rows : {&args.x_rows, &args.out_rows}) {
    rows->rank = 1;
    rows->sizes[0] = num_rows;
    rows->strides[0] = dim;
  }
  return args;
}

TEST(CanVectorizeTest, DenseAlignedRowsOfWholeVectors) {
  EXPECT_TRUE(CanVectorize(Dense(3, 128)));
  EXPECT_TRUE(CanVectorize(Dense(1, 4)));
}

TEST(CanVectorizeTest, RefusesWhateverBreaksA16ByteAccess) {
  EXPECT_FALSE(CanVectorize(Dense(3, 127))) << "odd row length";

  RmsNormArgs args = Dense(3, 128);
  args.x = kMemory.data() + 1;
  EXPECT_FALSE(CanVectorize(args)) << "x off its boundary";

  args = Dense(3, 128);
  args.weight = kMemory.data() + 2;
  EXPECT_FALSE(CanVectorize(args)) << "weight off its boundary";

  args = Dense(3, 128);
  args.out = out_memory.data() + 3;
  EXPECT_FALSE(CanVectorize(args)) << "out off its boundary";

  args = Dense(3, 128);
  args.x_rows.strides[0] = 130;
  EXPECT_FALSE(CanVectorize(args)) << "second row of x off its boundary";

  args = Dense(3, 128);
  args.out_rows.strides[0] = 129;
  EXPECT_FALSE(CanVectorize(args)) << "second row of out off its boundary";

  args = Dense(3, 128);
  args.x_rows.stride = 2;
  EXPECT_FALSE(CanVectorize(args)) << "columns of x apart";

  args = Dense(3, 128);
  args.out_rows.stride = 0;
  EXPECT_FALSE(CanVectorize(args)) << "columns of out apart";

  args = Dense(3, 128);
  args.weight_stride = 2;
  EXPECT_FALSE(CanVectorize(args)) << "strided weight";
}

TEST(CanVectorizeTest, LooksAtEveryLeadingDimension) {
  RmsNormArgs args = Dense(6, 128);
  args.x_rows.rank = 2;
  args.x_rows.sizes[0] = 2;
  args.x_rows.sizes[1] = 3;
  args.x_rows.strides[0] = 128;
  args.x_rows.strides[1] = 1000;
  EXPECT_TRUE(CanVectorize(args));
  args.x_rows.strides[1] = 1001;
  EXPECT_FALSE(CanVectorize(args));
}

TEST(CanVectorizeTest, TakesAlignedNegativeAndZeroStrides) {
  RmsNormArgs args = Dense(3, 128);
  args.x_rows.strides[0] = -128;
  EXPECT_TRUE(CanVectorize(args));
  args.x_rows.strides[0] = 0;
  EXPECT_TRUE(CanVectorize(args));
}

TEST(CanVectorizeTest, NarrowElementsFillAnAccessByEight) {
  RmsNormArgs args = Dense(3, 128);
  args.dtype = DType::kBFloat16;
  EXPECT_TRUE(CanVectorize(args));
  args = Dense(3, 124);
  EXPECT_TRUE(CanVectorize(args)) << "of float32";
  args.dtype = args.weight_dtype = DType::kFloat16;
  EXPECT_FALSE(CanVectorize(args)) << "half an access is left";
  args = Dense(3, 128);
  args.dtype = DType::kFloat16;
  args.x_rows.strides[0] = 132;
  EXPECT_FALSE(CanVectorize(args)) << "second row of x off its boundary";
}

TEST(PlanRmsNormTest, NarrowRowsTakeHalfTheThreads) {
  RmsNormArgs args = Dense(7, 4096);
  args.dtype = args.weight_dtype = DType::kBFloat16;
  EXPECT_EQ(PlanRmsNorm(args), (RmsNormPlan{.vector_width = 8,
                                            .vectors_per_thread = 4,
                                            .threads_per_row = 128,
                                            .rows_per_block = 1,
                                            .blocks = 7}));
}

TEST(PlanRmsNormTest, SmallRowsShareABlock) {
  EXPECT_EQ(PlanRmsNorm(Dense(10, 128)), (RmsNormPlan{.vector_width = 4,
                                                      .vectors_per_thread = 1,
                                                      .threads_per_row = 32,
                                                      .rows_per_block = 4,
                                                      .blocks = 3}));
}

TEST(PlanRmsNormTest, AModelWidthRowHasABlockAndStaysInRegisters) {
  EXPECT_EQ(PlanRmsNorm(Dense(7, 4096)), (RmsNormPlan{.vector_width = 4,
                                                      .vectors_per_thread = 4,
                                                      .threads_per_row = 256,
                                                      .rows_per_block = 1,
                                                      .blocks = 7}));
}

TEST(PlanRmsNormTest, AnOddRowIsReadByElements) {
  EXPECT_EQ(PlanRmsNorm(Dense(7, 4095)), (RmsNormPlan{.vector_width = 1,
                                                      .vectors_per_thread = 4,
                                                      .threads_per_row = 1024,
                                                      .rows_per_block = 1,
                                                      .blocks = 7}));
}

TEST(PlanRmsNormTest, TheLongestRowsInRegistersAndTheFirstOnesBeyond) {
  EXPECT_EQ(PlanRmsNorm(Dense(1, 16384)).vectors_per_thread, 4);
  EXPECT_EQ(PlanRmsNorm(Dense(1, 16388)).vectors_per_thread, 0);
  EXPECT_EQ(PlanRmsNorm(Dense(1, 8191)).vectors_per_thread, 8);
  EXPECT_EQ(PlanRmsNorm(Dense(1, 8193)).vectors_per_thread, 0);
}

TEST(PlanRmsNormTest, BlocksStayWithinTheGridLimit) {
  const std::int64_t many = std::int64_t{1} << 40;
  EXPECT_EQ(PlanRmsNorm(Dense(many, 4096)).blocks,
            std::numeric_limits<std::int32_t>::max());
}

TEST(PlanRmsNormTest, EveryRowLengthGetsALaunchThatCoversIt) {
  for (std::int64_t dim = 1; dim <= 40'000;
       dim = dim < 600 ? dim + 1 : dim + 97) {
    for (const std::int64_t rows : {1, 3, 1000}) {
      const RmsNormPlan plan = PlanRmsNorm(Dense(rows, dim));
      const auto threads = static_cast<unsigned>(plan.threads_per_row);
      const auto kept = static_cast<unsigned>(plan.vectors_per_thread);
      ASSERT_TRUE(std::has_single_bit(threads)) << dim;
      ASSERT_GE(threads, 32U) << dim;
      ASSERT_LE(plan.threads_per_row * plan.rows_per_block, 1024) << dim;
      ASSERT_GE(plan.blocks * plan.rows_per_block, rows) << dim;
      ASSERT_LT((plan.blocks - 1) * plan.rows_per_block, rows) << dim;
      ASSERT_EQ(plan.vector_width, dim % 4 == 0 ? 4 : 1) << dim;
      ASSERT_LE(plan.vectors_per_thread, MaxVectorsPerThread(plan.vector_width))
          << dim;
      if (kept != 0) {
        ASSERT_TRUE(std::has_single_bit(kept)) << dim;
        ASSERT_GE(std::int64_t{plan.vector_width} * plan.vectors_per_thread *
                      plan.threads_per_row,
                  dim);
      }
    }
  }
}

}  // namespace
}  // namespace servecore::cuda
