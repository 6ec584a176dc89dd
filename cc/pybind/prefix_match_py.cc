// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/prefix_match_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "cc/pybind/constructed.h"
#include "cc/pybind/gil.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

using MatchSelf = Constructed<SharedMatch>;

constexpr const char* kMatchClassDoc =
    R"(The blocks that a lookup found, protected until they are released.

Use it as a context manager::

    with cache.match(tokens) as match:
        blocks = match.block_ids

Ownership: it holds one reference on each block and gives it back in
  ``release``, at the end of the ``with`` block, or when it is collected. Who
  needs the blocks for longer retains them in the pool before that.
Lifetime: it keeps the pool alive, and may outlive the cache.
Copies: none.
GIL: held, except while it waits for another thread.
Thread safety: every method may be called from any thread.
)";

constexpr const char* kReleaseDoc = R"(Gives the references back.

The numbers stay readable as a record, but the blocks may be evicted and given
to another at any time.

Raises:
  RuntimeError: it was released before.

GIL: held, except while it waits for another thread.
Thread safety: safe. O(blocks).
)";

constexpr const char* kEnterDoc = R"(Gives the match itself.

Raises:
  RuntimeError: it was released before.
)";

constexpr const char* kExitDoc = R"(Releases the match if it is still held.

An exception of the ``with`` block goes on.
)";

constexpr const char* kNumTokensDoc =
    "The number of tokens found: len(block_ids) times the block size.";

constexpr const char* kBlockIdsDoc =
    R"(The blocks found, in the order of their tokens: a numpy int32 array.

A match keeps them as runs and writes them out when it is asked, each time
anew; so keep the array rather than ask twice.

Ownership: the array owns its memory.
Lifetime: it outlives the match, but protects no block by itself.
Copies: all ids, O(blocks); most are counted, not read.
GIL: released while they are written.
)";

void ReleaseMatch(MatchSelf self) {
  if (!self->ReleaseIfHeld()) {
    throw std::logic_error(
        "this PrefixMatch was released before; a match is released once");
  }
}

SharedMatch& EnterMatch(MatchSelf self) {
  if (!self->held()) {
    throw std::logic_error(
        "this PrefixMatch was released before; match the tokens again");
  }
  return *self;
}

void ExitMatch(MatchSelf self, py::handle /*exc_type*/, py::handle /*exc*/,
               py::handle /*traceback*/) {
  self->ReleaseIfHeld();
}

std::string MatchRepr(MatchSelf self) {
  return "<PrefixMatch tokens=" + std::to_string(self->num_tokens()) +
         " blocks=" + std::to_string(self->num_blocks()) +
         (self->held() ? ">" : " released>");
}

}  // namespace

py::array_t<std::int32_t> SharedMatch::block_ids() const {
  py::array_t<std::int32_t> ids(match_.num_blocks());
  std::int32_t* const out = ids.mutable_data();
  const GilReleased released;
  match_.WriteBlockIds(out);
  return ids;
}

bool SharedMatch::ReleaseIfHeld() {
  if (!held_.exchange(false, std::memory_order_relaxed)) return false;
  const GilReleasedOnWait no_wait;
  match_.Release();
  return true;
}

void BindPrefixMatch(py::module_& module) {
  py::class_<SharedMatch>(module, "PrefixMatch", kMatchClassDoc)
      .def_property_readonly(
          "num_tokens", [](MatchSelf self) { return self->num_tokens(); },
          kNumTokensDoc)
      .def_property_readonly(
          "block_ids", [](MatchSelf self) { return self->block_ids(); },
          kBlockIdsDoc)
      .def("release", &ReleaseMatch, kReleaseDoc)
      .def("__enter__", &EnterMatch, py::return_value_policy::reference,
           kEnterDoc)
      .def("__exit__", &ExitMatch, py::arg("exc_type"), py::arg("exc"),
           py::arg("traceback"), kExitDoc)
      .def("__repr__", &MatchRepr);
}

}  // namespace servecore::pybind
