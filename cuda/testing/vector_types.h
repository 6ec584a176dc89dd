// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_VECTOR_TYPES_H_
#define SERVECORE_CUDA_TESTING_VECTOR_TYPES_H_

// CUDA's vector types under a host compiler, with CUDA's names, sizes and
// alignments, so that a misaligned access is undefined here too and UBSan says
// so.

// The names are CUDA's.
// NOLINTBEGIN(readability-identifier-naming)

struct uint3 {
  unsigned x, y, z;

  friend constexpr bool operator==(const uint3&, const uint3&) = default;
};

struct dim3 {
  unsigned x, y, z;

  // Implicit, as in CUDA: a launch takes numbers.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr dim3(const uint3& v) : x(v.x), y(v.y), z(v.z) {}

  friend constexpr bool operator==(const dim3&, const dim3&) = default;
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
constexpr int2 make_int2(int x, int y) { return {x, y}; }
constexpr int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

// NOLINTEND(readability-identifier-naming)

#endif  // SERVECORE_CUDA_TESTING_VECTOR_TYPES_H_
