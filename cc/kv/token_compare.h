// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_TOKEN_COMPARE_H_
#define SERVECORE_CC_KV_TOKEN_COMPARE_H_

#include <cstdint>

#include "cc/base/int_span.h"

namespace servecore::kv {

// Comparing and hashing a caller's tokens, of either width and any stride,
// beside tokens that lie side by side in memory.
//
// Copies: nothing.
// Thread safety: safe while nobody writes to the tokens.

// How many of stored[0 .. n-1] and tokens[begin .. begin+n-1] are equal before
// the first that differ. O(result), with the widest vectors that the machine
// has where `tokens` is contiguous.
std::int64_t CommonTokens(const std::int32_t* stored, const IntSpan& tokens,
                          std::int64_t begin, std::int64_t n);
std::int64_t CommonTokens(const std::int64_t* stored, const IntSpan& tokens,
                          std::int64_t begin, std::int64_t n);

// Writes tokens[begin .. begin+n-1] to `out`. Gives whether each of them fitted
// its width; one that did not is cut. O(n).
bool CopyTokens(const IntSpan& tokens, std::int64_t begin, std::int64_t n,
                std::int32_t* out);
bool CopyTokens(const IntSpan& tokens, std::int64_t begin, std::int64_t n,
                std::int64_t* out);

// A hash of the low 32 bits of tokens[begin .. begin+n-1], mixed with `seed`:
// equal for equal tokens, in whichever width they come, and in every process.
// O(n).
std::uint64_t HashTokens(const IntSpan& tokens, std::int64_t begin,
                         std::int64_t n, std::uint64_t seed);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_TOKEN_COMPARE_H_
