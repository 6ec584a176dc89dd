// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/executor.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "cuda/testing/block.h"
#include "cuda/testing/fiber.h"
#include "cuda/testing/order.h"
#include "cuda/testing/vector_types.h"

namespace servecore::cuda::testing {
namespace {

constexpr std::size_t kMaxThreads = 1024;
constexpr std::size_t kMaxBlockZ = 64;
constexpr std::size_t kMaxGridX = 0x7fffffff;
constexpr std::size_t kMaxGridYZ = 65535;
// Of one block, on sm_90 and sm_100.
constexpr std::size_t kMaxSharedBytes = std::size_t{227} << 10U;

std::string ToString(const dim3& size) {
  return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " +
         std::to_string(size.z);
}

void CheckLaunch(const dim3& grid, const dim3& block, std::size_t shared_bytes,
                 const std::function<void()>& kernel) {
  if (kernel == nullptr) throw std::invalid_argument("no kernel to launch");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMaxGridX ||
      grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    throw std::invalid_argument("a grid of " + ToString(grid) +
                                " blocks: each must be 1 or more, and at most "
                                "2147483647 x 65535 x 65535");
  }
  // Each at most 1024 first: their product then fits.
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMaxThreads ||
      block.y > kMaxThreads || block.z > kMaxBlockZ ||
      std::size_t{block.x} * block.y * block.z > kMaxThreads) {
    throw std::invalid_argument("a block of " + ToString(block) +
                                " threads: each must be 1 or more, the third "
                                "at most 64 and all at most 1024");
  }
  if (shared_bytes > kMaxSharedBytes) {
    throw std::invalid_argument(std::to_string(shared_bytes) +
                                " bytes of shared memory: a block has at most "
                                "232448");
  }
}

// Orders what the launch did before what comes after it.
class LaunchEnd {
 public:
  LaunchEnd() = default;
  LaunchEnd(const LaunchEnd&) = delete;
  LaunchEnd& operator=(const LaunchEnd&) = delete;
  ~LaunchEnd() { AcquireFrom(token_.get()); }

  [[nodiscard]] void* token() const { return token_.get(); }

 private:
  std::unique_ptr<std::uint64_t> token_ = std::make_unique<std::uint64_t>(0);
};

std::mutex launch_mutex;

}  // namespace

void Launch(const dim3& grid, const dim3& block, std::size_t shared_bytes,
            const std::function<void()>& kernel, const LaunchOptions& options) {
  CheckLaunch(grid, block, shared_bytes, kernel);
  if (Block::Current() != nullptr) {
    throw std::logic_error("a kernel was launched from inside a kernel");
  }
  const std::scoped_lock lock(launch_mutex);
  static FiberStacks stacks;
  const LaunchEnd end;
  const TsanIgnores ignores;
  const Grid shared{.grid = grid,
                    .block = block,
                    .shared_bytes = shared_bytes,
                    .kernel = &kernel,
                    .stacks = &stacks,
                    .end = end.token()};
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  Sequence blocks(std::size_t{grid.x} * grid.y * grid.z, options.blocks,
                  options.seed);
  std::size_t ordinal = 0;
  for (const std::size_t i : blocks.Next()) {
    ForgetStatics();
    const std::size_t plane = std::size_t{grid.x} * grid.y;
    const uint3 index{static_cast<unsigned>(i % grid.x),
                      static_cast<unsigned>(i % plane / grid.x),
                      static_cast<unsigned>(i / plane)};
    Block(shared, index, ordinal)
        .Run(Sequence(threads, options.threads, options.seed + ordinal));
    ++ordinal;
  }
}

}  // namespace servecore::cuda::testing
