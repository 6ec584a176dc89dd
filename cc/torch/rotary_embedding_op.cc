// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// servecore::rotary_embedding_(q, k, positions, cos_sin_cache, head_dim, neox),
// in place, for CPU and Meta.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cc/ops/rotary_embedding.h"
#include "cc/ops/row_layout.h"
#include "cc/torch/checks.h"
#include "cc/torch/operands.h"
#include "cc/torch/overlap.h"

namespace servecore::torch_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr const char* kOp = "servecore::rotary_embedding_";

// q or k: positions' shape, then (heads * head_dim,) or (heads, head_dim). Of
// symbolic sizes the rank alone is looked at; the kernel sees to the rest.
void CheckHeads(const Argument& argument, const Tensor& positions,
                std::int64_t head_dim, Sizes sizes) {
  const Tensor& heads = argument.tensor;
  const std::int64_t extra = heads.dim() - positions.dim();
  bool fits = extra == 1 || extra == 2;
  if (fits && sizes == Sizes::kReal) {
    const std::int64_t last = heads.size(-1);
    fits = extra == 1 ? last % head_dim == 0 : last == head_dim;
    for (std::int64_t i = 0; i < positions.dim(); ++i) {
      fits &= heads.size(i) == positions.size(i);
    }
  }
  if (!fits) {
    Fail(kOp, ": ", argument.name, " has shape ", ShapeName(heads),
         ", positions has shape ", ShapeName(positions), " and head_dim is ",
         head_dim, "; ", argument.name,
         " must have the shape of positions and behind it heads * head_dim or "
         "(heads, head_dim)");
  }
}

void CheckAll(const Tensor& q, const std::optional<Tensor>& k,
              const Tensor& positions, const Tensor& cache,
              std::int64_t head_dim, Sizes sizes) {
  const ops::DType dtype = CheckedDType(kOp, "q", q);
  CheckDevices(kOp,
               {{"q", q}, {"positions", positions}, {"cos_sin_cache", cache}});
  if (positions.scalar_type() != ScalarType::Long) {
    Fail(kOp, ": positions has dtype ", DtypeName(positions.scalar_type()),
         "; it must be torch.int64, convert it with .long()");
  }
  if (!SameDtype(cache, q) && (DTypeOf(cache) != ops::DType::kFloat32 ||
                               dtype == ops::DType::kFloat64)) {
    Fail(kOp, ": q has dtype ", DtypeName(q.scalar_type()),
         ", cos_sin_cache has dtype ", DtypeName(cache.scalar_type()),
         "; it must have the same, or torch.float32 beside a narrower one, "
         "convert with .to()");
  }
  if (head_dim <= 0) {
    Fail(kOp, ": head_dim is ", head_dim, "; it must be 1 or more");
  }
  if (cache.dim() != 2 ||
      (sizes == Sizes::kReal &&
       (cache.size(1) % 2 != 0 || cache.size(1) > head_dim))) {
    Fail(kOp, ": cos_sin_cache has shape ", ShapeName(cache),
         "; it must have 2 dimensions, positions and an even number of "
         "elements that is at most head_dim, ",
         head_dim);
  }
  CheckHeads({"q", q}, positions, head_dim, sizes);
  if (!k.has_value()) return;
  CheckDevices(kOp, {{"q", q}, {"k", *k}});
  if (!SameDtype(*k, q)) {
    Fail(kOp, ": q has dtype ", DtypeName(q.scalar_type()), ", k has dtype ",
         DtypeName(k->scalar_type()),
         "; both must have one dtype, convert one with .to()");
  }
  CheckHeads({"k", *k}, positions, head_dim, sizes);
}

// One head a row.
ops::Heads HeadsOf(const Tensor& tensor, std::int64_t num_leading,
                   std::int64_t head_dim) {
  const auto begin = static_cast<std::size_t>(num_leading);
  std::vector<std::int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
  std::vector<std::int64_t> strides(tensor.strides().begin(),
                                    tensor.strides().end());
  if (sizes.size() == begin + 1) {
    const std::int64_t stride = strides.back();
    sizes.back() /= head_dim;
    strides.back() = head_dim * stride;
    sizes.push_back(head_dim);
    strides.push_back(stride);
  }
  return {.rows = {.data = tensor.mutable_data_ptr(),
                   .layout = ops::RowLayout(sizes, strides)},
          .heads = sizes[begin]};
}

