// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_SHARED_MEMORY_H_
#define SERVECORE_CUDA_TESTING_SHARED_MEMORY_H_

#include <cstddef>

namespace servecore::cuda::testing {

// A block's piece of shared memory, filled with 0xA5 so that what a kernel
// reads before it is written is no zero. To ThreadSanitizer nobody has used it
// yet. AddressSanitizer finds an access beyond its end; without it a write
// there is found when IsIntact is asked.
//
// Ownership: owns the memory. Copies: none. Thread safety: none.
class SharedMemory {
 public:
  SharedMemory() = default;
  // Throws std::bad_alloc.
  SharedMemory(std::size_t bytes, std::size_t alignment);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Whether nothing was written close behind its end.
  [[nodiscard]] bool IsIntact() const;

 private:
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t alignment_ = 1;
};

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_SHARED_MEMORY_H_
