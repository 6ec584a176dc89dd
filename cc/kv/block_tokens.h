// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_TOKENS_H_
#define SERVECORE_CC_KV_BLOCK_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "cc/base/buffer.h"
#include "cc/base/int_span.h"

namespace servecore::kv {

// The tokens of one block in the one form they are compared in. Nearly every
// token fits int32, so a token is split: its low 32 bits always, its high 32
// bits only in a block where some token needs them. Blocks of equal tokens have
// equal forms, whichever width they arrived in.
//
// Lifetime: that of what it points into.
struct TokenBlock {
  const std::int32_t* low = nullptr;   // block_size words
  const std::int32_t* high = nullptr;  // block_size words, null: all fit int32
};

// A hash of the low words of a block, mixed with `seed`. O(block_size). Equal
// in every process, so nothing that depends on it can differ between runs.
std::uint64_t HashTokens(const TokenBlock& tokens, std::int64_t block_size,
                         std::uint64_t seed);

// Reads a sequence of tokens block by block.
//
// Lifetime: the sequence outlives the reader.
// Copies: each block is copied when it is read, so that what is hashed, what is
//   compared and what is stored are the same even if the caller changes the
//   sequence meanwhile.
// Thread safety: one thread.
class TokenReader {
 public:
  TokenReader(const IntSpan& tokens, std::int64_t block_size);

  // Whole blocks only.
  std::int64_t num_blocks() const { return num_blocks_; }

  // Block i, 0 <= i < num_blocks(); valid until the next call. O(block_size).
  TokenBlock Read(std::int64_t i);

 private:
  const IntSpan tokens_;
  const std::int64_t block_size_;
  const std::int64_t num_blocks_;
  std::vector<std::int32_t> low_;
  std::vector<std::int32_t> high_;
};

// The tokens of blocks, by block id, in slabs that are made when a block of
// theirs is stored first.
//
// Ownership: it holds the tokens.
// Copies: Store copies; At does not.
// Thread safety: that of a std::vector.
class TokenStore {
 public:
  explicit TokenStore(std::int64_t block_size);

  // Keeps the tokens of `block`, in the place of what was kept for it.
  // O(block_size), and a slab's allocation now and then. When that throws
  // std::bad_alloc, what was kept for `block` is undefined.
  void Store(std::int32_t block, const TokenBlock& tokens);

  // Whether `tokens` are those kept for `block`, which was stored before.
  // O(block_size).
  bool Equals(std::int32_t block, const TokenBlock& tokens) const;

  // What is kept for `block`, which was stored before; valid until the next
  // Store or Drop of it.
  TokenBlock At(std::int32_t block) const;

  // Forgets the high words of `block`; its place in the slab stays for reuse.
  void Drop(std::int32_t block) noexcept;

 private:
  std::size_t Slab(std::int32_t block) const {
    return static_cast<std::size_t>(block >> blocks_per_slab_log2_);
  }
  std::size_t OffsetInSlab(std::int32_t block) const;

  const std::int64_t block_size_;
  const int blocks_per_slab_log2_;
  std::vector<Buffer> slabs_;
  std::map<std::int32_t, std::vector<std::int32_t>> high_words_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_TOKENS_H_
