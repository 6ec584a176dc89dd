// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/target.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

namespace servecore::ops {
namespace {

constexpr std::array kAll = {Target::kBaseline, Target::kAvx2, Target::kAvx512,
                             Target::kAvx512Bf16};

// All that Highway's targets of these names may use. The compiler's library
// asks the system too whether it saves the wider registers.
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") &&
         __builtin_cpu_supports("pclmul");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw");
}

bool HasAvx512Bf16() {
  return HasAvx512() && __builtin_cpu_supports("avx512bf16") &&
         __builtin_cpu_supports("avx512bitalg") &&
         __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vpopcntdq") &&
         __builtin_cpu_supports("gfni") && __builtin_cpu_supports("vaes") &&
         __builtin_cpu_supports("vpclmulqdq");
}

std::size_t CountSupported() {
  __builtin_cpu_init();
  if (HasAvx512Bf16()) return 4;
  if (HasAvx512()) return 3;
  return HasAvx2() ? 2 : 1;
}

std::size_t NumSupported() {
  static const std::size_t num = CountSupported();
  return num;
}

// A copy of the answer that is read without a guard: a kernel may start before
// this file's initialisers have run, and then sees "not asked yet".
constexpr int kNotAsked = -1;
std::atomic<int> active = kNotAsked;

}  // namespace

const char* NameOf(Target target) {
  switch (target) {
    case Target::kAvx512Bf16:
      return "avx512_bf16";
    case Target::kAvx512:
      return "avx512";
    case Target::kAvx2:
      return "avx2";
    case Target::kBaseline:
      break;
  }
  return "baseline";
}

std::span<const Target> SupportedTargets() {
  return std::span(kAll).first(NumSupported());
}

Target ActiveTarget() {
  const int target = active.load(std::memory_order_relaxed);
  if (target != kNotAsked) return static_cast<Target>(target);
  const Target widest = SupportedTargets().back();
  int expected = kNotAsked;
  active.compare_exchange_strong(expected, static_cast<int>(widest),
                                 std::memory_order_relaxed);
  return widest;
}

ForcedTarget::ForcedTarget(Target target) {
  if (std::ranges::find(SupportedTargets(), target) ==
      SupportedTargets().end()) {
    throw std::invalid_argument(
        std::string("ForcedTarget: this machine cannot run ") + NameOf(target) +
        "; it can run what SupportedTargets() names, up to " +
        NameOf(SupportedTargets().back()));
  }
  active.store(static_cast<int>(target), std::memory_order_relaxed);
}

ForcedTarget::~ForcedTarget() {
  active.store(kNotAsked, std::memory_order_relaxed);
}

}  // namespace servecore::ops
