// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// An argument that is an object of a bound class, checked to be constructed.

#ifndef SERVECORE_CC_PYBIND_CONSTRUCTED_H_
#define SERVECORE_CC_PYBIND_CONSTRUCTED_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <string>

namespace servecore::pybind {

// A parameter of bound functions, in the place of `T&`: `self` of every method.
//
// `T.__new__(T)`, and a subclass that uses `self` before it calls
// `super().__init__()`, have a Python object without a C++ one inside. pybind11
// would hand out uninitialized memory for it; this is a TypeError instead.
//
// Ownership, Lifetime: borrowed for the length of the call.
template <class T>
class Constructed {
 public:
  Constructed(T* object, pybind11::handle python_object)
      : object_(object), python_object_(python_object) {}

  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }

  // A share in the object, for classes that std::shared_ptr holds. GIL: held.
  std::shared_ptr<T> Share() const {
    return python_object_.template cast<std::shared_ptr<T>>();
  }

 private:
  T* object_;
  pybind11::handle python_object_;
};

}  // namespace servecore::pybind

namespace pybind11::detail {

// Casts as pybind11 does, after a shortcut for objects of exactly the bound
// class: pybind11 looks the class up in a hash table at every call, which takes
// as long as everything else in an empty call.
template <class T>
class type_caster<servecore::pybind::Constructed<T>> {
 public:
  // pybind11 asks for it by this name.
  // NOLINTNEXTLINE(readability-identifier-naming)
  static constexpr auto name = make_caster<T>::name;
  template <class>
  using cast_op_type = servecore::pybind::Constructed<T>;

  bool load(handle source, bool convert) {
    python_object_ = source;
    const auto* const object = reinterpret_cast<instance*>(source.ptr());
    if (Py_TYPE(source.ptr()) == BoundClass().load(std::memory_order_relaxed) &&
        object->simple_layout && object->simple_holder_constructed) {
      object_ = static_cast<T*>(object->simple_value_holder[0]);
      return true;
    }
    return LoadAnyClass(source, convert);
  }

  explicit operator servecore::pybind::Constructed<T>() {
    return servecore::pybind::Constructed<T>(object_, python_object_);
  }

 private:
  // Null until an object of the bound class has been seen. Borrowed: pybind11
  // keeps its classes for as long as the process lives.
  static std::atomic<PyTypeObject*>& BoundClass() {
    static std::atomic<PyTypeObject*> bound_class = nullptr;
    return bound_class;
  }

  bool LoadAnyClass(handle source, bool convert) {
    make_caster<T> caster;
    if (source.is_none() || !caster.load(source, convert)) return false;
    if (!is_holder_constructed(source.ptr())) {
      throw type_error(std::string(Py_TYPE(source.ptr())->tp_name) +
                       ".__init__() has not been called for this object");
    }
    object_ = cast_op<T*>(caster);
    if (type::handle_of(source).ptr() == type::of<T>().ptr()) {
      BoundClass().store(Py_TYPE(source.ptr()), std::memory_order_relaxed);
    }
    return true;
  }

  T* object_ = nullptr;
  handle python_object_;
};

}  // namespace pybind11::detail

#endif  // SERVECORE_CC_PYBIND_CONSTRUCTED_H_
