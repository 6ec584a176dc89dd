// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/shared_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "cuda/testing/fiber.h"

namespace servecore::cuda::testing {
namespace {

constexpr int kPoison = 0xA5;
constexpr unsigned char kFence = 0xC3;
#ifdef __SANITIZE_ADDRESS__
// Its own red zone is there.
constexpr std::size_t kFenceBytes = 0;
#else
constexpr std::size_t kFenceBytes = 128;
#endif

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes, std::size_t alignment)
    : size_(bytes), alignment_(std::max<std::size_t>(alignment, 16)) {
  const TsanIgnores ignores;
  data_ = static_cast<unsigned char*>(
      ::operator new(bytes + kFenceBytes, std::align_val_t{alignment_}));
  std::memset(data_, kPoison, bytes);
  if (kFenceBytes > 0) std::memset(data_ + bytes, kFence, kFenceBytes);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      alignment_(other.alignment_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(alignment_, other.alignment_);
  return *this;
}

SharedMemory::~SharedMemory() {
  const TsanIgnores ignores;
  ::operator delete(data_, std::align_val_t{alignment_});
}

bool SharedMemory::IsIntact() const {
  if (data_ == nullptr) return true;
  return std::all_of(data_ + size_, data_ + size_ + kFenceBytes,
                     [](unsigned char byte) { return byte == kFence; });
}

}  // namespace servecore::cuda::testing
