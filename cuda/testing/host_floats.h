// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_HOST_FLOATS_H_
#define SERVECORE_CUDA_TESTING_HOST_FLOATS_H_

#include <bit>
#include <cstdint>

// CUDA's 16-bit floats under a host compiler: storage and conversion only.
// Kernels compute in float, so arithmetic on them is left out on purpose.

namespace servecore::cuda::testing {

// The bits of `value` rounded to bfloat16, ties to even; NaN stays NaN.
constexpr std::uint16_t BfloatBits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fffU;
  const std::uint32_t odd = (bits >> 16U) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7fffU + odd) >> 16U);
}

constexpr float FromBfloatBits(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// The bits of `value` rounded to IEEE binary16, ties to even; NaN stays NaN.
constexpr std::uint16_t HalfBits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fffU;
  // 65520 and above round to infinity.
  if (magnitude >= 0x477ff000U) {
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  // Below 2^-14 the result is subnormal. Adding 0.5 leaves its 10 bits, rounded
  // by the addition itself, at the end of the sum.
  if (magnitude < 0x38800000U) {
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  const std::uint32_t rebased = magnitude - 0x38000000U + 0xfffU + odd;
  return static_cast<std::uint16_t>(sign | (rebased >> 13U));
}

constexpr float FromHalfBits(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t rebased = exponent == 0x1fU ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (rebased << 23U) | (fraction << 13U));
}

}  // namespace servecore::cuda::testing

// The names are CUDA's.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)

struct __nv_bfloat16 {
  // Public, as in CUDA's own __nv_bfloat16_raw: it travels through unions.
  std::uint16_t bits;
};
struct __half {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
struct alignas(4) __half2 {
  __half x, y;
};

constexpr __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {servecore::cuda::testing::BfloatBits(value)};
}
constexpr __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}
constexpr float __bfloat162float(__nv_bfloat16 value) {
  return servecore::cuda::testing::FromBfloatBits(value.bits);
}
constexpr __half __float2half_rn(float value) {
  return {servecore::cuda::testing::HalfBits(value)};
}
constexpr __half __float2half(float value) { return __float2half_rn(value); }
constexpr float __half2float(__half value) {
  return servecore::cuda::testing::FromHalfBits(value.bits);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // SERVECORE_CUDA_TESTING_HOST_FLOATS_H_
