// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_RMSNORM_PLAN_H_
#define SERVECORE_CUDA_RMSNORM_PLAN_H_

#include <cstdint>

#include "cuda/dtype.h"

// What the rmsnorm kernel works on and how it is launched: plain host code, so
// that every decision can be tested on machines without a GPU or CUDA.
namespace servecore::cuda {

// Where the rows of a strided tensor lie in device memory: the leading
// dimensions, outermost first, and the distance between neighbours in a row.
// Units: elements. Trivially copyable: it travels as a kernel argument.
struct Rows {
  // After merging neighbours, few tensors have more; those are copied first.
  static constexpr int kMaxRank = 8;

  int rank = 0;
  // Device code cannot call std::array's host-only members.
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};
  std::int64_t stride = 1;
};

// out[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * weight[i], in float32, and
// rounded once.
//
// Ownership: borrows device memory.
// Lifetime: it must live until the kernel has run, not only until the launch
// returns; memory that is freed in stream order on the same stream does.
struct RmsNormArgs {
  DType dtype = DType::kFloat32;  // of x and out
  const void* x = nullptr;
  Rows x_rows;
  const void* weight = nullptr;
  DType weight_dtype = DType::kFloat32;  // x's, or float32
  std::int64_t weight_stride = 1;        // in elements
  void* out = nullptr;
  Rows out_rows;
  std::int64_t num_rows = 0;
  std::int64_t dim = 0;
  float eps = 0.0F;
  // Rounds to `dtype` before the weight multiply, too.
  bool cast_before_weight = false;
};

// How many accesses of its row a thread keeps in registers at most. In a block
// of 1024 threads it has 64 registers, 4 for each access of 128 bits, and every
// scalar access needs an address.
constexpr int MaxVectorsPerThread(int vector_width) {
  return vector_width == 1 ? 8 : 4;
}

// The shape of a launch.
struct RmsNormPlan {
  // Elements of x per memory access: those of 128 bits, or 1.
  int vector_width = 1;
  // How many accesses of its row a thread keeps in registers, so that x is read
  // from memory once: a power of two up to MaxVectorsPerThread. 0 if the row is
  // longer than that and is read twice.
  int vectors_per_thread = 0;
  // A power of two from 32 (one warp) to 1024.
  int threads_per_row = 32;
  int rows_per_block = 1;
  // At most 2^31 - 1; blocks step over the rows that are left.
  std::int64_t blocks = 0;

  friend bool operator==(const RmsNormPlan&, const RmsNormPlan&) = default;
};

// Whether every row of x, weight and out may be accessed 128 bits at a time:
// unit strides, a row length of whole vectors, and every row on a 16-byte
// boundary.
[[nodiscard]] bool CanVectorize(const RmsNormArgs& args);

// The launch for these arguments. A pure function; O(1).
[[nodiscard]] RmsNormPlan PlanRmsNorm(const RmsNormArgs& args);

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_RMSNORM_PLAN_H_
