// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/hashed_block_pool_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/kv/hashed_block_pool.h"
#include "cc/pybind/array_args.h"
#include "cc/pybind/array_results.h"
#include "cc/pybind/constructed.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

using kv::HashedBlockPool;
using PoolSelf = Constructed<HashedBlockPool>;
using IdArray = py::array_t<std::int32_t>;
using Keys = py::typing::List<py::bytes>;
using RemovedKeys = py::typing::List<py::typing::Tuple<py::int_, py::bytes>>;

constexpr const char* kClassDoc =
    R"(Reference-counted blocks of a KV cache that are found by opaque keys.

For engines that hash tokens themselves: a key is the hash of a block's tokens
and of all before it. Two blocks with one key count as holding the same tokens.

Free blocks form a queue. A freed block with a key joins its end and can still
be found, until it is given again; one without a key joins its front. A fresh
pool gives 0, 1, 2, ... Several blocks may have one key, and a block several.

Ownership: the pool owns the counts and copies of the keys; the memory behind
  the ids is the engine's.
Lifetime: results outlive the pool.
Copies: ids and keys are read in place; keys that stay are copied.
GIL: methods that take or give arrays run without it. The others keep it, and
  give it up only while they wait for another thread that uses the pool.
Thread safety: every method may be called from any thread.
)";

constexpr const char* kInitDoc = R"(Makes a pool of free blocks without keys.

Args:
  num_blocks: 0 .. 2**31 - 1; a block costs 16 bytes, a key about 96.

Raises:
  ValueError: num_blocks is out of range.
  MemoryError: there is not enough memory.

GIL: released.
)";

constexpr const char* kAllocateDoc =
    R"(Takes n blocks from the front of the queue and forgets their keys.

Args:
  n: how many, 0 or more.

Returns:
  Their ids, shape (n,), or None when fewer than n are free.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: the caller owes each block one ``free_array``; the array owns its
  memory.
Copies: nothing.
GIL: released.
Thread safety: safe. O(n).
)";

constexpr const char* kAllocateRemovingDoc =
    R"(As ``allocate_array``, and tells which keys are gone.

Args:
  n: how many, 0 or more.

Returns:
  (ids, removed), where removed has (block, key) for each key that a block had,
  in the order of the ids; or None when fewer than n are free.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: as ``allocate_array``.
Copies: the removed keys.
GIL: released.
Thread safety: safe. O(n).
)";

constexpr const char* kTouchArrayDoc =
    R"(Adds a reference to each block; a free one leaves the queue and keeps its keys.

Args:
  ids: block ids; one that occurs k times gains k references.

Raises:
  IndexError: one of them is no block.
  OverflowError: a count would pass int32.

Ownership: the caller owes ``free_array`` once more for each element.
Copies: the ids once, so that a change during the call does no harm.
GIL: released.
Thread safety: safe. O(len(ids)).
)";

constexpr const char* kFreeArrayDoc =
    R"(Takes a reference from each block, all of them or none.

Blocks that are free then join the queue in the order of the ids: those with a
key at its end, those without at its front.

Args:
  ids: block ids; one that occurs k times loses k references.
  last: those without a key join the end, too; for blocks that somebody still
    reads until they are given again.

Raises:
  IndexError: one of them is no block.
  RuntimeError: one of them has fewer references than it occurs.

Ownership: the caller's references end.
Copies: the ids once, so that a change during the call does no harm.
GIL: released.
Thread safety: safe. O(len(ids)).
)";

constexpr const char* kInsertDoc =
    R"(Gives each block its first key, all of them or none.

Args:
  ids: block ids.
  keys: one of 1 to 56 bytes for each.

Returns:
  Whether another block had the key already, for each; shape (len(ids),).

Raises:
  IndexError: one of ids is no block.
  RuntimeError: one of the blocks has a key, or occurs twice.
  ValueError: a key is too short or too long, or there are not as many keys as
    ids.

