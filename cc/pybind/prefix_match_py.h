// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_PYBIND_PREFIX_MATCH_PY_H_
#define SERVECORE_CC_PYBIND_PREFIX_MATCH_PY_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "cc/kv/prefix_match.h"

namespace servecore::pybind {

// A kv::PrefixMatch that several Python threads may hold: whichever of them
// releases it first does so, and the others are told.
//
// GIL: held to destroy it and to release it.
class SharedMatch {
 public:
  explicit SharedMatch(kv::PrefixMatch match) : match_(std::move(match)) {}
  SharedMatch(const SharedMatch&) = delete;
  SharedMatch& operator=(const SharedMatch&) = delete;
  ~SharedMatch() { ReleaseIfHeld(); }

  bool held() const { return held_.load(std::memory_order_relaxed); }
  std::int64_t num_tokens() const { return match_.num_tokens(); }
  std::int64_t num_blocks() const { return match_.num_blocks(); }
  pybind11::array_t<std::int32_t> block_ids() const;

  // Whether it was this call that released it.
  bool ReleaseIfHeld();

 private:
  kv::PrefixMatch match_;
  std::atomic<bool> held_ = true;
};

// Binds SharedMatch as PrefixMatch.
void BindPrefixMatch(pybind11::module_& module);

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_PREFIX_MATCH_PY_H_
