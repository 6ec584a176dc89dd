// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The two passes of RMSNorm over elements that lie side by side. Compiled once
// for each target: see hwy/foreach_target.h.

#if defined(SERVECORE_CC_OPS_RMSNORM_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SERVECORE_CC_OPS_RMSNORM_ROWS_H_
#undef SERVECORE_CC_OPS_RMSNORM_ROWS_H_
#else
#define SERVECORE_CC_OPS_RMSNORM_ROWS_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cc/ops/lanes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {

// A sum of n float32 terms may be off by n/lanes rounding errors. Blocks keep
// that below 64 of them, 4e-6, before the square root halves it; beyond a block
// float64 takes over.
inline constexpr std::int64_t kSumBlock = 2048;

template <class T>
struct Sums {
  Two<T> two[4];

  HWY_INLINE Sums() {
    const auto zero = hn::Zero(Tag<T>());
    for (Two<T>& sum : two) sum = {zero, zero};
  }

  HWY_INLINE double Total() const {
    const Tag<T> d;
    const auto first =
        hn::Add(hn::Add(two[0].a, two[0].b), hn::Add(two[1].a, two[1].b));
    const auto second =
        hn::Add(hn::Add(two[2].a, two[2].b), hn::Add(two[3].a, two[3].b));
    return static_cast<double>(hn::ReduceSum(d, hn::Add(first, second)));
  }
};

template <class T>
HWY_INLINE void AddSquares(Two<T> x, Two<T>& sum) {
  sum.a = hn::MulAdd(x.a, x.a, sum.a);
  sum.b = hn::MulAdd(x.b, x.b, sum.b);
}

// Additions have a latency of 4 cycles and a throughput of 2 per cycle: eight
// vectors in flight keep a core busy.
template <class T>
HWY_INLINE double BlockSumOfSquares(const T* x, std::int64_t size) {
  constexpr Order kOrder = kOrderFor<T>;
  Sums<T> sums;
  std::int64_t i = 0;
  for (; i + 4 * kTwo<T> <= size; i += 4 * kTwo<T>) {
    AddSquares<T>(LoadTwo<kOrder>(x + i), sums.two[0]);
    AddSquares<T>(LoadTwo<kOrder>(x + i + kTwo<T>), sums.two[1]);
    AddSquares<T>(LoadTwo<kOrder>(x + i + 2 * kTwo<T>), sums.two[2]);
    AddSquares<T>(LoadTwo<kOrder>(x + i + 3 * kTwo<T>), sums.two[3]);
  }
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    AddSquares<T>(LoadTwo<kOrder>(x + i), sums.two[0]);
  }
  if (i < size) {
    const Tail<T> tail(x + i, size - i);
    AddSquares<T>(LoadTwo<kOrder>(tail.data), sums.two[1]);
  }
  return sums.Total();
}

template <class T>
HWY_INLINE double SumOfSquares(const T* x, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < size; begin += kSumBlock) {
    const std::int64_t left = size - begin;
    sum += BlockSumOfSquares(x + begin, left < kSumBlock ? left : kSumBlock);
  }
  return sum;
}

// What multiplies a row.
template <class T>
HWY_INLINE Wide<T> InverseRms(double sum_of_squares, std::int64_t dim,
                              double eps) {
  return static_cast<Wide<T>>(
      1.0 / __builtin_sqrt(sum_of_squares / static_cast<double>(dim) + eps));
}

enum class CastBeforeWeight : std::uint8_t { kNo, kYes };

template <class T, class W>
inline constexpr Nans kNansOf =
    std::is_same_v<W, T> ? Nans::kOfBFloat16 : Nans::kAny;

template <class T, class W, CastBeforeWeight cast>
HWY_INLINE Two<T> Scaled(Two<T> x, hn::Vec<Tag<T>> scale, Two<W> weight) {
  Two<T> scaled{hn::Mul(x.a, scale), hn::Mul(x.b, scale)};
  if constexpr (cast == CastBeforeWeight::kYes) {
    scaled = Round<T, Nans::kOfBFloat16>(scaled);
  }
  return {hn::Mul(scaled.a, weight.a), hn::Mul(scaled.b, weight.b)};
}

// out[i] = x[i] * scale * weight[i] for the columns from `begin` on, as long as
// they fill vectors; gives the first that do not. Element i of out depends on
// element i of x only, so out may be x.
template <class T, class W, CastBeforeWeight cast, Via via>
HWY_INLINE std::int64_t ScaleVectors(const T* x, Wide<T> scale, const W* weight,
                                     T* out, std::int64_t begin,
                                     std::int64_t size) {
  constexpr Order kOrder = kOrderFor<T, W>;
  const auto factor = hn::Set(Tag<T>(), scale);
  std::int64_t i = begin;
  for (; i + 2 * kTwo<T> <= size; i += 2 * kTwo<T>) {
    const std::int64_t j = i + kTwo<T>;
    const Two<T> first = Scaled<T, W, cast>(LoadTwo<kOrder>(x + i), factor,
                                            LoadTwo<kOrder>(weight + i));
    const Two<T> second = Scaled<T, W, cast>(LoadTwo<kOrder>(x + j), factor,
                                             LoadTwo<kOrder>(weight + j));
    StoreFour<kOrder, via, kNansOf<T, W>>(first, second, out + i);
  }
  for (; i + kTwo<T> <= size; i += kTwo<T>) {
    StoreTwo<kOrder, via, kNansOf<T, W>>(
        Scaled<T, W, cast>(LoadTwo<kOrder>(x + i), factor,
                           LoadTwo<kOrder>(weight + i)),
        out + i);
  }
  return i;
}

// All columns from `begin` on.
template <class T, class W, CastBeforeWeight cast>
HWY_INLINE void ScaleRow(const T* x, Wide<T> scale, const W* weight, T* out,
                         std::int64_t begin, std::int64_t size) {
  const std::int64_t i =
      ScaleVectors<T, W, cast, Via::kCache>(x, scale, weight, out, begin, size);
  if (i == size) return;
  Tail<T> tail(x + i, size - i);
  const Tail<W> weights(weight + i, size - i);
  ScaleVectors<T, W, cast, Via::kCache>(tail.data, scale, weights.data,
                                        tail.data, 0, kTwo<T>);
  tail.Store(out + i, size - i);
}

}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SERVECORE_CC_OPS_RMSNORM_ROWS_H_