// Ownership: q and k are written, the others only read.
// Copies: positions, if they are more than one dimension that does not lie in
// one piece; nothing else.
// GIL: neither needed nor taken.
// Thread safety: runs tokens on torch's intra-op pool; concurrent calls on
// other tensors are safe.
void RotaryEmbeddingCpu(const Tensor& q, const std::optional<Tensor>& k,
                        const Tensor& positions, const Tensor& cos_sin_cache,
                        std::int64_t head_dim, bool neox) {
  CheckAll(q, k, positions, cos_sin_cache, head_dim, Sizes::kReal);
  CheckWritable(kOp, {"q", q},
                {{"positions", positions}, {"cos_sin_cache", cos_sin_cache}});
  if (k.has_value()) {
    CheckWritable(
        kOp, {"k", *k},
        {{"q", q}, {"positions", positions}, {"cos_sin_cache", cos_sin_cache}});
  }
  const std::int64_t num_tokens = positions.numel();
  if (num_tokens == 0) return;
  const std::int64_t num_leading = positions.dim();
  const bool is_row = num_leading == 1;
  // Held by name: a temporary would free the memory that args points into.
  const Tensor row = is_row ? positions : torch::stable::contiguous(positions);
  const ops::Heads no_heads{.rows = {.data = nullptr, .layout = LayoutOf(q)},
                            .heads = 0};
  const ops::RotaryEmbeddingArgs args{
      .dtype = *DTypeOf(q),
      .q = HeadsOf(q, num_leading, head_dim),
      .k = k.has_value() ? HeadsOf(*k, num_leading, head_dim) : no_heads,
      .positions = row.const_data_ptr<std::int64_t>(),
      .num_tokens = num_tokens,
      .positions_stride = is_row ? positions.stride(0) : 1,
      .cache = ConstRowsOf(cos_sin_cache),
      .cache_dtype = *DTypeOf(cos_sin_cache),
      .neox = neox,
  };
  try {
    // Before any thread writes, so that a bad position changes nothing.
    ops::CheckRotaryEmbedding(args);
  } catch (const std::out_of_range& error) {
    Fail(kOp, ": ", error.what());
  }
  ForRanges(num_tokens, (args.q.heads + args.k.heads) * head_dim,
            [&args](std::int64_t begin, std::int64_t end) {
              ops::RotaryEmbedding(args, begin, end);
            });
}

void RotaryEmbeddingMeta(const Tensor& q, const std::optional<Tensor>& k,
                         const Tensor& positions, const Tensor& cos_sin_cache,
                         std::int64_t head_dim, bool /*neox*/) {
  CheckAll(q, k, positions, cos_sin_cache, head_dim, Sizes::kSymbolic);
}

void RotaryEmbeddingUnavailable(const Tensor& q,
                                const std::optional<Tensor>& /*k*/,
                                const Tensor& positions,
                                const Tensor& cos_sin_cache,
                                std::int64_t /*head_dim*/, bool /*neox*/) {
  FailWithoutKernel(
      kOp,
      {{"q", q}, {"positions", positions}, {"cos_sin_cache", cos_sin_cache}});
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CPU, m) {
  m.impl("rotary_embedding_", TORCH_BOX(&RotaryEmbeddingCpu));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, Meta, m) {
  m.impl("rotary_embedding_", TORCH_BOX(&RotaryEmbeddingMeta));
}

STABLE_TORCH_LIBRARY_IMPL(servecore, CompositeExplicitAutograd, m) {
  m.impl("rotary_embedding_", TORCH_BOX(&RotaryEmbeddingUnavailable));
}

}  // namespace
}  // namespace servecore::torch_ops
