// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/cache_events_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "cc/pybind/array_results.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

constexpr const char* kEventsClassDoc =
    R"(Blocks stored in a cache and removed from it, in order.

Three arrays of one length, and how many events were lost before them.

Ownership: plain values; they hold no reference on any block.
Thread safety: it never changes.
)";

}  // namespace

EventArrays ToEventArrays(kv::CacheEvents events) {
  // numpy's bool is a byte of 0 or 1.
  return {
      .is_stored = ToArray(std::move(events.is_stored)).attr("view")("bool"),
      .block_ids = ToArray(std::move(events.block_ids)),
      .parent_ids = ToArray(std::move(events.parent_ids)),
      .num_lost = events.num_lost};
}

void BindCacheEvents(py::module_& module) {
  py::class_<EventArrays>(module, "CacheEvents", kEventsClassDoc)
      .def_property_readonly(
          "is_stored", [](const EventArrays& self) { return self.is_stored; },
          "bool: whether the block was stored; else it was removed.")
      .def_property_readonly(
          "block_ids", [](const EventArrays& self) { return self.block_ids; },
          "int32: the block.")
      .def_property_readonly(
          "parent_ids", [](const EventArrays& self) { return self.parent_ids; },
          "int32: the block that a stored block continues; -1 for the first of "
          "a namespace and for every removed block.")
      .def_property_readonly(
          "num_lost", [](const EventArrays& self) { return self.num_lost; },
          "Events that were dropped before these, since nobody fetched them.")
      .def("__len__",
           [](const EventArrays& self) { return self.block_ids.size(); })
      .def("__repr__", [](const EventArrays& self) {
        return "<CacheEvents events=" + std::to_string(self.block_ids.size()) +
               " lost=" + std::to_string(self.num_lost) + ">";
      });
}

}  // namespace servecore::pybind
