// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/aligned.h"

#include <bit>
#include <new>
#include <stdexcept>

#include "cc/base/errors.h"

namespace servecore {

void AlignedDelete::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, std::align_val_t{alignment});
}

AlignedMemory MakeAligned(std::size_t bytes, std::size_t alignment) {
  if (!std::has_single_bit(alignment)) {
    throw std::invalid_argument(
        StrCat("alignment is ", alignment,
               "; it has to be a power of two, such as ", kDefaultAlignment));
  }
  if (bytes == 0) return AlignedMemory(nullptr, AlignedDelete{alignment});
  return AlignedMemory(static_cast<std::byte*>(
                           ::operator new(bytes, std::align_val_t{alignment})),
                       AlignedDelete{alignment});
}

}  // namespace servecore
