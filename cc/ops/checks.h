// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_CHECKS_H_
#define SERVECORE_CC_OPS_CHECKS_H_

#include <cstdint>
#include <string_view>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"

namespace servecore::ops {

// What the kernels demand of their arguments. Each throws
// std::invalid_argument with a message that begins with the name of the op
// (`op`) and names what was found and what is allowed.
// Thread safety: safe. Complexity: O(1).

// That two layouts have the same number of rows and the same row length.
void CheckSameRows(std::string_view op, std::string_view a_name,
                   const RowLayout& a, std::string_view b_name,
                   const RowLayout& b);

// That `dtype`, of the operand called `name`, goes with rows of `rows_dtype`:
// it is the same, or float32 where that is wider.
void CheckWeightDType(std::string_view op, std::string_view name, DType dtype,
                      DType rows_dtype);

// That 0 <= begin <= end <= size. `what`: "rows", "columns", …
void CheckRange(std::string_view op, std::string_view what, std::int64_t begin,
                std::int64_t end, std::int64_t size);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_CHECKS_H_
