// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Kernels with the bugs that the executor is there to find. Each test passes
// only if the bug is found, by the sanitizer where one watches that kind.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/device.cuh"
#include "cuda/testing/executor.h"

namespace servecore::cuda::testing {
namespace {

constexpr LaunchOptions kForward{};
constexpr LaunchOptions kReverse{.threads = Order::kReverse,
                                 .blocks = Order::kReverse};

// ---- A missing barrier
// -------------------------------------------------------

// Each thread gives its number to the next one.
template <bool kHasBarrier>
__global__ void PassOn(int* out) {
  auto* shared = StaticShared<int, 64, kHasBarrier ? 1 : 2>();
  const auto i = static_cast<int>(threadIdx.x);
  shared[i] = i;
  if constexpr (kHasBarrier) __syncthreads();
  out[i] = shared[(i + 63) % 64];
}

template <bool kHasBarrier>
std::vector<int> PassedOn(const LaunchOptions& options) {
  std::vector<int> out(64);
  Launch(
      dim3(1), dim3(64), 0, [&] { PassOn<kHasBarrier>(out.data()); }, options);
  return out;
}

TEST(PlantedBugsTest, WithItsBarrierTheOrderOfThreadsDoesNotMatter) {
  EXPECT_EQ(PassedOn<true>(kForward), PassedOn<true>(kReverse));
}

#ifdef __SANITIZE_THREAD__
TEST(PlantedBugsDeathTest, AMissingBarrierIsADataRace) {
  EXPECT_EXIT(
      {
        PassedOn<false>(kForward);
        std::exit(0);  // NOLINT(concurrency-mt-unsafe): one thread
      },
      ::testing::ExitedWithCode(66), "data race.*\n(.*\n)*.*PassOn");
}
#else
TEST(PlantedBugsTest, AMissingBarrierMakesTheOrderOfThreadsMatter) {
  EXPECT_NE(PassedOn<false>(kForward), PassedOn<false>(kReverse));
}
#endif

// ---- A row out of bounds
// -----------------------------------------------------

// Doubles each row; the bug is <= for <.
template <bool kIsRight>
__global__ void DoubleRows(float* rows, int num_rows, int dim) {
  const auto row = static_cast<int>(blockIdx.x);
  if (kIsRight ? row < num_rows : row <= num_rows) {
    rows[row * dim + static_cast<int>(threadIdx.x)] *= 2.0F;
  }
}

template <bool kIsRight>
std::vector<float> Doubled() {
  constexpr int kRows = 3;
  constexpr int kDim = 32;
#ifdef __SANITIZE_ADDRESS__
  std::vector<float> rows(std::size_t{kRows} * kDim, 1.0F);
#else
  // A row more, which must stay as it is.
  std::vector<float> rows(std::size_t{kRows + 1} * kDim, 1.0F);
#endif
  Launch(dim3(kRows + 1), dim3(kDim), 0,
         [&] { DoubleRows<kIsRight>(rows.data(), kRows, kDim); });
  return rows;
}

TEST(PlantedBugsTest, RowsWithinBoundsAreAllThatIsWritten) {
  EXPECT_EQ(Doubled<true>().front(), 2.0F);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_EQ(Doubled<true>().back(), 1.0F);
#endif
}

#ifdef __SANITIZE_ADDRESS__
TEST(PlantedBugsDeathTest, ARowOutOfBoundsIsAHeapBufferOverflow) {
  EXPECT_DEATH(Doubled<false>(), "heap-buffer-overflow.*\n(.*\n)*.*DoubleRows");
}
#else
TEST(PlantedBugsTest, ARowOutOfBoundsIsWritten) {
  EXPECT_EQ(Doubled<false>().back(), 2.0F);
}
#endif

// ---- An offset of 32 bits
// ----------------------------------------------------

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;

// Reads element `row` of rows that lie `stride` bytes apart.
template <class Offset>
__global__ void ReadFar(const char* rows, std::int64_t stride, char* out) {
  const auto row = static_cast<std::int64_t>(threadIdx.x);
  out[row] = rows[static_cast<Offset>(row * stride)];
}

// Memory of twice the distance, of which only some pages are touched, with its
// middle as row 0.
class FarRows {
 public:
  FarRows() {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<char*>(memory);
  }
  FarRows(const FarRows&) = delete;
  FarRows& operator=(const FarRows&) = delete;
  ~FarRows() {
    if (memory_ != nullptr) munmap(memory_, kBytes);
  }

  [[nodiscard]] char* row0() const {
    return memory_ == nullptr ? nullptr : memory_ + kFar;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{2} * kFar + 4096;

  char* memory_ = nullptr;
};

template <class Offset>
std::string ReadRows() {
  const FarRows rows;
  if (rows.row0() == nullptr) return "no memory";
  rows.row0()[0] = 'a';
  rows.row0()[kFar] = 'b';
  std::string out(2, '?');
  Launch(dim3(1), dim3(2), 0,
         [&] { ReadFar<Offset>(rows.row0(), kFar, out.data()); });
  return out;
}

TEST(PlantedBugsTest, AnOffsetOf64BitsReadsItsRow) {
  EXPECT_EQ(ReadRows<std::int64_t>(), "ab");
}

TEST(PlantedBugsTest, AnOffsetOf32BitsReadsAnotherRow) {
  EXPECT_EQ(ReadRows<std::int32_t>(), std::string("a\0", 2));
}

}  // namespace
}  // namespace servecore::cuda::testing
