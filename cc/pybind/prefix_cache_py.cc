// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/prefix_cache_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/kv/block_pool.h"
#include "cc/kv/event_log.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/prefix_cache.h"
#include "cc/kv/prefix_match.h"
#include "cc/pybind/array_args.h"
#include "cc/pybind/array_results.h"
#include "cc/pybind/cache_events_py.h"
#include "cc/pybind/constructed.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/prefix_match_py.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

using kv::InsertResult;
using kv::PrefixCache;
using CacheSelf = Constructed<PrefixCache>;
using ResultSelf = Constructed<InsertResult>;
using IdArray = py::array_t<std::int32_t>;

constexpr const char* kCacheDoc =
    R"(Which block of a pool holds the keys and values of which token prefix.

Tokens count in whole blocks of ``block_size``; what is left over at the end of a
sequence is never cached. Tokens are compared, so no hash collision can give a
wrong block. Equal tokens under two namespaces are strangers.

When room is needed, blocks that nothing continues go first, in the order of the
policy, and never one to which somebody else has a reference.

Ownership: the cache holds a reference of its own on each block it keeps.
Lifetime: the cache keeps its pool alive; a match outlives its cache if need be.
Copies: tokens are copied into the cache on ``insert``; ``match`` copies none.
GIL: released by every call whose work grows with its input or the cache.
Thread safety: every method may be called from any thread.
)";

constexpr const char* kCacheInitDoc = R"(Makes an empty cache on a pool.

Args:
  pool: where the blocks come from.
  block_size: tokens a block, 1 .. 2**31 - 1.
  eviction: which block goes first when room is needed. "lru": the least
    recently used. "lfu": the one that the fewest lookups found. "slru": one that
    no lookup found yet before one that was. "fifo": the one inserted first.
    "priority": the one of the lowest priority. Among equals under "lfu",
    "slru" and "priority": the least recently used.
  max_events: how many events may wait for ``events``; 0 or more.

Raises:
  ValueError: block_size or max_events is out of range, or there is no such
    policy.

Lifetime: the cache keeps the pool alive.
GIL: held.
)";

constexpr const char* kMatchDoc =
    R"(Finds the longest cached prefix, in whole blocks.

Args:
  tokens: the tokens of a request.
  namespace: the adapter or tenant under which they were inserted.

Returns:
  What was found, maybe nothing, its blocks protected from eviction.

Raises:
  TypeError: tokens is no array of integers.
  ValueError: tokens has not one dimension.

Ownership: the match holds a reference on each block until it is released,
  closed as a context manager, or collected.
Lifetime: tokens is kept alive during the call.
Copies: nothing.
GIL: released.
Thread safety: safe while nobody writes to tokens. O(len(tokens)).
)";

constexpr const char* kMatchManyDoc =
    R"(``match`` for many requests at once.

Args:
  tokens: the tokens of all requests.
  offsets: where each begins: request i has tokens[offsets[i]:offsets[i + 1]].
  namespace: one for all requests, or a sequence of one for each.

Returns:
  A match for each request.

Raises:
  TypeError: tokens or offsets is no array of integers.
  ValueError: an array has not one dimension, offsets is empty, falls or leaves
    tokens, or the number of namespaces is another one.

Ownership, Lifetime, Copies: as ``match``.
GIL: released.
Thread safety: safe while nobody writes to the arrays. O(len(tokens)).
)";

constexpr const char* kInsertDoc =
    R"(Caches block_ids[i] under the i-th whole block of tokens.

Where the cache holds another block already, it keeps that one and reports the
caller's as a duplicate. Ids beyond the last whole block are not read.

Args:
  tokens: the tokens whose keys and values the blocks hold, from the first.
  block_ids: at least len(tokens) // block_size blocks that are in use.
  namespace: the adapter or tenant; only the same one finds them again.
  priority: for the policy "priority", which evicts the lowest first; int32. A
    block has the highest of the priorities that it was inserted with.

Returns:
  How many tokens are new to the cache, and the caller's duplicates.

