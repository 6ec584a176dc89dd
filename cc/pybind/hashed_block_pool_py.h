// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_HASHED_BLOCK_POOL_PY_H_
#define SERVECORE_CC_PYBIND_HASHED_BLOCK_POOL_PY_H_

#include <pybind11/pybind11.h>

namespace servecore::pybind {

// Binds servecore::kv::HashedBlockPool as HashedBlockPool.
void BindHashedBlockPool(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_HASHED_BLOCK_POOL_PY_H_
