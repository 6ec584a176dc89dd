// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_FUNCTIONS_PY_H_
#define SERVECORE_CC_PYBIND_FUNCTIONS_PY_H_

#include <pybind11/pybind11.h>

namespace servecore::pybind {

// Binds common_prefix, count_eos and vector_add.
void BindFunctions(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_FUNCTIONS_PY_H_
