// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_DTYPE_H_
#define SERVECORE_CUDA_DTYPE_H_

#include <cstdint>

namespace servecore::cuda {

// What the elements of a tensor in device memory are. Kernels compute in
// float32 and round once, to nearest even.
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr int SizeOf(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

}  // namespace servecore::cuda

#endif  // SERVECORE_CUDA_DTYPE_H_
