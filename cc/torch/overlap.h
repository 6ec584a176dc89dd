// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_TORCH_OVERLAP_H_
#define SERVECORE_CC_TORCH_OVERLAP_H_

#include <torch/csrc/stable/tensor.h>

#include <initializer_list>

#include "cc/torch/checks.h"

// Whether what an op writes shares memory with itself or with what it reads.
// Such calls would give results that depend on the order of threads, so they
// are refused. What cannot be proved apart is taken to overlap.
namespace servecore::torch_ops {

// Fails unless every element of `written` has memory of its own, apart from
// that of `others`. Two parts of the columns of one tensor lie apart.
void CheckWritable(const char* op, const Argument& written,
                   std::initializer_list<Argument> others);

// Whether both are the same memory in the same order.
bool IsSame(const torch::stable::Tensor& a, const torch::stable::Tensor& b);

}  // namespace servecore::torch_ops

#endif  // SERVECORE_CC_TORCH_OVERLAP_H_
