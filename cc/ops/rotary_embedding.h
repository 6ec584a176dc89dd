// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_ROTARY_EMBEDDING_H_
#define SERVECORE_CC_OPS_ROTARY_EMBEDDING_H_

#include <cstdint>

#include "cc/ops/dtype.h"
#include "cc/ops/operands.h"

namespace servecore::ops {

// The heads of all tokens, one head a row: token t's heads are the rows
// [t * heads, (t + 1) * heads). A tensor of shape (…, heads * head_dim) becomes
// such rows by splitting its last dimension, of stride s, into sizes (heads,
// head_dim) and strides (head_dim * s, s).
struct Heads {
  Rows rows;
  std::int64_t heads;
};

// The operands of a rotary embedding of queries and keys, in place. Each head's
// first rot_dim elements are pairs (a, b), the i-th of them
//
//   neox:        (head[i], head[i + rot_dim / 2])
//   interleaved: (head[2 * i], head[2 * i + 1])
//
// and become (a * cos - b * sin, b * cos + a * sin), where cos is
// cache[position][i] and sin is cache[position][i + rot_dim / 2]. Elements from
// rot_dim on stay as they are (partial rotary).
//
// Ownership: borrows all arrays.
// Lifetime: they must live until RotaryEmbedding returns.
struct RotaryEmbeddingArgs {
  DType dtype;  // of q and k
  Heads q;
  // rows.data may be null: then there is no k, and the rest of it is not read.
  Heads k;
  // One position a token.
  const std::int64_t* positions;
  std::int64_t num_tokens;
  std::int64_t positions_stride = 1;
  // cos_sin_cache: rows of rot_dim = layout.dim() elements, one a position; of
  // q's dtype or float32 (float64 for float64).
  ConstRows cache;
  DType cache_dtype;
  bool neox = true;
};

// Rotates the heads of the tokens [token_begin, token_end).
//
// Numerics: float32 throughout, float64 for float64, and one rounding to the
// dtype at the end. A product and a difference of products: where these cancel,
// the error is relative to the larger product.
// Neither q nor k may overlap anything. No tokens, no heads and heads of no
// elements are valid and touch nothing.
//
// Copies: as RmsNorm.
// Thread safety: concurrent calls may share everything but tokens.
// Complexity: O((token_end - token_begin) * (q.heads + k.heads) * rot_dim).
// Throws std::invalid_argument when q or k has not num_tokens * heads rows,
// when rot_dim is odd or longer than a head, when the cache has a wrong dtype,
// or when the range is not within [0, num_tokens]; std::out_of_range when a
// position of the range is not within [0, cache rows). Nothing was written
// then, but another call may have rotated its range: see
// CheckRotaryEmbedding.
void RotaryEmbedding(const RotaryEmbeddingArgs& args, std::int64_t token_begin,
                     std::int64_t token_end);

// All tokens.
void RotaryEmbedding(const RotaryEmbeddingArgs& args);

// Throws what RotaryEmbedding would throw for any range of tokens, and writes
// nothing. For callers that split the tokens among threads and want all or
// nothing. O(num_tokens).
void CheckRotaryEmbedding(const RotaryEmbeddingArgs& args);

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_ROTARY_EMBEDDING_H_
