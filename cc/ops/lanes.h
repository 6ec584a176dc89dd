// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// Elements of every dtype as vectors of what they are computed in. Compiled
// once for each target: see hwy/foreach_target.h.

#if defined(SERVECORE_CC_OPS_LANES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SERVECORE_CC_OPS_LANES_H_
#undef SERVECORE_CC_OPS_LANES_H_
#else
#define SERVECORE_CC_OPS_LANES_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/ops/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace servecore::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// What a T is computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
using Tag = hn::ScalableTag<Wide<T>>;

// Two vectors: what is loaded, computed and stored at a time. Of 16-bit
// elements they fill one register.
template <class T>
struct Two {
  hn::Vec<Tag<T>> a;
  hn::Vec<Tag<T>> b;
};

template <class T>
inline constexpr std::int64_t kLanes =
    static_cast<std::int64_t>(hn::MaxLanes(Tag<T>()));
template <class T>
inline constexpr std::int64_t kTwo = 2 * kLanes<T>;

// Which of the elements are `a` and which are `b`.
enum class Order : std::uint8_t {
  kNatural,  // a: the first half
  kEvenOdd,  // a: those of even index; only of BFloat16, where it saves moves
};

// The order for a loop over arrays of these types.
template <class... T>
inline constexpr Order kOrderFor =
    (std::is_same_v<T, BFloat16> && ...) ? Order::kEvenOdd : Order::kNatural;

// ---- float16 ---------------------------------------------------------------

// Bits of float16 as float32 and back, rounded. Highway makes infinities and
// NaNs finite where it has no instruction for this.
#if HWY_TARGET == HWY_SSE2

template <class V16>
HWY_INLINE hn::Vec<Tag<float>> FromHalf(V16 halves) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const hn::RebindToUnsigned<Tag<float>> du;
  const auto bits = hn::PromoteTo(du, halves);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000U)));
  const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffU)));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(shifted, hn::Set(di, 112 << 23));
  const auto infinite = hn::Or(shifted, hn::Set(di, 0x7f800000));
  // So many times 2^-24. No float32 is subnormal here, so that no mode of the
  // processor can flush one.
  const auto subnormal = hn::BitCast(
      di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24F)));
  const auto value = hn::IfThenElse(
      hn::Lt(magnitude, hn::Set(di, 0x0400)), subnormal,
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x7c00)), normal, infinite));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
}

// As ToFloat16.
template <class V>
HWY_INLINE auto ToHalf(V value) {
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<std::uint16_t, Tag<float>> du16;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude =
      hn::BitCast(di, hn::And(bits, hn::Set(du, 0x7fffffffU)));
  const auto shifted = hn::ShiftRight<13>(magnitude);
  const auto nan =
      hn::Or(hn::And(shifted, hn::Set(di, 0x1ff)), hn::Set(di, 0x7e00));
  const auto even = hn::And(shifted, hn::Set(di, 1));
  const auto normal = hn::ShiftRight<13>(
      hn::Add(magnitude, hn::Add(even, hn::Set(di, 0xfff - (112 << 23)))));
  const auto half = hn::Set(d, 0.5F);
  const auto subnormal =
      hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half)),
              hn::BitCast(di, half));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)),
                               subnormal, normal);
  result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x477ff000)), result,
                          hn::Set(di, 0x7c00));
  result =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), nan, result);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000U));
  return hn::TruncateTo(du16, hn::Or(hn::BitCast(du, result), sign));
}

#else

template <class V16>
HWY_INLINE hn::Vec<Tag<float>> FromHalf(V16 halves) {
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  return hn::PromoteTo(Tag<float>(), hn::BitCast(dh, halves));
}

template <class V>
HWY_INLINE auto ToHalf(V value) {
  const hn::Rebind<hwy::float16_t, Tag<float>> dh;
  const hn::Rebind<std::uint16_t, Tag<float>> du16;
  return hn::BitCast(du16, hn::DemoteTo(dh, value));
}

#endif

// ---- Loads -----------------------------------------------------------------

// One vector of neighbours.
HWY_INLINE hn::Vec<Tag<float>> LoadOne(const float* from) {
  return hn::LoadU(Tag<float>(), from);
}

HWY_INLINE hn::Vec<Tag<double>> LoadOne(const double* from) {
  return hn::LoadU(Tag<double>(), from);
}

HWY_INLINE hn::Vec<Tag<float>> LoadOne(const Float16* from) {
  const hn::Rebind<std::uint16_t, Tag<float>> du16;
  return FromHalf(hn::LoadU(du16, &from->bits));
}

HWY_INLINE hn::Vec<Tag<float>> LoadOne(const BFloat16* from) {
  const hn::RebindToUnsigned<Tag<float>> du;
  const hn::Rebind<std::uint16_t, Tag<float>> du16;
  const auto bits = hn::PromoteTo(du, hn::LoadU(du16, &from->bits));
  return hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(bits));
}

