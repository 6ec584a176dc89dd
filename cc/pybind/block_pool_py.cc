// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/block_pool_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/pybind/array_args.h"
#include "cc/pybind/array_results.h"
#include "cc/pybind/constructed.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

using kv::BlockPool;
using PoolSelf = Constructed<BlockPool>;
using IdArray = py::array_t<std::int32_t>;

constexpr const char* kClassDoc =
    R"(Reference-counted ids 0 .. num_blocks - 1 for the blocks of a KV cache.

A fresh pool gives 0, 1, 2, ...; the last block freed is the first given again.

A reference is either loose, made by ``allocate`` and ``retain`` and given back
by ``release``, or it belongs to a PrefixCache or PrefixMatch, and only that
object gives it back.

Ownership: the pool owns the counts; the memory behind the ids is the engine's.
Lifetime: a PrefixCache or PrefixMatch keeps its pool alive.
Copies: lists are converted; arrays are read in place and returned as numpy
  arrays that own their memory.
GIL: the array forms run without it. The others keep it, and give it up only
  while they wait for another thread that uses the pool.
Thread safety: every method may be called from any thread.
)";

constexpr const char* kInitDoc = R"(Makes a pool of free blocks.

Args:
  num_blocks: 0 .. 2**31 - 1; a block costs 12.4 bytes.

Raises:
  ValueError: num_blocks is out of range.
  MemoryError: there is not enough memory.

GIL: released.
)";

constexpr const char* kAllocateDoc =
    R"(Takes n free blocks, with one reference each.

Args:
  n: how many, 0 or more.

Returns:
  Their ids, or None when fewer than n are free.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: the caller owes each block one ``release``.
Copies: the ids, into a list; ``allocate_array`` copies nothing.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(n).
)";

constexpr const char* kAllocateManyDoc =
    R"(Takes counts[i] free blocks for each i: all of them or none.

Args:
  counts: how many for each request, 0 or more.

Returns:
  One list of ids for each count, or None when fewer than their sum are free.

Raises:
  ValueError: a count is negative, or the sum is over 2**31 - 1.

Ownership: the caller owes each block one ``release``.
Lifetime: an array is kept alive during the call.
Copies: the ids, into lists; ``allocate_many_array`` copies nothing.
GIL: released while the blocks are taken.
Thread safety: safe. O(sum of counts).
)";

constexpr const char* kRetainDoc =
    R"(Adds a reference to a block that is in use.

Args:
  block: its id.

Raises:
  IndexError: there is no such block.
  RuntimeError: the block is free.

Ownership: the caller owes the block one more ``release``.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kReleaseDoc =
    R"(Gives back a reference; the block is free when it was the last.

Args:
  block: its id.

Raises:
  IndexError: there is no such block.
  RuntimeError: the block is free, or all its references belong to caches and
    matches.

Ownership: the caller's reference ends.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kRefCountDoc = R"(The number of references to a block.

Args:
  block: its id.

Returns:
  All references, those of caches and matches too; 0 for a free block.

Raises:
  IndexError: there is no such block.

GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kAllocateArrayDoc =
    R"(As ``allocate``, giving a numpy int32 array.

Args:
  n: how many, 0 or more.

Returns:
  Their ids, shape (n,), or None when fewer than n are free.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: the caller owes each block one ``release``; the array owns its
  memory.
Lifetime: the array outlives the pool if need be.
Copies: nothing.
GIL: released.
Thread safety: safe. O(n).
)";

constexpr const char* kAllocateManyArrayDoc =
    R"(As ``allocate_many``, giving all lists in two numpy int32 arrays.

Args:
  counts: how many for each request, 0 or more.

Returns:
  (ids, offsets) of shapes (sum of counts,) and (len(counts) + 1,), where
  request i has ids[offsets[i]:offsets[i + 1]]; or None when fewer blocks than
  their sum are free.

Raises:
  ValueError: a count is negative, or the sum is over 2**31 - 1.

Ownership: the caller owes each block one ``release``; the arrays own their
  memory.
Lifetime: the arrays outlive the pool if need be.
Copies: nothing of an array; a sequence is converted.
GIL: released.
Thread safety: safe. O(sum of counts).
)";

constexpr const char* kRetainArrayDoc =
    R"(As ``retain`` for each id in turn: all of them or none.

Args:
  ids: block ids; one that occurs k times gains k references.

Raises:
  IndexError: one of them is no block.
  RuntimeError: one of them is free.

Ownership: the caller owes ``release`` once more for each element.
Lifetime: the array is kept alive during the call.
Copies: the ids once, so that a change during the call does no harm.
GIL: released.
Thread safety: safe. O(len(ids)).
)";

constexpr const char* kReleaseArrayDoc =
    R"(As ``release`` for each id in turn: all of them or none.

The last id is the first to be allocated again.

Args:
  ids: block ids; one that occurs k times loses k references.

Raises:
  IndexError: one of them is no block.
  RuntimeError: one of them is free, or has fewer references of the caller than
    it occurs.

Ownership: the caller's references end.
Lifetime: the array is kept alive during the call.
Copies: the ids once, so that a change during the call does no harm.
GIL: released.
Thread safety: safe. O(len(ids)).
)";

constexpr const char* kNumFreeDoc = R"(The number of free blocks.

GIL: held, except while it waits for another thread.
Thread safety: safe; another thread may change it at any time. O(1).
)";

constexpr const char* kNumBlocksDoc = R"(The number of blocks, free or not.

GIL: held.
Thread safety: safe; it never changes. O(1).
)";

