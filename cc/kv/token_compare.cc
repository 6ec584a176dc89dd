// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_compare.h"

#include <algorithm>
#include <cstring>
#include <variant>

namespace servecore::kv {
namespace {

// Tokens compared between two looks at whether they were equal. The loop over
// them has no exit, so that the compiler can make vectors of it.
constexpr std::int64_t kChunk = 64;

template <class Stored, class Token>
[[gnu::always_inline]] inline std::int64_t CommonIn(const Stored* stored,
                                                    const Token* tokens,
                                                    std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    Token different = 0;
    for (std::int64_t j = 0; j < kChunk; ++j) {
      different |= static_cast<Token>(stored[i + j]) ^ tokens[i + j];
    }
    if (different != 0) break;
  }
  while (i < n && stored[i] == tokens[i]) ++i;
  return i;
}

[[gnu::always_inline]] inline bool NarrowIn(const std::int64_t* tokens,
                                            std::int64_t n, std::int32_t* out) {
  std::int64_t lost = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t token = tokens[i];
    out[i] = static_cast<std::int32_t>(token);
    lost |= token ^ static_cast<std::int32_t>(token);
  }
  return lost == 0;
}

// The same source for each width of vectors that machines have.
#define SERVECORE_COMMON_VARIANT(name, features, Token)                  \
  [[gnu::target(features)]] std::int64_t name(                           \
      const std::int32_t* stored, const Token* tokens, std::int64_t n) { \
    return CommonIn(stored, tokens, n);                                  \
  }
SERVECORE_COMMON_VARIANT(CommonAvx512, "avx512f,avx512bw,avx512vl",
                         std::int32_t)
SERVECORE_COMMON_VARIANT(CommonAvx512, "avx512f,avx512bw,avx512vl",
                         std::int64_t)
SERVECORE_COMMON_VARIANT(CommonAvx2, "avx2", std::int32_t)
SERVECORE_COMMON_VARIANT(CommonAvx2, "avx2", std::int64_t)
#undef SERVECORE_COMMON_VARIANT

[[gnu::target("avx512f,avx512bw,avx512vl")]] bool NarrowAvx512(
    const std::int64_t* tokens, std::int64_t n, std::int32_t* out) {
  return NarrowIn(tokens, n, out);
}
[[gnu::target("avx2")]] bool NarrowAvx2(const std::int64_t* tokens,
                                        std::int64_t n, std::int32_t* out) {
  return NarrowIn(tokens, n, out);
}

enum class Vectors { kBaseline, kAvx2, kAvx512 };

Vectors WidestVectors() noexcept {
  if (__builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return Vectors::kAvx512;
  }
  return __builtin_cpu_supports("avx2") ? Vectors::kAvx2 : Vectors::kBaseline;
}

const Vectors kVectors = WidestVectors();

template <class Token>
std::int64_t CommonContiguous(const std::int32_t* stored, const Token* tokens,
                              std::int64_t n) {
  switch (kVectors) {
    case Vectors::kAvx512:
      return CommonAvx512(stored, tokens, n);
    case Vectors::kAvx2:
      return CommonAvx2(stored, tokens, n);
    case Vectors::kBaseline:
      break;
  }
  return CommonIn(stored, tokens, n);
}

bool CopyContiguous(const std::int32_t* tokens, std::int64_t n,
                    std::int32_t* out) {
  std::copy_n(tokens, n, out);
  return true;
}

bool CopyContiguous(const std::int64_t* tokens, std::int64_t n,
                    std::int32_t* out) {
  switch (kVectors) {
    case Vectors::kAvx512:
      return NarrowAvx512(tokens, n, out);
    case Vectors::kAvx2:
      return NarrowAvx2(tokens, n, out);
    case Vectors::kBaseline:
      break;
  }
  return NarrowIn(tokens, n, out);
}

template <class Token>
bool CopyContiguous(const Token* tokens, std::int64_t n, std::int64_t* out) {
  std::copy_n(tokens, n, out);
  return true;
}

template <class Out>
bool Copy(const IntSpan& tokens, std::int64_t begin, std::int64_t n, Out* out) {
  return std::visit(
      [begin, n, out](const auto& span) {
        if (span.contiguous()) {
          return CopyContiguous(span.data + begin, n, out);
        }
        bool fitted = true;
        for (std::int64_t i = 0; i < n; ++i) {
          const auto token = span[begin + i];
          out[i] = static_cast<Out>(token);
          fitted &= out[i] == token;
        }
        return fitted;
      },
      tokens);
}

// The 128-bit product folded into 64 bits: each bit of the result depends on
// most bits of both factors.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^
         static_cast<std::uint64_t>(product >> 64);
}

// Digits of pi, the last of each made odd.
constexpr std::uint64_t kMixA = 0x243f6a8885a308d3;
constexpr std::uint64_t kMixB = 0x13198a2e03707345;

template <class Token>
std::uint64_t Hash(const StridedSpan<Token>& tokens, std::int64_t begin,
                   std::int64_t n, std::uint64_t seed) {
  const auto low = [&tokens, begin](std::int64_t i) -> std::uint64_t {
    return static_cast<std::uint32_t>(tokens[begin + i]);
  };
  std::uint64_t hash = Mix(seed ^ kMixA, kMixB);
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    hash = Mix((low(i) | low(i + 1) << 32) ^ kMixA,
               (low(i + 2) | low(i + 3) << 32) ^ hash);
  }
  for (; i < n; ++i) hash = Mix(low(i) ^ kMixB, hash ^ kMixA);
  // The low bits choose a bucket, so they have to depend on all others.
  return Mix(hash ^ kMixB, kMixA);
}

}  // namespace

std::int64_t CommonTokens(const std::int32_t* stored, const IntSpan& tokens,
                          std::int64_t begin, std::int64_t n) {
  return std::visit(
      [stored, begin, n](const auto& span) {
        if (span.contiguous()) {
          return CommonContiguous(stored, span.data + begin, n);
        }
        std::int64_t i = 0;
        while (i < n && stored[i] == span[begin + i]) ++i;
        return i;
      },
      tokens);
}

std::int64_t CommonTokens(const std::int64_t* stored, const IntSpan& tokens,
                          std::int64_t begin, std::int64_t n) {
  return std::visit(
      [stored, begin, n](const auto& span) {
        std::int64_t i = 0;
        while (i < n && stored[i] == span[begin + i]) ++i;
        return i;
      },
      tokens);
}

bool CopyTokens(const IntSpan& tokens, std::int64_t begin, std::int64_t n,
                std::int32_t* out) {
  return Copy(tokens, begin, n, out);
}

bool CopyTokens(const IntSpan& tokens, std::int64_t begin, std::int64_t n,
                std::int64_t* out) {
  return Copy(tokens, begin, n, out);
}

std::uint64_t HashTokens(const IntSpan& tokens, std::int64_t begin,
                         std::int64_t n, std::uint64_t seed) {
  return std::visit(
      [begin, n, seed](const auto& span) { return Hash(span, begin, n, seed); },
      tokens);
}

}  // namespace servecore::kv
