// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_TOKEN_BUFFER_H_
#define SERVECORE_CC_KV_TOKEN_BUFFER_H_

#include <cstdint>
#include <memory>
#include <variant>

#include "cc/base/int_span.h"
#include "cc/base/mutex.h"

namespace servecore::kv {

// The tokens of one request, which only grow: prompt first, then what is
// generated. It is kept where the cache can read it, so that a request that
// grows by a token is not converted or copied as a whole again.
//
// Tokens are kept as int32, and as int64 from the first one on that needs it.
//
// Costs: Append O(tokens given), amortised; Snapshot O(1).
// Ownership: it owns its memory together with the snapshots of it.
// Copies: Append copies the tokens given; Snapshot copies nothing.
// Thread safety: every member may be called from any thread. What is appended
//   later goes behind every snapshot, or to other memory, so a snapshot is read
//   without a lock.
class TokenBuffer {
 public:
  // The tokens at one moment.
  // Lifetime: `span` is good while `owner` lives.
  struct Snapshot {
    IntSpan span;
    std::shared_ptr<const void> owner;
  };

  TokenBuffer() = default;
  TokenBuffer(const TokenBuffer&) = delete;
  TokenBuffer& operator=(const TokenBuffer&) = delete;

  // Throws std::bad_alloc, and then nothing has changed.
  void Append(const IntSpan& tokens);

  Snapshot TakeSnapshot() const;
  std::int64_t size() const;

 private:
  template <class Token>
  using Storage = std::shared_ptr<Token[]>;

  template <class Token>
  bool AppendTo(Storage<Token>& storage, const IntSpan& tokens);
  void Widen();

  mutable Mutex mutex_;
  std::variant<Storage<std::int32_t>, Storage<std::int64_t>> storage_;
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_TOKEN_BUFFER_H_