Raises:
  IndexError: an id is no block of the pool.
  RuntimeError: a block is free in the pool, or an array was written to during
    the call.
  TypeError: tokens is no array of integers.
  ValueError: there are fewer ids than whole blocks, a block is named twice or
    cached at another place already, priority is beyond int32, or an array has
    not one dimension.

Ownership: the cache takes a reference of its own on each block it keeps; the
  caller's references stay the caller's.
Lifetime: arrays are kept alive during the call.
Copies: the new tokens, into the cache.
GIL: released.
Thread safety: safe while nobody writes to the arrays. O(len(tokens)).
)";

constexpr const char* kCacheAllocateDoc =
    R"(Takes n blocks of the pool, after evicting as many as it lacks.

Args:
  n: how many, 0 or more.

Returns:
  Their ids, or None, and then nothing is evicted, when even that is too few.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: the caller owes each block one ``release`` of the pool.
Copies: the ids, into a list.
GIL: released while the blocks are taken.
Thread safety: safe. O(n), and O(1) for each held block passed over.
)";

constexpr const char* kCacheAllocateArrayDoc =
    R"(As ``allocate``, giving a numpy int32 array.

Args:
  n: how many, 0 or more.

Returns:
  Their ids, shape (n,), or None, and then nothing is evicted, when even that is
  too few.

Raises:
  ValueError: n is negative, or more than any pool can have.

Ownership: the caller owes each block one ``release`` of the pool; the array
  owns its memory.
Copies: nothing.
GIL: released.
Thread safety: safe. O(n).
)";

constexpr const char* kEventsDoc =
    R"(Gives what happened to blocks since the last call, in order.

Blocks are stored by ``insert`` and removed by ``allocate``, ``evict`` and
``reset``. At most max_events wait for this call; when there would be more, all
that wait are dropped and counted.

Returns:
  The events, as arrays.

Ownership: the arrays own their memory.
Copies: nothing.
GIL: released.
Thread safety: safe; each event is given once. O(1).
)";

constexpr const char* kEvictDoc = R"(Evicts up to n blocks.

Args:
  n: how many, 0 or more.

Returns:
  How many were evicted; each is free in the pool then.

Raises:
  ValueError: n is negative.

GIL: released.
Thread safety: safe. O(n), and O(1) for each held block passed over.
)";

constexpr const char* kResetDoc = R"(Forgets every block, held or not.

Blocks that nobody else holds are free in the pool then; matches keep theirs.

GIL: released.
Thread safety: safe. O(cached blocks).
)";

constexpr const char* kCacheStatsDoc = R"(A snapshot of the cache in numbers.

Returns:
  ``num_cached_blocks``, ``num_nodes`` (runs of blocks without a branch) and
  ``num_namespaces``, which are levels, and ``queries``, ``query_tokens``,
  ``hit_tokens`` (of ``match`` and ``match_many``), ``inserted_blocks``,
  ``duplicate_blocks``, ``evicted_blocks`` and ``dropped_blocks`` (by
  ``reset``), which only grow.

GIL: held, except while it waits for another thread.
Thread safety: safe; all numbers are of one moment. O(1).
)";

constexpr const char* kCacheCheckDoc = R"(Verifies every invariant of the cache.

Raises:
  RuntimeError: one is broken; the message names it.

GIL: released.
Thread safety: safe. O(cached tokens).
)";

constexpr const char* kInsertResultDoc =
    R"(What an insert did.

Ownership: plain values; it holds no reference on any block.
Thread safety: it never changes.
)";

constexpr const char* kNumNewTokensDoc =
    "Tokens that the cache did not hold before: block_size for each block "
    "kept.";

constexpr const char* kDuplicatesDoc =
    R"(The caller's blocks whose place another block held, in the order given.

A numpy int32 array, for ``BlockPool.release_array``: the cache keeps no
reference on them, and their content is in the cache already.

Ownership: each array owns its memory.
Copies: the ids, at each access.
)";

