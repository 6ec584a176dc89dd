// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_CHECKED_IDS_H_
#define SERVECORE_CC_KV_CHECKED_IDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "cc/base/int_span.h"

namespace servecore::kv {

// The first n of `ids`, of which there are n or more, each of them one of the
// blocks 0 .. num_blocks - 1 of a pool. Throws std::out_of_range that names the
// first that is not, as an element of the array `name`.
//
// Copies: once; what a caller writes to `ids` later changes nothing.
std::vector<std::int32_t> CheckedIds(const IntSpan& ids, std::int64_t n,
                                     std::int32_t num_blocks,
                                     std::string_view name);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_CHECKED_IDS_H_
