// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_ops.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <variant>

namespace servecore::kv {
namespace {

// Elements that memcmp looks at in one go; a mismatch is then found among them.
constexpr std::int64_t kChunk = 1024;

}  // namespace

std::int64_t CommonPrefix(const IntSpan& a, const IntSpan& b) {
  return std::visit(
      [](const auto& x, const auto& y) -> std::int64_t {
        const std::int64_t n = std::min(x.size, y.size);
        std::int64_t i = 0;
        if constexpr (std::is_same_v<decltype(x), decltype(y)>) {
          if (x.contiguous() && y.contiguous()) {
            while (n - i >= kChunk &&
                   std::memcmp(x.data + i, y.data + i,
                               kChunk * sizeof *x.data) == 0) {
              i += kChunk;
            }
          }
        }
        while (i < n && std::int64_t{x[i]} == std::int64_t{y[i]}) ++i;
        return i;
      },
      a, b);
}

std::int64_t CountEos(const IntSpan& tokens, std::int64_t eos) {
  return std::visit(
      [eos](const auto& span) -> std::int64_t {
        using Token = typename std::decay_t<decltype(span)>::value_type;
        if (eos < std::numeric_limits<Token>::min() ||
            eos > std::numeric_limits<Token>::max()) {
          return 0;
        }
        const auto wanted = static_cast<Token>(eos);
        if (span.contiguous()) {
          return std::count(span.data, span.data + span.size, wanted);
        }
        std::int64_t n = 0;
        for (std::int64_t i = 0; i < span.size; ++i) n += span[i] == wanted;
        return n;
      },
      tokens);
}

}  // namespace servecore::kv
