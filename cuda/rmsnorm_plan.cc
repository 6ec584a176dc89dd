// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/rmsnorm_plan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace servecore::cuda {
namespace {

constexpr std::int64_t kVectorBytes = 16;

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMaxThreads = 1024;
// Enough loads in flight per thread to hide memory latency, few enough
// registers to keep several blocks on an SM.
constexpr std::int64_t kWantedVectorsPerThread = 4;
// Rows that need fewer threads share a block, or blocks would be too small to
// fill an SM.
constexpr std::int64_t kMinBlockThreads = 128;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t CeilPowerOfTwo(std::int64_t value) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(value)));
}

// Elements of x in an access of 128 bits.
std::int64_t VectorWidth(const RmsNormArgs& args) {
  return kVectorBytes / SizeOf(args.dtype);
}

bool IsAligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kVectorBytes == 0;
}

bool RowsAligned(const Rows& rows, std::int64_t width) {
  if (rows.stride != 1) return false;
  for (int i = 0; i < rows.rank; ++i) {
    if (rows.strides[i] % width != 0) return false;
  }
  return true;
}

}  // namespace

bool CanVectorize(const RmsNormArgs& args) {
  // A weight of float32 beside narrower elements takes two accesses, which lie
  // on the same boundaries.
  const std::int64_t width = VectorWidth(args);
  return args.dim % width == 0 && args.weight_stride == 1 &&
         IsAligned(args.x) && IsAligned(args.weight) && IsAligned(args.out) &&
         RowsAligned(args.x_rows, width) && RowsAligned(args.out_rows, width);
}

RmsNormPlan PlanRmsNorm(const RmsNormArgs& args) {
  RmsNormPlan plan;
  plan.vector_width =
      CanVectorize(args) ? static_cast<int>(VectorWidth(args)) : 1;
  const std::int64_t vectors = CeilDiv(args.dim, plan.vector_width);
  const std::int64_t threads =
      std::clamp(CeilPowerOfTwo(CeilDiv(vectors, kWantedVectorsPerThread)),
                 kWarp, kMaxThreads);
  const std::int64_t per_thread = CeilPowerOfTwo(CeilDiv(vectors, threads));
  plan.vectors_per_thread = per_thread <= MaxVectorsPerThread(plan.vector_width)
                                ? static_cast<int>(per_thread)
                                : 0;
  plan.threads_per_row = static_cast<int>(threads);
  plan.rows_per_block =
      static_cast<int>(std::max<std::int64_t>(1, kMinBlockThreads / threads));
  plan.blocks =
      std::min<std::int64_t>(CeilDiv(args.num_rows, plan.rows_per_block),
                             std::numeric_limits<std::int32_t>::max());
  return plan;
}

}  // namespace servecore::cuda
