// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// A pybind11 caster for arguments that the bound function reads by itself.

#ifndef SERVECORE_CC_PYBIND_ANY_OBJECT_CASTER_H_
#define SERVECORE_CC_PYBIND_ANY_OBJECT_CASTER_H_

#include <pybind11/pybind11.h>

namespace servecore::pybind {

// The base of the casters of structs with a member `pybind11::handle value` and
// a constant kSignature, the type that signatures show. It accepts any object,
// so that the function can refuse it with a message that names the argument and
// says what is wrong with it; pybind11's own refusal does neither.
//
// Ownership, Lifetime: the handle is borrowed for the length of the call.
template <class T>
struct AnyObjectCaster {
  PYBIND11_TYPE_CASTER(T, T::kSignature);

  bool load(pybind11::handle source, bool /*convert*/) {
    value.value = source;
    return true;
  }
};

}  // namespace servecore::pybind

#endif  // SERVECORE_CC_PYBIND_ANY_OBJECT_CASTER_H_
