// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_BUFFER_H_
#define SERVECORE_CC_BASE_BUFFER_H_

#include <cstddef>
#include <span>
#include <type_traits>

#include "cc/base/aligned.h"

namespace servecore {

// A block of raw memory of fixed size, held from construction to destruction.
// Its bytes are uninitialised.
//
// Ownership: the buffer's. It moves and does not copy; one moved from is empty
//   and may be assigned to.
// Lifetime: a pointer or span of the buffer is good while the buffer, or the
//   one it was moved to, lives.
// Thread safety: that of a std::vector.
class Buffer {
 public:
  // Empty: no memory, size 0.
  Buffer() = default;

  // Throws as MakeAligned does.
  explicit Buffer(std::size_t bytes, std::size_t alignment = kDefaultAlignment)
      : memory_(MakeAligned(bytes, alignment)), size_(bytes) {}

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() = default;

  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }  // bytes
  bool empty() const { return size_ == 0; }

  // The memory as an array of T, as many as fit.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  std::span<T> As() {
    return {reinterpret_cast<T*>(data()), size_ / sizeof(T)};
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  std::span<const T> As() const {
    return {reinterpret_cast<const T*>(data()), size_ / sizeof(T)};
  }

 private:
  AlignedMemory memory_;
  std::size_t size_ = 0;
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_BUFFER_H_
