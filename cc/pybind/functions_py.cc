// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/pybind/functions_py.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cc/base/strided_span.h"
#include "cc/kv/token_ops.h"
#include "cc/ops/vector_add.h"
#include "cc/pybind/array_args.h"
#include "cc/pybind/array_results.h"
#include "cc/pybind/gil.h"
#include "cc/pybind/scalar_args.h"

namespace py = pybind11;

namespace servecore::pybind {
namespace {

constexpr const char* kCommonPrefixDoc =
    R"(How many tokens two sequences have in common at their beginnings.

Args:
  a: tokens.
  b: tokens; the two need not be of one dtype or of one kind.

Returns:
  The length of the longest common prefix.

Raises:
  TypeError: an argument is no sequence or array of integers.
  ValueError: an array has not one dimension, or an int is beyond int64.

Lifetime: arrays are kept alive during the call.
Copies: nothing of an array; other sequences are converted.
GIL: released while comparing.
Thread safety: safe while nobody writes to the arrays.
)";

constexpr const char* kCountEosDoc = R"(How often a token occurs.

Args:
  tokens: tokens.
  eos: the token to count.

Returns:
  The number of its occurrences.

Raises:
  TypeError: tokens is no sequence or array of integers, or eos no int.
  ValueError: an array has not one dimension, or an int is beyond int64.

Lifetime: an array is kept alive during the call.
Copies: nothing of an array; other sequences are converted.
GIL: released while counting.
Thread safety: safe while nobody writes to the array.
)";

constexpr const char* kVectorAddDoc = R"(Adds two vectors element by element.

Args:
  a: floats: an array, or a sequence that is added in float64.
  b: as many, of the same kind and dtype.

Returns:
  For arrays a numpy array of their dtype, for other sequences a list.

Raises:
  TypeError: one is an array and the other not, their dtypes differ, or they
    hold no floats. A sequence may hold ints too.
  ValueError: the lengths differ, an array has not one dimension, or no float64
    equals an int.

Ownership: the result owns its memory.
Lifetime: arrays are kept alive during the call.
Copies: nothing of an array; other sequences are converted.
GIL: released while adding.
Thread safety: safe while nobody writes to the arrays.
)";

std::int64_t CommonPrefix(IntArrayOrListHandle a, IntArrayOrListHandle b) {
  const IntArrayArg a_arg(a, "a");
  const IntArrayArg b_arg(b, "b");
  const GilReleased released;
  return kv::CommonPrefix(a_arg.span(), b_arg.span());
}

std::int64_t CountEos(IntArrayOrListHandle tokens, IntHandle eos) {
  const IntArrayArg arg(tokens, "tokens");
  const std::int64_t token = ReadCount(eos, "eos");
  const GilReleased released;
  return kv::CountEos(arg.span(), token);
}

template <class T>
std::vector<T> Add(const StridedSpan<T>& a, const StridedSpan<T>& b) {
  const GilReleased released;
  std::vector<T> sum(static_cast<std::size_t>(a.size));
  ops::VectorAdd(a, b, sum.data());
  return sum;
}

const char* KindOf(const FloatArrayArg& arg) {
  if (arg.is_list()) return "a sequence";
  return std::holds_alternative<StridedSpan<float>>(arg.span())
             ? "a float32 array"
             : "a float64 array";
}

using VectorAddResult =
    std::variant<std::vector<double>, py::array_t<float>, py::array_t<double>>;

VectorAddResult VectorAdd(FloatArrayOrListHandle a, FloatArrayOrListHandle b) {
  const FloatArrayArg a_arg(a, "a");
  const FloatArrayArg b_arg(b, "b");
  if (a_arg.is_list() != b_arg.is_list() ||
      a_arg.span().index() != b_arg.span().index()) {
    throw py::type_error(std::string("a is ") + KindOf(a_arg) + " and b is " +
                         KindOf(b_arg) +
                         "; give two sequences or two arrays of one dtype");
  }
  return std::visit(
      [&]<class T>(const StridedSpan<T>& a_span) -> VectorAddResult {
        const auto& b_span = std::get<StridedSpan<T>>(b_arg.span());
        std::vector<T> sum = Add(a_span, b_span);
        if constexpr (std::is_same_v<T, double>) {
          if (a_arg.is_list()) return sum;
        }
        return ToArray(std::move(sum));
      },
      a_arg.span());
}

}  // namespace

void BindFunctions(py::module_& module) {
  module.def("common_prefix", &CommonPrefix, py::arg("a"), py::arg("b"),
             kCommonPrefixDoc);
  module.def("count_eos", &CountEos, py::arg("tokens"), py::arg("eos"),
             kCountEosDoc);
  module.def("vector_add", &VectorAdd, py::arg("a"), py::arg("b"),
             kVectorAddDoc);
}

}  // namespace servecore::pybind
