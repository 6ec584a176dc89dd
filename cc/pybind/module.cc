// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include <pybind11/pybind11.h>

#include "cc/pybind/block_pool_py.h"
#include "cc/pybind/functions_py.h"
#include "cc/pybind/hashed_block_pool_py.h"
#include "cc/pybind/prefix_cache_py.h"
#include "cc/pybind/token_buffer_py.h"

namespace {

constexpr const char* kDoc = R"(The C++ core of servecore.

Import it as ``servecore`` or ``servecore.kv``; this module is where the classes
and functions live.

Types in the signatures:
  ``IntArray``: a one-dimensional array of int32 or int64 in native byte order,
  with any stride: a numpy array, an object with the buffer protocol
  (``array.array``, ``memoryview``), or one with ``__dlpack__`` in the memory of
  the CPU (a torch tensor). It is read in place. Only items that are unaligned
  or not a whole number of items apart are copied first.
  ``FloatArray``: the same of float32 or float64.
  ``Sequence``: a list, tuple or range, whose items are converted one by one.

Errors of all functions: TypeError for an argument of another type, dtype or
byte order; ValueError for an array without exactly one dimension. Whenever a
call raises, nothing has changed.

GIL: a call whose work grows with its input runs without the GIL, so nobody may
write to its arrays until it returns. The others keep it, and give it up only
while they wait for another thread.
)";

}  // namespace

// Free-threaded Python need not bring back its GIL for this module: all state
// is in objects that lock for themselves.
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = kDoc;
  servecore::pybind::BindBlockPool(module);
  servecore::pybind::BindHashedBlockPool(module);
  servecore::pybind::BindTokenBuffer(module);
  servecore::pybind::BindPrefixCache(module);
  servecore::pybind::BindFunctions(module);
}