Ownership: the result owns its memory; no reference changes hands.
Lifetime: ids is kept alive during the call.
Copies: the keys.
GIL: released.
Thread safety: safe. O(len(ids)).
)";

constexpr const char* kAddKeyDoc = R"(Gives a block one key more.

Args:
  block: its id.
  key: 1 to 56 bytes.

Returns:
  Whether another block had the key already.

Raises:
  IndexError: there is no such block.
  RuntimeError: the block has that key.
  ValueError: the key is too short or too long.

Copies: the key.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(keys of the block).
)";

constexpr const char* kFindDoc =
    R"(The first block of each key, up to the first key that no block has.

Args:
  keys: bytes of any length.

Returns:
  Block ids, shape (number of keys found,). No reference is taken: another
  thread may be given these blocks before ``touch_array`` is called.

Ownership: the array owns its memory.
Copies: nothing.
GIL: released.
Thread safety: safe. O(len(keys)).
)";

constexpr const char* kFreeNeighborsDoc =
    R"(The free blocks before and behind a free one in the queue.

Args:
  block: its id; -1 for the last and the first of the queue.

Returns:
  Two ids, -1 beyond the ends of the queue.

Raises:
  IndexError: there is no such block.
  RuntimeError: the block is in use.

GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kFindOneDoc =
    R"(The first block of a key, or None when no block has it.

Args:
  key: bytes of any length.

Ownership: no reference is taken; see ``find``.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kHasDoc = R"(Whether a block has a key.

Args:
  block: its id.
  key: bytes of any length.

Raises:
  IndexError: there is no such block.

GIL: held, except while it waits for another thread.
Thread safety: safe. O(keys of the block).
)";

constexpr const char* kKeysOfDoc = R"(The keys of a block, the first one first.

Args:
  block: its id.

Raises:
  IndexError: there is no such block.

Copies: the keys.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(keys of the block).
)";

constexpr const char* kRemoveKeysDoc =
    R"(Makes blocks forget their keys; their references stay.

Args:
  ids: block ids.

Returns:
  (block, key) for each key that went, in the order of ids.

Raises:
  IndexError: one of them is no block.

Copies: the removed keys.
GIL: released.
Thread safety: safe. O(len(ids) + keys removed).
)";

constexpr const char* kResetDoc = R"(Forgets all keys; the queue stays.

Args:
  max_used: how many blocks may be in use, 0 or more.

Raises:
  RuntimeError: more are.
  ValueError: max_used is negative, or more than any pool can have.

GIL: released.
Thread safety: safe. O(num_blocks).
)";

constexpr const char* kRefCountDoc = R"(The number of references to a block.

Args:
  block: its id.

Returns:
  0 for a free block.

Raises:
  IndexError: there is no such block.

GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

constexpr const char* kFreeBlocksDoc =
    R"(The queue of free blocks, the next to be given first.

Ownership: the array owns its memory.
GIL: released.
Thread safety: safe. O(num_free).
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
  ``num_blocks``, ``num_free``, ``total_refs``, ``num_keyed`` (blocks with a
  key) and ``num_keys``, which are levels, and ``allocated_blocks``,
  ``freed_blocks`` and ``removed_keys``, which only grow.

GIL: held, except while it waits for another thread.
Thread safety: safe; all numbers are of one moment. O(1).
)";

constexpr const char* kCheckDoc = R"(Verifies every invariant of the pool.

Raises:
  RuntimeError: one is broken; the message names it.

GIL: released.
Thread safety: safe. O(num_blocks + keys) in time and memory.
)";

std::string_view View(py::handle key) {
  char* data = nullptr;
  py::ssize_t size = 0;
  if (PyBytes_AsStringAndSize(key.ptr(), &data, &size) != 0) {
    throw py::error_already_set();
  }
  return {data, static_cast<std::size_t>(size)};
}

