// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/token_buffer_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "cc/base/strided_span.h"
#include "cc/kv/token_buffer.h"
#include "cc/pybind/array_args.h"
#include "cc/pybind/array_results.h"
#include "cc/pybind/constructed.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

using kv::TokenBuffer;
using BufferSelf = Constructed<TokenBuffer>;

constexpr const char* kClassDoc =
    R"(The tokens of one request, which only grow.

It is given to ``match``, ``insert``, ``common_prefix`` and ``count_eos`` in the
place of an array. They read the tokens that are there when the call begins, so
a request that grows by a token is not converted or copied as a whole again::

    tokens = TokenBuffer(prompt)
    ...
    tokens.append(token)
    cache.insert(tokens, blocks)

Ownership: it owns its memory, together with the arrays of ``to_numpy``.
Lifetime: a call that reads it, and an array of it, keep the memory alive.
Copies: what is appended, once.
GIL: ``append`` and the constructor copy without it; the others keep it, and
  give it up only while they wait for another thread.
Thread safety: every method may be called from any thread, also while another
  one reads the buffer.
)";

constexpr const char* kInitDoc = R"(Makes a buffer.

Args:
  tokens: the first tokens.

Raises:
  TypeError: tokens is no sequence or array of integers.
  ValueError: an array has not one dimension, or an int is beyond int64.

Copies: the tokens.
GIL: released while copying.
)";

constexpr const char* kAppendDoc = R"(Adds tokens at the end.

Args:
  tokens: one token, or a sequence or array of them.

Raises:
  TypeError: tokens is no integer and no sequence or array of integers.
  ValueError: an array has not one dimension, or an int is beyond int64.

Copies: the tokens.
GIL: released while copying.
Thread safety: safe. O(tokens given), amortised.
)";

constexpr const char* kToNumpyDoc = R"(The tokens as they are now.

Returns:
  A read-only array: int32, or int64 if some token needs it.

Ownership: the array shares the memory.
Lifetime: it outlives the buffer; what is appended later is not in it.
Copies: nothing.
GIL: held, except while it waits for another thread.
Thread safety: safe. O(1).
)";

void AppendAny(TokenBuffer& buffer, py::handle tokens) {
  if (PyIndex_Check(tokens.ptr()) != 0 && !py::isinstance<py::array>(tokens) &&
      !py::isinstance<TokenBuffer>(tokens) && !py::hasattr(tokens, "__len__")) {
    const std::int64_t token =
        ReadInt(tokens, "tokens", OutOfRange::kValueError);
    const GilReleasedOnWait no_wait;
    buffer.Append(StridedSpan<std::int64_t>(&token, 1));
    return;
  }
  const IntArrayArg arg(IntArrayOrListHandle{tokens}, "tokens");
  const GilReleased released;
  buffer.Append(arg.span());
}

std::shared_ptr<TokenBuffer> Make(IntArrayOrListHandle tokens) {
  const IntArrayArg arg(tokens, "tokens");
  const GilReleased released;
  auto buffer = std::make_shared<TokenBuffer>();
  buffer->Append(arg.span());
  return buffer;
}

void Append(BufferSelf self, IntOrIntsHandle tokens) {
  AppendAny(*self, tokens.value);
}

std::int64_t Length(BufferSelf self) {
  const GilReleasedOnWait no_wait;
  return self->size();
}

py::array ToNumpy(BufferSelf self) {
  TokenBuffer::Snapshot snapshot;
  {
    const GilReleasedOnWait no_wait;
    snapshot = self->TakeSnapshot();
  }
  return std::visit(
      [&snapshot]<class Token>(const StridedSpan<Token>& span) -> py::array {
        return ToReadOnlyArray(span.data, span.size, std::move(snapshot.owner));
      },
      snapshot.span);
}

std::string Repr(BufferSelf self) {
  return "<TokenBuffer tokens=" + std::to_string(Length(self)) + ">";
}

}  // namespace

void BindTokenBuffer(py::module_& module) {
  py::class_<TokenBuffer, std::shared_ptr<TokenBuffer>>(module, "TokenBuffer",
                                                        kClassDoc)
      .def(py::init(&Make), py::arg("tokens") = py::tuple(), kInitDoc)
      .def("append", &Append, py::arg("tokens"), kAppendDoc)
      // Keep alive, ownership: the memory by the array, through a capsule.
      .def("to_numpy", &ToNumpy, kToNumpyDoc)
      .def("__len__", &Length)
      .def("__repr__", &Repr);
}

}  // namespace servecore::pybind