std::shared_ptr<PrefixCache> Make(Constructed<kv::BlockPool> pool,
                                  IntHandle block_size, const py::str& eviction,
                                  IntHandle max_events) {
  return std::make_shared<PrefixCache>(
      pool.Share(),
      kv::PrefixCacheOptions{
          .block_size = ReadCount(block_size, "block_size"),
          .policy = kv::EvictionPolicyFromName(std::string(eviction)),
          .max_events = ReadCount(max_events, "max_events")});
}

std::unique_ptr<SharedMatch> Match(CacheSelf self, IntArrayHandle tokens,
                                   const py::str& name_space) {
  const IntArrayArg tokens_arg(tokens, "tokens");
  const std::string name = name_space;
  const GilReleased released;
  return std::make_unique<SharedMatch>(self->Match(tokens_arg.span(), name));
}

std::vector<std::string> ReadNamespaces(py::handle namespaces) {
  if (py::isinstance<py::str>(namespaces)) {
    return {namespaces.cast<std::string>()};
  }
  if (PySequence_Check(namespaces.ptr()) == 0) {
    throw py::type_error(
        "namespace: expected a str or a sequence of str, got " +
        Describe(namespaces));
  }
  std::vector<std::string> names;
  for (const py::handle name : namespaces) {
    if (!py::isinstance<py::str>(name)) {
      throw py::type_error("namespace[" + std::to_string(names.size()) +
                           "]: expected a str, got " + Describe(name));
    }
    names.push_back(name.cast<std::string>());
  }
  return names;
}

std::vector<std::unique_ptr<SharedMatch>> MatchMany(
    CacheSelf self, IntArrayHandle tokens, IntArrayOrListHandle offsets,
    NamespacesHandle namespaces) {
  const IntArrayArg tokens_arg(tokens, "tokens");
  const IntArrayArg offsets_arg(offsets, "offsets");
  const std::vector<std::string> names = ReadNamespaces(namespaces.value);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const GilReleased released;
  std::vector<std::unique_ptr<SharedMatch>> matches;
  for (kv::PrefixMatch& match :
       self->MatchMany(tokens_arg.span(), offsets_arg.span(), views)) {
    matches.push_back(std::make_unique<SharedMatch>(std::move(match)));
  }
  return matches;
}

InsertResult Insert(CacheSelf self, IntArrayHandle tokens,
                    IntArrayOrListHandle block_ids, const py::str& name_space,
                    IntHandle priority) {
  const IntArrayArg tokens_arg(tokens, "tokens");
  const IntArrayArg ids_arg(block_ids, "block_ids", OutOfRange::kIndexError);
  const std::string name = name_space;
  const std::int64_t rank = ReadCount(priority, "priority");
  const GilReleased released;
  return self->Insert(tokens_arg.span(), ids_arg.span(), name, rank);
}

std::optional<std::vector<std::int32_t>> Allocate(CacheSelf self, IntHandle n) {
  const std::int64_t count = ReadCount(n, "n");
  const GilReleased released;
  return self->Allocate(count);
}

std::optional<IdArray> AllocateArray(CacheSelf self, IntHandle n) {
  std::optional<std::vector<std::int32_t>> ids = Allocate(self, n);
  if (!ids) return std::nullopt;
  return ToArray(*std::move(ids));
}

EventArrays Events(CacheSelf self) {
  kv::CacheEvents events;
  {
    const GilReleased released;
    events = self->Events();
  }
  return ToEventArrays(std::move(events));
}

std::int64_t Evict(CacheSelf self, IntHandle n) {
  const std::int64_t count = ReadCount(n, "n");
  const GilReleased released;
  return self->Evict(count);
}

void Reset(CacheSelf self) {
  const GilReleased released;
  self->Reset();
}

void Check(CacheSelf self) {
  const GilReleased released;
  self->Check();
}

kv::PrefixCacheStats ReadStats(CacheSelf self) {
  const GilReleasedOnWait no_wait;
  return self->stats();
}