// Bytes objects as views.
//
// Ownership: a reference to each; a tuple, so that nobody can take one away.
// GIL: held to make and destroy it.
class KeysArg {
 public:
  explicit KeysArg(const Keys& keys) : keys_(keys) {
    views_.reserve(keys_.size());
    for (const py::handle key : keys_) views_.push_back(View(key));
  }
  const std::vector<std::string_view>& views() const { return views_; }

 private:
  py::tuple keys_;
  std::vector<std::string_view> views_;
};

RemovedKeys ToList(const std::vector<kv::RemovedKey>& removed) {
  RemovedKeys result;
  for (const kv::RemovedKey& key : removed) {
    result.append(py::make_tuple(key.block, py::bytes(key.key)));
  }
  return result;
}

std::shared_ptr<HashedBlockPool> Make(IntHandle num_blocks) {
  const std::int64_t count = ReadCount(num_blocks, "num_blocks");
  const GilReleased released;
  return std::make_shared<HashedBlockPool>(count);
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

std::optional<std::pair<IdArray, RemovedKeys>> AllocateRemoving(PoolSelf self,
                                                                IntHandle n) {
  const std::int64_t count = ReadCount(n, "n");
  std::optional<std::vector<std::int32_t>> ids;
  std::vector<kv::RemovedKey> removed;
  {
    const GilReleased released;
    ids = self->Allocate(count, &removed);
  }
  if (!ids) return std::nullopt;
  return std::pair(ToArray(*std::move(ids)), ToList(removed));
}

void TouchArray(PoolSelf self, IntArrayHandle ids) {
  const IntArrayArg arg(ids, "ids");
  const GilReleased released;
  self->Touch(arg.span());
}

void FreeArray(PoolSelf self, IntArrayHandle ids, bool last) {
  const IntArrayArg arg(ids, "ids");
  const GilReleased released;
  self->Free(arg.span(), last);
}

py::array_t<bool> Insert(PoolSelf self, IntArrayOrListHandle ids,
                         const Keys& keys) {
  const IntArrayArg arg(ids, "ids", OutOfRange::kIndexError);
  const KeysArg key_arg(keys);
  std::vector<std::uint8_t> is_duplicate;
  {
    const GilReleased released;
    is_duplicate = self->Insert(arg.span(), key_arg.views());
  }
  py::array_t<bool> result(static_cast<py::ssize_t>(is_duplicate.size()));
  std::ranges::transform(is_duplicate, result.mutable_data(),
                         [](std::uint8_t flag) { return flag != 0; });
  return result;
}

bool AddKey(PoolSelf self, IntHandle block, const py::bytes& key) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  return self->AddKey(id, View(key));
}

IdArray Find(PoolSelf self, const Keys& keys) {
  const KeysArg arg(keys);
  std::vector<std::int32_t> ids;
  {
    const GilReleased released;
    ids = self->Find(arg.views());
  }
  return ToArray(std::move(ids));
}

std::pair<std::int32_t, std::int32_t> FreeNeighbors(PoolSelf self,
                                                    IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  return self->FreeNeighbors(id);
}

std::optional<std::int32_t> FindOne(PoolSelf self, const py::bytes& key) {
  const std::string_view text = View(key);
  const GilReleasedOnWait no_wait;
  return self->FindOne(text);
}

bool Has(PoolSelf self, IntHandle block, const py::bytes& key) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  return self->Has(id, View(key));
}

py::typing::List<py::bytes> KeysOf(PoolSelf self, IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  std::vector<std::string> keys;
  {
    const GilReleasedOnWait no_wait;
    keys = self->KeysOf(id);
  }
  py::typing::List<py::bytes> result;
  for (const std::string& key : keys) result.append(py::bytes(key));
  return result;
}

RemovedKeys RemoveKeys(PoolSelf self, IntArrayOrListHandle ids) {
  const IntArrayArg arg(ids, "ids", OutOfRange::kIndexError);
  std::vector<kv::RemovedKey> removed;
  {
    const GilReleased released;
    removed = self->RemoveKeys(arg.span());
  }
  return ToList(removed);
}

