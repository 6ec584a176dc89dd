// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/token_buffer.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "cc/kv/token_compare.h"

namespace servecore::kv {
namespace {

constexpr std::int64_t kSmallest = 64;

}  // namespace

void TokenBuffer::Append(const IntSpan& tokens) {
  if (Size(tokens) == 0) return;
  const std::lock_guard lock(mutex_);
  if (auto* const narrow = std::get_if<Storage<std::int32_t>>(&storage_)) {
    if (AppendTo(*narrow, tokens)) return;
    Widen();
  }
  AppendTo(std::get<Storage<std::int64_t>>(storage_), tokens);
}

// Whether all tokens fitted; nothing was appended if not.
template <class Token>
bool TokenBuffer::AppendTo(Storage<Token>& storage, const IntSpan& tokens) {
  const std::int64_t n = Size(tokens);
  if (size_ + n > capacity_) {
    const std::int64_t capacity = std::max({kSmallest, 2 * size_, size_ + n});
    auto grown = std::make_shared_for_overwrite<Token[]>(
        static_cast<std::size_t>(capacity));
    std::copy_n(storage.get(), size_, grown.get());
    storage = std::move(grown);
    capacity_ = capacity;
  }
  if (!CopyTokens(tokens, 0, n, storage.get() + size_)) return false;
  size_ += n;
  return true;
}

void TokenBuffer::Widen() {
  const auto& narrow = std::get<Storage<std::int32_t>>(storage_);
  auto wide = std::make_shared_for_overwrite<std::int64_t[]>(
      static_cast<std::size_t>(std::max(capacity_, kSmallest)));
  std::copy_n(narrow.get(), size_, wide.get());
  storage_ = std::move(wide);
  capacity_ = std::max(capacity_, kSmallest);
}

TokenBuffer::Snapshot TokenBuffer::TakeSnapshot() const {
  const std::lock_guard lock(mutex_);
  return std::visit(
      [this]<class Token>(const Storage<Token>& storage) -> Snapshot {
        return {.span = StridedSpan<Token>(storage.get(), size_),
                .owner = storage};
      },
      storage_);
}

std::int64_t TokenBuffer::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace servecore::kv
