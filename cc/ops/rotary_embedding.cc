// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rotary_embedding.h"

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "cc/base/errors.h"
#include "cc/ops/checks.h"
#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"

// clang-format off: what follows is read once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cc/ops/rotary_embedding.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "cc/ops/columns.h"
#include "cc/ops/lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {
namespace {

template <class V>
HWY_INLINE void Rotate(V& a, V& b, V cos, V sin) {
  const V rotated = hn::MulSub(a, cos, hn::Mul(b, sin));
  b = hn::MulAdd(b, cos, hn::Mul(a, sin));
  a = rotated;
}

// What a product of a T and a C may be NaN with.
template <class T, class C>
inline constexpr Nans kNansOf =
    std::is_same_v<T, C> ? Nans::kOfBFloat16 : Nans::kAny;

// ---- Pairs (a[i], b[i]) ----------------------------------------------------

template <class T, class C>
HWY_INLINE void RotateTwo(T* a, T* b, const C* cos, const C* sin) {
  constexpr Order kOrder = kOrderFor<T, C>;
  Two<T> as = LoadTwo<kOrder>(a);
  Two<T> bs = LoadTwo<kOrder>(b);
  const Two<C> cosines = LoadTwo<kOrder>(cos);
  const Two<C> sines = LoadTwo<kOrder>(sin);
  Rotate(as.a, bs.a, cosines.a, sines.a);
  Rotate(as.b, bs.b, cosines.b, sines.b);
  StoreTwo<kOrder, Via::kCache, kNansOf<T, C>>(as, a);
  StoreTwo<kOrder, Via::kCache, kNansOf<T, C>>(bs, b);
}

template <class T, class C>
HWY_INLINE void RotateHalves(T* a, T* b, const C* cos, const C* sin,
                             std::int64_t size) {
  std::int64_t i = 0;
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    RotateTwo(a + i, b + i, cos + i, sin + i);
  }
  if (i < size) {
    Tail<T> a_tail(a + i, size - i);
    Tail<T> b_tail(b + i, size - i);
    const Tail<C> cos_tail(cos + i, size - i);
    const Tail<C> sin_tail(sin + i, size - i);
    RotateTwo<T, C>(a_tail.data, b_tail.data, cos_tail.data, sin_tail.data);
    a_tail.Store(a + i, size - i);
    b_tail.Store(b + i, size - i);
  }
}

// ---- Pairs (pairs[2 * i], pairs[2 * i + 1]) --------------------------------

template <class T, class C>
HWY_INLINE void RotateNeighbours(T* pairs, const C* cos, const C* sin) {
  constexpr Order kOrder = kOrderFor<T>;
  Two<T> two = LoadTwo<kOrder>(pairs);
  const auto cosines = LoadOne(cos);
  const auto sines = LoadOne(sin);
  if constexpr (kOrder == Order::kEvenOdd) {
    Rotate(two.a, two.b, cosines, sines);
  } else {
    const Tag<T> d;
    auto even = hn::ConcatEven(d, two.b, two.a);
    auto odd = hn::ConcatOdd(d, two.b, two.a);
    Rotate(even, odd, cosines, sines);
    two = {hn::InterleaveWholeLower(d, even, odd),
           hn::InterleaveWholeUpper(d, even, odd)};
  }
  StoreTwo<kOrder, Via::kCache, kNansOf<T, C>>(two, pairs);
}

template <class T, class C>
HWY_INLINE void RotatePairs(T* pairs, const C* cos, const C* sin,
                            std::int64_t size) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= size; i += kLanes<T>) {
    RotateNeighbours(pairs + 2 * i, cos + i, sin + i);
  }
  if (i < size) {
    Tail<T> tail(pairs + 2 * i, 2 * (size - i));
    const Tail<C> cos_tail(cos + i, size - i);
    const Tail<C> sin_tail(sin + i, size - i);
    RotateNeighbours<T, C>(tail.data, cos_tail.data, sin_tail.data);
    tail.Store(pairs + 2 * i, 2 * (size - i));
  }
}

// ---- Heads -----------------------------------------------------------------

// Cosines and sines of a position.
template <class C>
struct Angles {
  const C* cos;
  const C* sin;
  std::int64_t stride;
};

template <class T, class C>
HWY_NOINLINE void RotateStrided(T* head, std::int64_t stride,
                                const Angles<C>& angles, std::int64_t pairs,
                                bool neox) {
  // Pairs are one row of a's and one of b's, whichever way they lie.
  const std::int64_t apart = neox ? stride : 2 * stride;
  T* b_head = head + (neox ? pairs * stride : stride);
  InColumns<C> cos_in(angles.stride);
  InColumns<C> sin_in(angles.stride);
  T a[kPiece];
  T b[kPiece];
  for (std::int64_t begin = 0; begin < pairs; begin += kPiece) {
    const std::int64_t size = pairs - begin < kPiece ? pairs - begin : kPiece;
    for (std::int64_t i = 0; i < size; ++i) {
      a[i] = head[(begin + i) * apart];
      b[i] = b_head[(begin + i) * apart];
    }
    RotateHalves<T, C>(a, b, cos_in.Read(angles.cos, begin, size),
                       sin_in.Read(angles.sin, begin, size), size);
    for (std::int64_t i = 0; i < size; ++i) {
      head[(begin + i) * apart] = a[i];
      b_head[(begin + i) * apart] = b[i];
    }
  }
}