template <Order order, class T>
HWY_INLINE Two<T> LoadTwo(const T* from) {
  if constexpr (order == Order::kEvenOdd) {
    static_assert(std::is_same_v<T, BFloat16>);
    const Tag<float> d;
    const hn::RebindToUnsigned<Tag<float>> du;
    const hn::Repartition<std::uint16_t, Tag<float>> du16;
    const auto both = hn::BitCast(du, hn::LoadU(du16, &from->bits));
    return {hn::BitCast(d, hn::ShiftLeft<16>(both)),
            hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000U)))};
  } else {
    return {LoadOne(from), LoadOne(from + kLanes<T>)};
  }
}

// ---- Roundings -------------------------------------------------------------

// What may be NaN and how. Rounding a float32 to bfloat16 by an addition turns
// a NaN whose low bits are set into something else. NaNs that come from
// bfloat16 operands, or from none, have no low bits.
enum class Nans : std::uint8_t { kOfBFloat16, kAny };

// The bfloat16 nearest to each lane in its upper half; the lower is rubbish.
template <Nans nans, class V>
HWY_INLINE auto RoundToUpperHalf(V value) {
  const hn::RebindToUnsigned<Tag<float>> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffU)), odd);
  if constexpr (nans == Nans::kOfBFloat16) {
    return rounded;
  } else {
    const auto nan = hn::RebindMask(du, hn::IsNaN(value));
    return hn::IfThenElse(nan, hn::Or(bits, hn::Set(du, 0x400000U)), rounded);
  }
}

// Each lane rounded to a T, in what T is computed in.
template <class T, Nans nans>
HWY_INLINE Two<T> Round(Two<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const Tag<float> d;
    const hn::RebindToUnsigned<Tag<float>> du;
    const auto upper = hn::Set(du, 0xffff0000U);
    return {hn::BitCast(d, hn::And(RoundToUpperHalf<nans>(value.a), upper)),
            hn::BitCast(d, hn::And(RoundToUpperHalf<nans>(value.b), upper))};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {FromHalf(ToHalf(value.a)), FromHalf(ToHalf(value.b))};
  } else {
    return value;
  }
}

// ---- Stores ----------------------------------------------------------------

// Where stores go: to the caches, or past them into aligned memory.
enum class Via : std::uint8_t { kCache, kStream };

template <Via via, class D, class V, class T>
HWY_INLINE void StoreVector(D d, V value, T* to) {
  if constexpr (via == Via::kStream) {
    hn::Stream(value, d, to);
  } else {
    hn::StoreU(value, d, to);
  }
}

template <Order order, Via via, Nans nans>
HWY_INLINE void StoreTwo(Two<float> value, float* to) {
  static_assert(order == Order::kNatural);
  const Tag<float> d;
  StoreVector<via>(d, value.a, to);
  StoreVector<via>(d, value.b, to + kLanes<float>);
}

template <Order order, Via via, Nans nans>
HWY_INLINE void StoreTwo(Two<double> value, double* to) {
  static_assert(order == Order::kNatural);
  const Tag<double> d;
  StoreVector<via>(d, value.a, to);
  StoreVector<via>(d, value.b, to + kLanes<double>);
}

template <Order order, Via via, Nans nans>
HWY_INLINE void StoreTwo(Two<Float16> value, Float16* to) {
  static_assert(order == Order::kNatural);
  const hn::Repartition<std::uint16_t, Tag<float>> du16;
  StoreVector<via>(du16, hn::Combine(du16, ToHalf(value.b), ToHalf(value.a)),
                   &to->bits);
}

#if HWY_TARGET == HWY_AVX3_ZEN4

// The processor's own rounding takes subnormal numbers for zero, so these are
// left to the other way.
HWY_INLINE __mmask16 Subnormals(Two<BFloat16> value) {
  constexpr int kSubnormal = 0x20;
  return _kor_mask16(_mm512_fpclass_ps_mask(value.a.raw, kSubnormal),
                     _mm512_fpclass_ps_mask(value.b.raw, kSubnormal));
}

HWY_INLINE bool AnyOf(__mmask16 a, __mmask16 b) {
  return _kortestz_mask16_u8(a, b) == 0;
}

