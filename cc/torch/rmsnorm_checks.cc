// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/torch/rmsnorm_checks.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"

namespace servecore::torch_ops {
namespace {

using torch::stable::Tensor;

// Whether weight, known to have one dimension, is as long as x's last. Of
// symbolic sizes torch compares the shape of a sum that is never computed.
bool IsAsLong(const Tensor& weight, const Tensor& x, Sizes sizes) {
  if (sizes == Sizes::kReal) return weight.size(0) == x.size(-1);
  if (x.dim() == 1) return SameShape(x, weight, sizes);
  std::vector<std::int64_t> leading(x.dim() - 1);
  std::iota(leading.begin(), leading.end(), std::int64_t{0});
  return SameShape(torch::stable::sum(x, leading), weight, sizes);
}

}  // namespace

void CheckRmsNorm(const char* op, const char* x_name, const Tensor& x,
                  const Tensor& weight, double eps, Sizes sizes) {
  CheckDevices(op, {{x_name, x}, {"weight", weight}});
  const ops::DType dtype = CheckedDType(op, x_name, x);
  if (!SameDtype(weight, x) && (DTypeOf(weight) != ops::DType::kFloat32 ||
                                dtype == ops::DType::kFloat64)) {
    Fail(op, ": ", x_name, " has dtype ", DtypeName(x.scalar_type()),
         ", weight has dtype ", DtypeName(weight.scalar_type()),
         "; weight must have the same, or torch.float32 beside a narrower one, "
         "convert with .to()");
  }
  if (x.dim() == 0) {
    Fail(op, ": ", x_name,
         " has shape (); it must have at least 1 dimension, the last of which "
         "is normalised");
  }
  if (weight.dim() != 1 || !IsAsLong(weight, x, sizes)) {
    Fail(op, ": weight has shape ", ShapeName(weight), ", ", x_name,
         " has shape ", ShapeName(x), "; weight must have shape (", x.size(-1),
         ",), one element per column of ", x_name);
  }
  if (!std::isfinite(eps) || eps < 0.0) {
    Fail(op, ": eps is ", eps, "; it must be finite and not negative");
  }
}

void CheckFusedAddRmsNorm(const char* op, const Tensor& x,
                          const Tensor& residual, const Tensor& weight,
                          double eps, Sizes sizes) {
  CheckRmsNorm(op, "x", x, weight, eps, sizes);
  CheckDevices(op, {{"x", x}, {"residual", residual}});
  CheckLike(op, {"residual", residual}, {"x", x}, sizes);
}

}  // namespace servecore::torch_ops
