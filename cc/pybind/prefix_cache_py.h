// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_PREFIX_CACHE_PY_H_
#define SERVECORE_CC_PYBIND_PREFIX_CACHE_PY_H_

#include <pybind11/pybind11.h>

namespace servecore::pybind {

// Binds servecore::kv::PrefixCache and what it returns, as PrefixCache,
// PrefixMatch and InsertResult. BlockPool must be bound before.
void BindPrefixCache(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_PREFIX_CACHE_PY_H_