constexpr const char* kStatsDoc = R"(A snapshot of the pool in numbers.

Returns:
  ``num_blocks``, ``num_free``, ``num_used``, ``num_idle`` (blocks whose only
  reference is a cache's, which eviction could free), ``total_refs`` (all
  references together) and ``peak_used`` (the highest num_used so far), which
  are levels, and ``allocated_blocks`` and ``freed_blocks``, which only grow.

GIL: held, except while it waits for another thread.
Thread safety: safe; all numbers are of one moment. O(1).
)";

constexpr const char* kCheckDoc = R"(Verifies every invariant of the pool.

Raises:
  RuntimeError: one is broken; the message names it.

GIL: released.
Thread safety: safe. O(num_blocks) in time and memory.
)";

std::shared_ptr<BlockPool> Make(IntHandle num_blocks) {
  const std::int64_t count = ReadCount(num_blocks, "num_blocks");
  const GilReleased released;
  return std::make_shared<BlockPool>(count);
}

std::optional<std::vector<std::int32_t>> Allocate(PoolSelf self, IntHandle n) {
  const std::int64_t count = ReadCount(n, "n");
  const GilReleasedOnWait no_wait;
  return self->Allocate(count);
}

std::optional<std::vector<std::vector<std::int32_t>>> AllocateMany(
    PoolSelf self, IntArrayOrListHandle counts) {
  const IntArrayArg arg(counts, "counts");
  const GilReleased released;
  return self->AllocateMany(arg.span());
}

void Retain(PoolSelf self, IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  self->Retain(id);
}

void Release(PoolSelf self, IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  self->Release(id);
}

std::int32_t RefCount(PoolSelf self, IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  return self->RefCount(id);
}

std::optional<IdArray> AllocateArray(PoolSelf self, IntHandle n) {
  const std::int64_t count = ReadCount(n, "n");
  std::optional<std::vector<std::int32_t>> ids;
  {
    const GilReleased released;
    ids = self->Allocate(count);
  }
  if (!ids) return std::nullopt;
  return ToArray(*std::move(ids));
}

std::optional<std::pair<IdArray, IdArray>> AllocateManyArray(
    PoolSelf self, IntArrayOrListHandle counts) {
  const IntArrayArg arg(counts, "counts");
  std::optional<kv::BlockLists> lists;
  {
    const GilReleased released;
    lists = self->AllocateManyFlat(arg.span());
  }
  if (!lists) return std::nullopt;
  return std::pair(ToArray(std::move(lists->ids)),
                   ToArray(std::move(lists->offsets)));
}

void RetainArray(PoolSelf self, IntArrayHandle ids) {
  const IntArrayArg arg(ids, "ids");
  const GilReleased released;
  self->RetainArray(arg.span());
}

void ReleaseArray(PoolSelf self, IntArrayHandle ids) {
  const IntArrayArg arg(ids, "ids");
  const GilReleased released;
  self->ReleaseArray(arg.span());
}

std::int32_t NumFree(PoolSelf self) {
  const GilReleasedOnWait no_wait;
  return self->num_free();
}

std::int32_t NumBlocks(PoolSelf self) { return self->num_blocks(); }

py::typing::Dict<py::str, py::int_> Stats(PoolSelf self) {
  kv::BlockPoolStats stats;
  {
    const GilReleasedOnWait no_wait;
    stats = self->stats();
  }
  py::typing::Dict<py::str, py::int_> result;
  result["num_blocks"] = stats.num_blocks;
  result["num_free"] = stats.num_free;
  result["num_used"] = stats.num_used;
  result["num_idle"] = stats.num_idle;
  result["total_refs"] = stats.total_refs;
  result["peak_used"] = stats.peak_used;
  result["allocated_blocks"] = stats.allocated_blocks;
  result["freed_blocks"] = stats.freed_blocks;
  return result;
}

void Check(PoolSelf self) {
  const GilReleased released;
  self->Check();
}

std::string Repr(PoolSelf self) {
  return "<BlockPool free=" + std::to_string(NumFree(self)) + ">";
}

}  // namespace

void BindBlockPool(py::module_& module) {
  // Shared, because a pool truly has several owners: Python, the caches that
  // were made on it and their matches.
  py::class_<BlockPool, std::shared_ptr<BlockPool>>(module, "BlockPool",
                                                    kClassDoc)
      .def(py::init(&Make), py::arg("num_blocks"), kInitDoc)
      .def("allocate", &Allocate, py::arg("n"), kAllocateDoc)
      .def("allocate_many", &AllocateMany, py::arg("counts"), kAllocateManyDoc)
      .def("retain", &Retain, py::arg("block"), kRetainDoc)
      .def("release", &Release, py::arg("block"), kReleaseDoc)
      .def("ref_count", &RefCount, py::arg("block"), kRefCountDoc)
      .def("allocate_array", &AllocateArray, py::arg("n"), kAllocateArrayDoc)
      .def("allocate_many_array", &AllocateManyArray, py::arg("counts"),
           kAllocateManyArrayDoc)
      .def("retain_array", &RetainArray, py::arg("ids"), kRetainArrayDoc)
      .def("release_array", &ReleaseArray, py::arg("ids"), kReleaseArrayDoc)
      .def_property_readonly("num_free", &NumFree, kNumFreeDoc)
      .def_property_readonly("num_blocks", &NumBlocks, kNumBlocksDoc)
      .def("stats", &Stats, kStatsDoc)
      .def("check", &Check, kCheckDoc)
      .def("__repr__", &Repr);
}

}  // namespace servecore::pybind
