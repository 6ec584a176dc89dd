// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/checks.h"

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "cc/base/errors.h"
#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"

namespace servecore::ops {

void CheckSameRows(std::string_view op, std::string_view a_name,
                   const RowLayout& a, std::string_view b_name,
                   const RowLayout& b) {
  if (a.rows() == b.rows() && a.dim() == b.dim()) return;
  throw std::invalid_argument(StrCat(op, ": ", a_name, " has ", a.rows(),
                                     " rows of ", a.dim(), " elements, ",
                                     b_name, " has ", b.rows(), " rows of ",
                                     b.dim(), " elements; they must be equal"));
}

void CheckWeightDType(std::string_view op, std::string_view name, DType dtype,
                      DType rows_dtype) {
  if (dtype == rows_dtype) return;
  if (rows_dtype != DType::kFloat64 && dtype == DType::kFloat32) return;
  throw std::invalid_argument(StrCat(
      op, ": ", name, " is ", NameOf(dtype), ", the rows are ",
      NameOf(rows_dtype), "; allowed with these are ", NameOf(rows_dtype),
      SizeOf(rows_dtype) == 2 ? " and float32" : ""));
}

void CheckRange(std::string_view op, std::string_view what, std::int64_t begin,
                std::int64_t end, std::int64_t size) {
  if (0 <= begin && begin <= end && end <= size) return;
  throw std::invalid_argument(StrCat(op, ": ", what, " [", begin, ", ", end,
                                     "); allowed are ranges within [0, ", size,
                                     ")"));
}

}  // namespace servecore::ops
