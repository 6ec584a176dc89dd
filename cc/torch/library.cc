// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The schemas of every op in the library. Each op's kernels are registered by a
// file of its own beside this one; torch accepts them in any order.

#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(servecore, m) {
  m.def(
      "rmsnorm(Tensor x, Tensor weight, float eps, "
      "bool cast_before_weight=False) -> Tensor");
  m.def(
      "rmsnorm_out(Tensor x, Tensor weight, float eps, "
      "bool cast_before_weight=False, *, Tensor(a!) out) -> ()");
  m.def(
      "rmsnorm_backward(Tensor grad_out, Tensor x, Tensor weight, float eps) "
      "-> (Tensor, Tensor)");
  m.def(
      "fused_add_rmsnorm_(Tensor(a!) x, Tensor(b!) residual, Tensor weight, "
      "float eps, bool cast_before_weight=False) -> ()");
  m.def("silu_and_mul(Tensor x) -> Tensor");
  m.def("silu_and_mul_out(Tensor x, *, Tensor(a!) out) -> ()");
  m.def("silu_and_mul_backward(Tensor grad_out, Tensor x) -> Tensor");
  m.def(
      "rotary_embedding_(Tensor(a!) q, Tensor(b!)? k, Tensor positions, "
      "Tensor cos_sin_cache, int head_dim, bool neox) -> ()");
  m.def("custom_add(Tensor a, Tensor b) -> Tensor");
  m.def("custom_add_out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()");
}
