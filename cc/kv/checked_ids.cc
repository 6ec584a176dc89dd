// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/checked_ids.h"

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "cc/base/errors.h"

namespace servecore::kv {
namespace {

// Whether all n are in 0 .. last. There is no exit from the loop, so that the
// compiler can make vectors of it.
template <class Id>
bool Copy(const Id* ids, std::int64_t n, std::int64_t last, std::int32_t* out) {
  // Its highest bit is set where some id is negative, or over the last. What is
  // checked is what was copied, whoever writes to the array meanwhile.
  using Bits = std::make_unsigned_t<Id>;
  Bits bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Id id = ids[i];
    out[i] = static_cast<std::int32_t>(id);
    bad |= static_cast<Bits>(id) |
           (static_cast<Bits>(last) - static_cast<Bits>(id));
  }
  return static_cast<Id>(bad) >= 0;
}

}  // namespace

std::vector<std::int32_t> CheckedIds(const IntSpan& ids, std::int64_t n,
                                     std::int32_t num_blocks,
                                     std::string_view name) {
  std::vector<std::int32_t> checked(static_cast<std::size_t>(n));
  std::visit(
      [&](const auto& span) {
        if (span.contiguous() &&
            Copy(span.data, n, num_blocks - 1, checked.data())) {
          return;
        }
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t id = span[i];
          if (id < 0 || id >= num_blocks) {
            throw std::out_of_range(
                num_blocks == 0 ? StrCat(name, "[", i, "] is ", id,
                                         ", but the pool has no blocks")
                                : StrCat(name, "[", i, "] is ", id,
                                         "; the blocks of this pool are 0 to ",
                                         num_blocks - 1));
          }
          checked[i] = static_cast<std::int32_t>(id);
        }
      },
      ids);
  return checked;
}

}  // namespace servecore::kv