void Reset(PoolSelf self, IntHandle max_used) {
  const std::int64_t count = ReadCount(max_used, "max_used");
  const GilReleased released;
  self->Reset(count);
}

std::int32_t RefCount(PoolSelf self, IntHandle block) {
  const std::int64_t id = ReadBlock(block);
  const GilReleasedOnWait no_wait;
  return self->RefCount(id);
}

IdArray FreeBlocks(PoolSelf self) {
  std::vector<std::int32_t> ids;
  {
    const GilReleased released;
    ids = self->FreeBlocks();
  }
  return ToArray(std::move(ids));
}

std::int32_t NumFree(PoolSelf self) {
  const GilReleasedOnWait no_wait;
  return self->num_free();
}

std::int32_t NumBlocks(PoolSelf self) { return self->num_blocks(); }

py::typing::Dict<py::str, py::int_> Stats(PoolSelf self) {
  kv::HashedBlockPoolStats stats;
  {
    const GilReleasedOnWait no_wait;
    stats = self->stats();
  }
  py::typing::Dict<py::str, py::int_> result;
  result["num_blocks"] = stats.num_blocks;
  result["num_free"] = stats.num_free;
  result["total_refs"] = stats.total_refs;
  result["num_keyed"] = stats.num_keyed;
  result["num_keys"] = stats.num_keys;
  result["allocated_blocks"] = stats.allocated_blocks;
  result["freed_blocks"] = stats.freed_blocks;
  result["removed_keys"] = stats.removed_keys;
  return result;
}

void Check(PoolSelf self) {
  const GilReleased released;
  self->Check();
}

std::string Repr(PoolSelf self) {
  return "<HashedBlockPool free=" + std::to_string(NumFree(self)) + ">";
}

}  // namespace

void BindHashedBlockPool(py::module_& module) {
  py::class_<HashedBlockPool, std::shared_ptr<HashedBlockPool>>(
      module, "HashedBlockPool", kClassDoc)
      .def(py::init(&Make), py::arg("num_blocks"), kInitDoc)
      .def("allocate_array", &AllocateArray, py::arg("n"), kAllocateDoc)
      .def("allocate_removing", &AllocateRemoving, py::arg("n"),
           kAllocateRemovingDoc)
      .def("touch_array", &TouchArray, py::arg("ids"), kTouchArrayDoc)
      .def("free_array", &FreeArray, py::arg("ids"), py::kw_only(),
           py::arg("last") = false, kFreeArrayDoc)
      .def("insert", &Insert, py::arg("ids"), py::arg("keys"), kInsertDoc)
      .def("add_key", &AddKey, py::arg("block"), py::arg("key"), kAddKeyDoc)
      .def("find", &Find, py::arg("keys"), kFindDoc)
      .def("find_one", &FindOne, py::arg("key"), kFindOneDoc)
      .def("has", &Has, py::arg("block"), py::arg("key"), kHasDoc)
      .def("keys_of", &KeysOf, py::arg("block"), kKeysOfDoc)
      .def("remove_keys", &RemoveKeys, py::arg("ids"), kRemoveKeysDoc)
      .def("reset", &Reset, py::arg("max_used"), kResetDoc)
      .def("ref_count", &RefCount, py::arg("block"), kRefCountDoc)
      .def("free_blocks", &FreeBlocks, kFreeBlocksDoc)
      .def("free_neighbors", &FreeNeighbors, py::arg("block"),
           kFreeNeighborsDoc)
      .def_property_readonly("num_free", &NumFree, kNumFreeDoc)
      .def_property_readonly("num_blocks", &NumBlocks, kNumBlocksDoc)
      .def("stats", &Stats, kStatsDoc)
      .def("check", &Check, kCheckDoc)
      .def("__repr__", &Repr);
}

}  // namespace servecore::pybind
