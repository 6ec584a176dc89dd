// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The schemas of every op in the library. Each op's kernels are registered by a
// file of its own beside this one; torch accepts them in any order.

#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(servecore, m) {
  m.def("rmsnorm(Tensor x, Tensor weight, float eps) -> Tensor");
  m.def("custom_add(Tensor a, Tensor b) -> Tensor");
}