template <Order order, Via via>
HWY_INLINE void StoreTwoNatively(Two<BFloat16> value, BFloat16* to) {
  const hn::Repartition<hwy::bfloat16_t, Tag<float>> dbf16;
  const hn::Repartition<std::uint16_t, Tag<float>> du16;
  auto both = hn::BitCast(du16, hn::ReorderDemote2To(dbf16, value.a, value.b));
  if constexpr (order == Order::kEvenOdd) {
    alignas(64) static constexpr std::uint16_t kInterleaved[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    both = hn::TableLookupLanes(both, hn::SetTableIndices(du16, kInterleaved));
  }
  StoreVector<via>(du16, both, &to->bits);
}

#endif

template <Order order, Via via, Nans nans>
HWY_INLINE void StoreTwo(Two<BFloat16> value, BFloat16* to) {
#if HWY_TARGET == HWY_AVX3_ZEN4
  const __mmask16 subnormals = Subnormals(value);
  if (HWY_LIKELY(!AnyOf(subnormals, subnormals))) {
    StoreTwoNatively<order, via>(value, to);
    return;
  }
#endif
  const hn::Repartition<std::uint16_t, Tag<float>> du16;
  const hn::RebindToUnsigned<Tag<float>> du;
  if constexpr (order == Order::kEvenOdd && nans == Nans::kOfBFloat16) {
    // RoundToUpperHalf for both vectors at once: of all lanes first the upper
    // halves, then the lower ones. What rounding adds to an upper half is the
    // carry of lower + 0x7fff + (upper & 1), the top bit of half that sum.
    const auto a = hn::BitCast(du, value.a);
    const auto b = hn::BitCast(du, value.b);
    const auto upper = hn::OddEven(hn::BitCast(du16, b),
                                   hn::BitCast(du16, hn::ShiftRight<16>(a)));
    const auto lower = hn::OddEven(hn::BitCast(du16, hn::ShiftLeft<16>(b)),
                                   hn::BitCast(du16, a));
    const auto even = hn::OrAnd(hn::Set(du16, std::uint16_t{0x7ffe}), upper,
                                hn::Set(du16, std::uint16_t{1}));
    const auto carry = hn::ShiftRight<15>(hn::AverageRound(lower, even));
    StoreVector<via>(du16, hn::Add(upper, carry), &to->bits);
  } else {
    const auto a = hn::ShiftRight<16>(RoundToUpperHalf<nans>(value.a));
    const auto b = RoundToUpperHalf<nans>(value.b);
    const auto both =
        order == Order::kEvenOdd
            ? hn::OddEven(hn::BitCast(du16, b), hn::BitCast(du16, a))
            : hn::OrderedTruncate2To(du16, a, hn::ShiftRight<16>(b));
    StoreVector<via>(du16, both, &to->bits);
  }
}

// StoreTwo for twice as many: the processor's own rounding needs a look at what
// it is given, and one look at four vectors takes half of two looks at two.
template <Order order, Via via, Nans nans, class T>
HWY_INLINE void StoreFour(Two<T> first, Two<T> second, T* to) {
#if HWY_TARGET == HWY_AVX3_ZEN4
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (HWY_LIKELY(!AnyOf(Subnormals(first), Subnormals(second)))) {
      StoreTwoNatively<order, via>(first, to);
      StoreTwoNatively<order, via>(second, to + kTwo<T>);
      return;
    }
  }
#endif
  StoreTwo<order, via, nans>(first, to);
  StoreTwo<order, via, nans>(second, to + kTwo<T>);
}

// ---- Ends of rows ----------------------------------------------------------

// The last elements of an array, fewer than kTwo, and zeros behind them, so
// that they can be read and written as all others.
template <class T>
struct Tail {
  T data[kTwo<T>];

  HWY_INLINE Tail() = default;
  HWY_INLINE Tail(const T* from, std::int64_t size) {
    std::memset(data, 0, sizeof data);
    std::memcpy(data, from, static_cast<std::size_t>(size) * sizeof(T));
  }
  HWY_INLINE void Store(T* to, std::int64_t size) const {
    std::memcpy(to, data, static_cast<std::size_t>(size) * sizeof(T));
  }
};

// ---- Dtypes ----------------------------------------------------------------

// task.Run<T>(args) for the T of `dtype`.
template <class Task, class Args>
HWY_INLINE auto ByDType(DType dtype, const Task& task, const Args& args) {
  switch (dtype) {
    case DType::kBFloat16:
      return task.template Run<BFloat16>(args);
    case DType::kFloat16:
      return task.template Run<Float16>(args);
    case DType::kFloat64:
      return task.template Run<double>(args);
    case DType::kFloat32:
      break;
  }
  return task.template Run<float>(args);
}

// task.Run<T, W>(args) for the T of `dtype` and the W of `weight_dtype`, a pair
// that CheckWeightDType has passed.
template <class Task, class Args>
HWY_INLINE auto ByDTypes(DType dtype, DType weight_dtype, const Task& task,
                         const Args& args) {
  const bool same = weight_dtype == dtype;
  switch (dtype) {
    case DType::kBFloat16:
      return same ? task.template Run<BFloat16, BFloat16>(args)
                  : task.template Run<BFloat16, float>(args);
    case DType::kFloat16:
      return same ? task.template Run<Float16, Float16>(args)
                  : task.template Run<Float16, float>(args);
    case DType::kFloat64:
      return task.template Run<double, double>(args);
    case DType::kFloat32:
      break;
  }
  return task.template Run<float, float>(args);
}

}  // namespace servecore::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SERVECORE_CC_OPS_LANES_H_
