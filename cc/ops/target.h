// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_TARGET_H_
#define SERVECORE_CC_OPS_TARGET_H_

#include <cstdint>
#include <span>

namespace servecore::ops {

// The instruction sets that the kernels of this library are compiled for.
enum class Target : std::uint8_t {
  kBaseline,  // what the whole program is compiled for: SSE2
  kAvx2,      // with FMA, F16C and BMI2
  kAvx512,    // F, BW, CD, DQ and VL
  // And what came up to the machines that round to bfloat16: BF16, BITALG,
  // VBMI, VBMI2, VNNI, VPOPCNTDQ, GFNI, VAES and VPCLMULQDQ.
  kAvx512Bf16,
};

// "baseline", "avx2", "avx512" or "avx512_bf16".
const char* NameOf(Target target);

// Those that this machine and its system can run, narrowest first. Asks the
// processor once.
// Lifetime: the program's.
// Thread safety: safe.
std::span<const Target> SupportedTargets();

// What kernels use: the widest supported one, unless a ForcedTarget lives.
// Thread safety: safe.
Target ActiveTarget();

// Makes kernels use one target, for tests and benchmarks.
//
// Thread safety: it holds for all threads, so one at a time in the program.
class ForcedTarget {
 public:
  // Throws std::invalid_argument when this machine cannot run `target`.
  explicit ForcedTarget(Target target);
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
  ~ForcedTarget();
};

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_TARGET_H_
