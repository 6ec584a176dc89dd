// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The warp operations of cuda/testing/host_cuda.h, under the executor.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/device.cuh"
#include "cuda/testing/executor.h"

namespace servecore::cuda::testing {
namespace {

constexpr std::uint32_t kAll = 0xffffffffU;

// What `kernel` returns in each thread of a block, in every order.
template <typename T>
std::vector<T> Results(unsigned threads, const std::function<T()>& kernel) {
  std::vector<T> first;
  for (const Order order :
       {Order::kForward, Order::kReverse, Order::kShuffled}) {
    std::vector<T> results(threads);
    Launch(dim3(1), dim3(threads), 0, [&] { results[threadIdx.x] = kernel(); },
           {.threads = order});
    if (first.empty()) first = results;
    EXPECT_EQ(results, first);
  }
  return first;
}

std::vector<int> FromLanes(unsigned threads,
                           const std::function<int(int)>& source) {
  std::vector<int> values;
  for (int i = 0; i < static_cast<int>(threads); ++i) {
    values.push_back(i / 32 * 32 + source(i % 32));
  }
  return values;
}

int Id() { return static_cast<int>(threadIdx.x); }

TEST(WarpTest, ShufflesTakeTheLanesOfCudasTables) {
  EXPECT_EQ(Results<int>(96, [] { return __shfl_sync(kAll, Id(), 5); }),
            FromLanes(96, [](int) { return 5; }));
  EXPECT_EQ(Results<int>(64, [] { return __shfl_sync(kAll, Id(), 37); }),
            FromLanes(64, [](int) { return 5; }));
  EXPECT_EQ(Results<int>(64, [] { return __shfl_sync(kAll, Id(), 3, 8); }),
            FromLanes(64, [](int lane) { return lane / 8 * 8 + 3; }));
  EXPECT_EQ(Results<int>(64, [] { return __shfl_xor_sync(kAll, Id(), 9); }),
            FromLanes(64, [](int lane) { return lane ^ 9; }));
  EXPECT_EQ(
      Results<int>(64, [] { return __shfl_xor_sync(kAll, Id(), 8, 8); }),
      FromLanes(64, [](int lane) { return lane % 16 < 8 ? lane : lane - 8; }));
  EXPECT_EQ(
      Results<int>(64, [] { return __shfl_down_sync(kAll, Id(), 3); }),
      FromLanes(64, [](int lane) { return lane + 3 < 32 ? lane + 3 : lane; }));
  EXPECT_EQ(
      Results<int>(32, [] { return __shfl_down_sync(kAll, Id(), 3, 4); }),
      FromLanes(32, [](int lane) { return lane % 4 == 0 ? lane + 3 : lane; }));
  EXPECT_EQ(Results<int>(64, [] { return __shfl_up_sync(kAll, Id(), 3); }),
            FromLanes(64, [](int lane) { return lane < 3 ? lane : lane - 3; }));
}

TEST(WarpTest, ShufflesCarryEveryType) {
  EXPECT_EQ(
      Results<double>(
          32, [] { return __shfl_xor_sync(kAll, 1e300 * (Id() + 1), 1); })[4],
      1e300 * 6);
  EXPECT_EQ(Results<float>(
                32, [] { return __shfl_xor_sync(kAll, 0.5F + Id(), 1); })[1],
            0.5F);
  EXPECT_EQ(Results<std::int64_t>(
                32,
                [] {
                  return __shfl_sync(kAll, std::int64_t{1} << (30 + Id()), 31);
                })[0],
            std::int64_t{1} << 61);
}

// As in every reduction: shuffles in a loop.
TEST(WarpTest, AButterflySumIsTheSameInAllLanes) {
  EXPECT_EQ(Results<int>(1024,
                         [] {
                           int sum = Id();
                           for (int distance = 16; distance > 0;
                                distance /= 2) {
                             sum += __shfl_xor_sync(kAll, sum, distance);
                           }
                           return sum - Id() / 32 * 32 * 32;
                         }),
            std::vector<int>(1024, 31 * 16));
}

TEST(WarpTest, Votes) {
  EXPECT_EQ(Results<std::uint32_t>(
                64, [] { return __ballot_sync(kAll, Id() % 3 == 0); })[33],
            0x92492492U);
  EXPECT_EQ(Results<int>(32, [] { return __any_sync(kAll, Id() == 17); }),
            std::vector<int>(32, 1));
  EXPECT_EQ(Results<int>(32, [] { return __any_sync(kAll, 0); }),
            std::vector<int>(32, 0));
  EXPECT_EQ(Results<int>(32, [] { return __all_sync(kAll, Id() != 17); }),
            std::vector<int>(32, 0));
  // Of a part of a warp, only the lanes that there are vote.
  EXPECT_EQ(Results<int>(20, [] { return __all_sync(kAll, 1); }),
            std::vector<int>(20, 1));
  EXPECT_EQ(
      Results<std::uint32_t>(20, [] { return __ballot_sync(kAll, 1); })[0],
      (1U << 20U) - 1);
  EXPECT_EQ(__popc(0xf0f0U), 8);
}

TEST(WarpTest, HalvesOfAWarpMeetByThemselves) {
  const auto kernel = [] {
    if (Id() < 16) return __shfl_xor_sync(0x0000ffffU, Id(), 1);
    const int other = __shfl_xor_sync(0xffff0000U, Id(), 1);
    return __shfl_xor_sync(0xffff0000U, other, 2);
  };
  EXPECT_EQ(Results<int>(32, kernel), FromLanes(32, [](int lane) {
              return lane < 16 ? lane ^ 1 : lane ^ 3;
            }));
}

TEST(WarpTest, SyncWarpOrdersTheMemoryOfItsLanes) {
  std::vector<int> memory(32);
  const auto kernel = [&] {
    memory[threadIdx.x] = Id();
    __syncwarp();
    const int seen = memory[31 - threadIdx.x];
    __syncwarp();
    memory[threadIdx.x] = -1;
    return seen;
  };
  EXPECT_EQ(Results<int>(32, kernel),
            FromLanes(32, [](int lane) { return 31 - lane; }));
}

std::string ErrorOf(unsigned threads, const std::function<void()>& kernel) {
  try {
    Launch(dim3(1), dim3(threads), 0, kernel);
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "no error";
}

TEST(WarpTest, ALaneThatTheMaskNamesAndThatLeftIsAnError) {
  const std::string message = ErrorOf(32, [] {
    if (threadIdx.x == 7) return;
    __shfl_xor_sync(kAll, 1, 16);
  });
  EXPECT_NE(message.find("1 of 32 are at the kernel's end ((7,0,0))"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("31 of 32 are at __shfl_xor_sync with the mask "
                         "0xffffffff, warp_test.cc:"),
            std::string::npos)
      << message;
}

TEST(WarpTest, MasksThatDifferAreAnError) {
  const std::string message =
      ErrorOf(32, [] { __syncwarp(threadIdx.x < 16 ? kAll : 0xffff0000U); });
  EXPECT_NE(message.find("16 of 32 are at __syncwarp with the mask 0xffffffff"),
            std::string::npos)
      << message;
}

TEST(WarpTest, AMaskWithoutItsOwnLaneIsAnError) {
  const std::string message = ErrorOf(32, [] { __syncwarp(0x7fffffffU); });
  EXPECT_NE(message.find("thread (31,0,0) calls __syncwarp with the mask "
                         "0x7fffffff, which leaves out its own lane 31"),
            std::string::npos)
      << message;
}

TEST(WarpTest, AValueOfALaneThatIsNotThereIsAnError) {
  const std::string message = ErrorOf(16, [] { __shfl_xor_sync(kAll, 1, 16); });
  EXPECT_NE(message.find("reads lane 16 by __shfl_xor_sync"), std::string::npos)
      << message;
}

TEST(WarpTest, AWidthThatIsNoPowerOfTwoIsAnError) {
  const std::string message =
      ErrorOf(32, [] { __shfl_xor_sync(kAll, 1, 1, 12); });
  EXPECT_NE(message.find("width 12"), std::string::npos) << message;
}

}  // namespace
}  // namespace servecore::cuda::testing
