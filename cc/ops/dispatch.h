// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Which compilation of a function to call. Highway compiles a source once for
// each target, in a namespace each; its own choice among them would need its
// shared library.
//
// Included after hwy/highway.h, in the part of a source that is compiled once.

#ifndef SERVECORE_CC_OPS_DISPATCH_H_
#define SERVECORE_CC_OPS_DISPATCH_H_

#include "cc/ops/target.h"
#include "hwy/highway.h"

namespace servecore::ops {

template <class Function>
Function* Choose(Function* baseline, Function* avx2, Function* avx512,
                 Function* avx512_bf16) {
  switch (ActiveTarget()) {
    case Target::kAvx512Bf16:
      return avx512_bf16;
    case Target::kAvx512:
      return avx512;
    case Target::kAvx2:
      return avx2;
    case Target::kBaseline:
      break;
  }
  return baseline;
}

}  // namespace servecore::ops

// Where the compiler's flags allow a target in the whole program, what is
// narrower is not compiled, and the narrowest that is stands for it.
#if HWY_TARGETS & HWY_SSE2
#define SERVECORE_BASELINE(function) &N_SSE2::function
#else
#define SERVECORE_BASELINE(function) &HWY_STATIC_DISPATCH(function)
#endif
#if HWY_TARGETS & HWY_AVX2
#define SERVECORE_AVX2(function) &N_AVX2::function
#else
#define SERVECORE_AVX2(function) &HWY_STATIC_DISPATCH(function)
#endif
#if HWY_TARGETS & HWY_AVX3
#define SERVECORE_AVX512(function) &N_AVX3::function
#else
#define SERVECORE_AVX512(function) &HWY_STATIC_DISPATCH(function)
#endif
#if HWY_TARGETS & HWY_AVX3_ZEN4
#define SERVECORE_AVX512_BF16(function) &N_AVX3_ZEN4::function
#else
#define SERVECORE_AVX512_BF16(function) &HWY_STATIC_DISPATCH(function)
#endif

// A pointer to the active target's `function`, a function of the namespace
// servecore::ops::HWY_NAMESPACE, where this is used in servecore::ops.
#define SERVECORE_DISPATCH(function)                          \
  ::servecore::ops::Choose(                                   \
      SERVECORE_BASELINE(function), SERVECORE_AVX2(function), \
      SERVECORE_AVX512(function), SERVECORE_AVX512_BF16(function))

#endif  // SERVECORE_CC_OPS_DISPATCH_H_