py::typing::Dict<py::str, py::int_> Stats(CacheSelf self) {
  const kv::PrefixCacheStats stats = ReadStats(self);
  py::typing::Dict<py::str, py::int_> result;
  result["num_cached_blocks"] = stats.num_cached_blocks;
  result["num_nodes"] = stats.num_nodes;
  result["num_namespaces"] = stats.num_namespaces;
  result["queries"] = stats.queries;
  result["query_tokens"] = stats.query_tokens;
  result["hit_tokens"] = stats.hit_tokens;
  result["inserted_blocks"] = stats.inserted_blocks;
  result["duplicate_blocks"] = stats.duplicate_blocks;
  result["evicted_blocks"] = stats.evicted_blocks;
  result["dropped_blocks"] = stats.dropped_blocks;
  return result;
}

std::string CacheRepr(CacheSelf self) {
  return "<PrefixCache blocks=" +
         std::to_string(ReadStats(self).num_cached_blocks) +
         " block_size=" + std::to_string(self->block_size()) + ">";
}

std::string ResultRepr(ResultSelf self) {
  return "<InsertResult new_tokens=" + std::to_string(self->num_new_tokens) +
         " duplicates=" + std::to_string(self->duplicates.size()) + ">";
}

void BindResult(py::module_& module) {
  py::class_<InsertResult>(module, "InsertResult", kInsertResultDoc)
      .def_property_readonly(
          "num_new_tokens",
          [](ResultSelf self) { return self->num_new_tokens; },
          kNumNewTokensDoc)
      .def_property_readonly(
          "duplicates",
          [](ResultSelf self) { return ToArray(self->duplicates); },
          kDuplicatesDoc)
      .def("__repr__", &ResultRepr);
}

void BindCache(py::module_& module) {
  py::class_<PrefixCache, std::shared_ptr<PrefixCache>>(
      module, "PrefixCache", kCacheDoc,
      // The destructor gives back every block, under the pool's lock.
      py::release_gil_before_calling_cpp_dtor())
      // Keep alive, ownership: `pool` by `self`, through a std::shared_ptr.
      .def(py::init(&Make), py::arg("pool"), py::arg("block_size"),
           py::kw_only(), py::arg("eviction") = "lru",
           py::arg("max_events") = kv::PrefixCacheOptions{}.max_events,
           kCacheInitDoc)
      // Keep alive, ownership: the pool by the result, through a
      // std::shared_ptr. `self` is not: a match may outlive its cache.
      .def("match", &Match, py::arg("tokens"), py::kw_only(),
           py::arg("namespace") = "", kMatchDoc)
      .def("match_many", &MatchMany, py::arg("tokens"), py::arg("offsets"),
           py::kw_only(), py::arg("namespace") = "", kMatchManyDoc)
      .def("insert", &Insert, py::arg("tokens"), py::arg("block_ids"),
           py::kw_only(), py::arg("namespace") = "", py::arg("priority") = 0,
           kInsertDoc)
      .def("allocate", &Allocate, py::arg("n"), kCacheAllocateDoc)
      .def("allocate_array", &AllocateArray, py::arg("n"),
           kCacheAllocateArrayDoc)
      .def("events", &Events, kEventsDoc)
      .def_property_readonly(
          "pool", [](CacheSelf self) { return self->pool(); },
          "The pool of its blocks.")
      .def_property_readonly(
          "block_size", [](CacheSelf self) { return self->block_size(); },
          "Tokens a block.")
      .def_property_readonly(
          "eviction",
          [](CacheSelf self) {
            return std::string(kv::EvictionPolicyName(self->policy()));
          },
          "The policy of eviction.")
      .def("evict", &Evict, py::arg("n"), kEvictDoc)
      .def("reset", &Reset, kResetDoc)
      .def("stats", &Stats, kCacheStatsDoc)
      .def("check", &Check, kCacheCheckDoc)
      .def("__repr__", &CacheRepr);
}

}  // namespace

void BindPrefixCache(py::module_& module) {
  // What is returned comes first, so that signatures know its name.
  BindPrefixMatch(module);
  BindResult(module);
  BindCacheEvents(module);
  BindCache(module);
}

}  // namespace servecore::pybind
