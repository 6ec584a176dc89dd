// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_CACHE_EVENTS_PY_H_
#define SERVECORE_CC_PYBIND_CACHE_EVENTS_PY_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>

#include "cc/kv/event_log.h"

namespace servecore::pybind {

// kv::CacheEvents as arrays.
//
// GIL: held.
struct EventArrays {
  pybind11::array_t<bool> is_stored;
  pybind11::array_t<std::int32_t> block_ids;
  pybind11::array_t<std::int32_t> parent_ids;
  std::int64_t num_lost = 0;
};

// Copies: nothing; the arrays own the vectors. GIL: held.
EventArrays ToEventArrays(kv::CacheEvents events);

// Binds EventArrays as CacheEvents.
void BindCacheEvents(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_CACHE_EVENTS_PY_H_