// The heads of q or of k, token by token.
template <class T>
class HeadWalk {
 public:
  HeadWalk(const Heads& heads, std::int64_t token)
      : data_(static_cast<T*>(heads.rows.data)),
        stride_(heads.rows.layout.stride()),
        heads_(heads.heads),
        row_(heads.rows.layout, token * heads.heads) {}

  template <class C>
  HWY_INLINE void RotateToken(const Angles<C>& angles, std::int64_t pairs,
                              bool neox) {
    for (std::int64_t i = 0; i < heads_; ++i) {
      T* head = data_ + row_.offset();
      row_.Next();
      if (stride_ != 1 || angles.stride != 1) {
        RotateStrided(head, stride_, angles, pairs, neox);
      } else if (neox) {
        RotateHalves(head, head + pairs, angles.cos, angles.sin, pairs);
      } else {
        RotatePairs(head, angles.cos, angles.sin, pairs);
      }
    }
  }

 private:
  T* data_;
  std::int64_t stride_;
  std::int64_t heads_;
  RowCursor row_;
};

struct TokenRange {
  std::int64_t begin;
  std::int64_t end;

  template <class T, class C>
  void Run(const RotaryEmbeddingArgs& args) const {
    const std::int64_t pairs = args.cache.layout.dim() / 2;
    const std::int64_t stride = args.cache.layout.stride();
    const bool has_k = args.k.rows.data != nullptr;
    HeadWalk<T> q(args.q, begin);
    HeadWalk<T> k(has_k ? args.k : args.q, begin);
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t position =
          args.positions[token * args.positions_stride];
      const C* cos = static_cast<const C*>(args.cache.data) +
                     RowCursor(args.cache.layout, position).offset();
      const Angles<C> angles{cos, cos + pairs * stride, stride};
      q.RotateToken(angles, pairs, args.neox);
      if (has_k) k.RotateToken(angles, pairs, args.neox);
    }
  }
};

void RotaryEmbeddingTokens(const RotaryEmbeddingArgs& args,
                           std::int64_t token_begin, std::int64_t token_end) {
  ByDTypes(args.dtype, args.cache_dtype, TokenRange{token_begin, token_end},
           args);
}

}  // namespace
}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "cc/ops/dispatch.h"

namespace servecore::ops {
namespace {

constexpr const char* kOp = "RotaryEmbedding";

void CheckHeads(const RotaryEmbeddingArgs& args, const char* name,
                const Heads& heads) {
  const RowLayout& layout = heads.rows.layout;
  const std::int64_t rot_dim = args.cache.layout.dim();
  // Not a product, which may overflow.
  const bool fits = heads.heads == 0
                        ? layout.rows() == 0
                        : heads.heads > 0 && layout.rows() % heads.heads == 0 &&
                              layout.rows() / heads.heads == args.num_tokens;
  if (!fits) {
    throw std::invalid_argument(
        StrCat(kOp, ": ", name, " has ", layout.rows(), " rows for ",
               args.num_tokens, " tokens of ", heads.heads,
               " heads; it must have one row a token and head"));
  }
  if (layout.dim() < rot_dim) {
    throw std::invalid_argument(
        StrCat(kOp, ": ", name, " has heads of ", layout.dim(),
               " elements, the cache has rows of ", rot_dim,
               "; they must not be longer than a head"));
  }
}

void Check(const RotaryEmbeddingArgs& args, std::int64_t token_begin,
           std::int64_t token_end) {
  const RowLayout& cache = args.cache.layout;
  if (cache.dim() % 2 != 0) {
    throw std::invalid_argument(
        StrCat(kOp, ": the cache has rows of ", cache.dim(),
               " elements; it must be an even number, as many cosines as "
               "sines"));
  }
  CheckWeightDType(kOp, "the cache", args.cache_dtype, args.dtype);
  CheckHeads(args, "q", args.q);
  if (args.k.rows.data != nullptr) CheckHeads(args, "k", args.k);
  CheckRange(kOp, "tokens", token_begin, token_end, args.num_tokens);
  for (std::int64_t token = token_begin; token < token_end; ++token) {
    const std::int64_t position = args.positions[token * args.positions_stride];
    if (position < 0 || position >= cache.rows()) {
      throw std::out_of_range(StrCat(
          kOp, ": positions[", token, "] is ", position, "; allowed are 0 to ",
          cache.rows() - 1, ", as many as the cache has rows"));
    }
  }
}

}  // namespace

void CheckRotaryEmbedding(const RotaryEmbeddingArgs& args) {
  Check(args, 0, args.num_tokens);
}

void RotaryEmbedding(const RotaryEmbeddingArgs& args, std::int64_t token_begin,
                     std::int64_t token_end) {
  Check(args, token_begin, token_end);
  if (args.cache.layout.dim() == 0 || token_begin == token_end) return;
  SERVECORE_DISPATCH(RotaryEmbeddingTokens)(args, token_begin, token_end);
}

void RotaryEmbedding(const RotaryEmbeddingArgs& args) {
  RotaryEmbedding(args, 0, args.num_tokens);
}

}  // namespace servecore::ops

#endif  // HWY_ONCE
