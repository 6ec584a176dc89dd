// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// What torch refuses to register becomes an error that can be read.
//
// A library's registrations run while it is loaded. There a refusal kills the
// process: it is thrown through the dynamic linker, or, when a namespace is
// defined twice, leaves a handle uninitialised. So `servecore.jit` links this
// file into every library that it builds, with --wrap for the functions below:
// the first refusal takes back all that the library has registered, whatever
// follows is ignored, and servecore_jit_refusal() tells of it once the library
// is loaded.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "torch/csrc/inductor/aoti_torch/c/shim.h"
#include "torch/csrc/stable/c/shim.h"

// The names that --wrap makes of the linker's are reserved in C++.
#define SERVECORE_REAL(function) \
  extern "C" decltype(function) real_##function __asm__("__real_" #function)
#define SERVECORE_WRAP(function) \
  extern "C" decltype(function) wrap_##function __asm__("__wrap_" #function)

SERVECORE_REAL(aoti_torch_delete_library_object);
SERVECORE_REAL(aoti_torch_library_def);
SERVECORE_REAL(aoti_torch_library_impl);
SERVECORE_REAL(aoti_torch_library_init_def);
SERVECORE_REAL(aoti_torch_library_init_fragment);
SERVECORE_REAL(aoti_torch_library_init_impl);
SERVECORE_REAL(torch_library_def_with_tags);
SERVECORE_REAL(torch_library_impl);
SERVECORE_REAL(torch_library_set_python_module);

SERVECORE_WRAP(aoti_torch_delete_library_object);
SERVECORE_WRAP(aoti_torch_library_def);
SERVECORE_WRAP(aoti_torch_library_impl);
SERVECORE_WRAP(aoti_torch_library_init_def);
SERVECORE_WRAP(aoti_torch_library_init_fragment);
SERVECORE_WRAP(aoti_torch_library_init_impl);
SERVECORE_WRAP(torch_library_def_with_tags);
SERVECORE_WRAP(torch_library_impl);
SERVECORE_WRAP(torch_library_set_python_module);

namespace {

// The registrations of this library, in the order in which they run.
struct Registrations {
  std::vector<TorchLibraryHandle> handles;
  std::string block;    // Where the block that runs now was written.
  std::string refusal;  // Empty while torch takes everything.

  // One for the whole library, made by the first registration that needs it.
  static Registrations& Get() {
    static Registrations registrations;
    return registrations;
  }

  AOTITorchError Check(AOTITorchError error, const std::string& what) {
    if (error == AOTI_TORCH_SUCCESS) {
      return error;
    }
    const char* why = torch_exception_get_what_without_backtrace();
    refusal = block + ": error: torch refuses " + what + ": " +
              (why + std::strspn(why, "\n"));
    while (!handles.empty()) {
      real_aoti_torch_delete_library_object(handles.back());
      handles.pop_back();
    }
    return AOTI_TORCH_SUCCESS;
  }

  template <class Init>
  AOTITorchError Begin(const std::string& what, const char* file, uint32_t line,
                       TorchLibraryHandle* handle, const Init& init) {
    *handle = nullptr;
    if (!refusal.empty()) {
      return AOTI_TORCH_SUCCESS;
    }
    block = std::string(file) + ":" + std::to_string(line);
    const AOTITorchError error = init();
    if (error == AOTI_TORCH_SUCCESS) {
      handles.push_back(*handle);
    }
    return Check(error, what);
  }

  template <class Register>
  AOTITorchError Add(const char* what, const Register& add) {
    return refusal.empty() ? Check(add(), what) : AOTI_TORCH_SUCCESS;
  }
};

}  // namespace

AOTITorchError wrap_aoti_torch_library_init_def(const char* ns,
                                                const char* file, uint32_t line,
                                                TorchLibraryHandle* handle) {
  return Registrations::Get().Begin(
      std::string("the namespace ") + ns, file, line, handle,
      [&] { return real_aoti_torch_library_init_def(ns, file, line, handle); });
}

AOTITorchError wrap_aoti_torch_library_init_fragment(
    const char* ns, const char* file, uint32_t line,
    TorchLibraryHandle* handle) {
  return Registrations::Get().Begin(
      std::string("the fragment of ") + ns, file, line, handle, [&] {
        return real_aoti_torch_library_init_fragment(ns, file, line, handle);
      });
}

AOTITorchError wrap_aoti_torch_library_init_impl(const char* ns, const char* k,
                                                 const char* file,
                                                 uint32_t line,
                                                 TorchLibraryHandle* handle) {
  return Registrations::Get().Begin(
      std::string("the kernels of ") + ns + " for " + k, file, line, handle,
      [&] {
        return real_aoti_torch_library_init_impl(ns, k, file, line, handle);
      });
}

AOTITorchError wrap_aoti_torch_library_def(TorchLibraryHandle self,
                                           const char* schema) {
  return Registrations::Get().Add(
      schema, [&] { return real_aoti_torch_library_def(self, schema); });
}

AOTITorchError wrap_torch_library_def_with_tags(TorchLibraryHandle self,
                                                const char* schema,
                                                const int32_t* tags,
                                                int32_t num_tags) {
  return Registrations::Get().Add(schema, [&] {
    return real_torch_library_def_with_tags(self, schema, tags, num_tags);
  });
}

AOTITorchError wrap_aoti_torch_library_impl(TorchLibraryHandle self,
                                            const char* name,
                                            void (*fn)(StableIValue*, uint64_t,
                                                       uint64_t)) {
  return Registrations::Get().Add(
      name, [&] { return real_aoti_torch_library_impl(self, name, fn); });
}

AOTITorchError wrap_torch_library_impl(
    TorchLibraryHandle self, const char* name,
    void (*fn)(StableIValue*, uint64_t, uint64_t), uint64_t build_version) {
  return Registrations::Get().Add(name, [&] {
    return real_torch_library_impl(self, name, fn, build_version);
  });
}

AOTITorchError wrap_torch_library_set_python_module(TorchLibraryHandle self,
                                                    const char* pymodule,
                                                    const char* context) {
  return Registrations::Get().Add(pymodule, [&] {
    return real_torch_library_set_python_module(self, pymodule, context);
  });
}

AOTITorchError wrap_aoti_torch_delete_library_object(
    TorchLibraryHandle handle) {
  // A refusal has deleted them all.
  return Registrations::Get().refusal.empty()
             ? real_aoti_torch_delete_library_object(handle)
             : AOTI_TORCH_SUCCESS;
}

// Why torch refused the library, in lines of which the first says where; null
// if it did not.
//
// Lifetime: the text lives as long as the library.
// Thread safety: safe to call from any thread.
extern "C" const char* servecore_jit_refusal() {
  const Registrations& registrations = Registrations::Get();
  return registrations.refusal.empty() ? nullptr
                                       : registrations.refusal.c_str();
}
