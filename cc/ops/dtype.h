// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_OPS_DTYPE_H_
#define SERVECORE_CC_OPS_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace servecore::ops {

// What an element of a tensor is. Kernels take pointers to void and one of
// these, so that a bridge need not know their types.
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16, kFloat64 };

// Bytes of an element.
constexpr std::size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kFloat64:
      break;
  }
  return 8;
}

// "float32", "bfloat16", "float16" or "float64".
constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kFloat64:
      break;
  }
  return "float64";
}

// How a bfloat16 lies in memory: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

// How an IEEE 754 binary16 lies in memory.
struct Float16 {
  std::uint16_t bits;
};

// Widening is exact. A signalling NaN may become a quiet one.
constexpr float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

constexpr float ToFloat(Float16 value) {
  const std::uint32_t sign = std::uint32_t{value.bits} >> 15 << 31;
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  if (magnitude >= 0x7c00U) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000U | magnitude << 13);
  }
  if (magnitude >= 0x0400U) {
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  }
  // A subnormal: so many times 2^-24.
  const float value_of_bits = static_cast<float>(magnitude) * 0x1p-24F;
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(value_of_bits));
}

// Narrowing rounds to nearest, ties to even, as torch does; what is too large
// becomes infinite, a NaN stays one.
constexpr BFloat16 ToBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>(bits >> 16 | 0x40U)};
  }
  return {
      static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}

constexpr Float16 ToFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | (magnitude >> 13 & 0x1ffU);
  } else if (magnitude >= 0x477ff000U) {  // 65520: halfway to 2^16
    half = 0x7c00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14: the least normal
    const std::uint32_t even = magnitude >> 13 & 1U;
    half = (magnitude - (112U << 23) + 0xfffU + even) >> 13;
  } else {
    // Adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded.
    half =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
        std::bit_cast<std::uint32_t>(0.5F);
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace servecore::ops

#endif  // SERVECORE_CC_OPS_DTYPE_H_
