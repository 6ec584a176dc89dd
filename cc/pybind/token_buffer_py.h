// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_TOKEN_BUFFER_PY_H_
#define SERVECORE_CC_PYBIND_TOKEN_BUFFER_PY_H_

#include <pybind11/pybind11.h>

namespace servecore::pybind {

// Adds the class TokenBuffer.
void BindTokenBuffer(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_TOKEN_BUFFER_PY_H_
