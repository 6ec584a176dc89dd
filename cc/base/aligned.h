// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_ALIGNED_H_
#define SERVECORE_CC_BASE_ALIGNED_H_

#include <cstddef>
#include <memory>

namespace servecore {

// A cache line, and the widest vector register of the machines we run on.
inline constexpr std::size_t kDefaultAlignment = 64;

// Frees what MakeAligned made; it has to be told the same alignment.
struct AlignedDelete {
  std::size_t alignment = kDefaultAlignment;
  void operator()(std::byte* memory) const noexcept;
};

using AlignedMemory = std::unique_ptr<std::byte[], AlignedDelete>;

// `bytes` bytes of uninitialised memory whose address is a multiple of
// `alignment`. Zero bytes are no memory: a null pointer.
//
// Throws std::invalid_argument unless the alignment is a power of two, and
// std::bad_alloc when there is not enough memory.
// Ownership: the caller's, through the pointer.
AlignedMemory MakeAligned(std::size_t bytes,
                          std::size_t alignment = kDefaultAlignment);

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_ALIGNED_H_
