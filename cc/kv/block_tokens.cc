// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/block_tokens.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

namespace servecore::kv {
namespace {

// Slabs of about this many tokens: few enough allocations for small blocks, and
// little unused memory for large ones.
constexpr std::int64_t kTokensPerSlab = std::int64_t{1} << 16;

int BlocksPerSlabLog2(std::int64_t block_size) {
  const std::int64_t blocks =
      std::max<std::int64_t>(1, kTokensPerSlab / block_size);
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(blocks))) -
         1;
}

// The 128-bit product folded into 64 bits: each bit of the result depends on
// most bits of both factors.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^
         static_cast<std::uint64_t>(product >> 64);
}

// Digits of pi, the last of each made odd.
constexpr std::uint64_t kMixA = 0x243f6a8885a308d3;
constexpr std::uint64_t kMixB = 0x13198a2e03707345;

bool EqualWords(const std::int32_t* a, const std::int32_t* b, std::int64_t n) {
  return std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof *a) == 0;
}

}  // namespace

std::uint64_t HashTokens(const TokenBlock& tokens, std::int64_t block_size,
                         std::uint64_t seed) {
  std::uint64_t hash = Mix(seed ^ kMixA, kMixB);
  std::int64_t i = 0;
  for (; i + 4 <= block_size; i += 4) {
    std::uint64_t words[2];
    std::memcpy(words, tokens.low + i, sizeof words);
    hash = Mix(words[0] ^ kMixA, words[1] ^ hash);
  }
  for (; i < block_size; ++i) {
    hash = Mix(static_cast<std::uint32_t>(tokens.low[i]) ^ kMixB, hash ^ kMixA);
  }
  // The low bits choose a bucket, so they have to depend on all others.
  return Mix(hash ^ kMixB, kMixA);
}

TokenReader::TokenReader(const IntSpan& tokens, std::int64_t block_size)
    : tokens_(tokens),
      block_size_(block_size),
      num_blocks_(Size(tokens) / block_size) {
  if (num_blocks_ > 0) low_.resize(static_cast<std::size_t>(block_size));
}

TokenBlock TokenReader::Read(std::int64_t i) {
  const std::int64_t begin = i * block_size_;
  if (const auto* narrow = std::get_if<StridedSpan<std::int32_t>>(&tokens_)) {
    if (narrow->contiguous()) {
      std::memcpy(low_.data(), narrow->data + begin,
                  low_.size() * sizeof low_[0]);
    } else {
      for (std::int64_t j = 0; j < block_size_; ++j) {
        low_[j] = (*narrow)[begin + j];
      }
    }
    return {.low = low_.data()};
  }
  const auto& wide = std::get<StridedSpan<std::int64_t>>(tokens_);
  bool fits = true;
  high_.resize(low_.size());
  for (std::int64_t j = 0; j < block_size_; ++j) {
    const std::int64_t token = wide[begin + j];
    low_[j] = static_cast<std::int32_t>(token);
    high_[j] = static_cast<std::int32_t>(token >> 32);
    fits &= low_[j] == token;
  }
  return {.low = low_.data(), .high = fits ? nullptr : high_.data()};
}

TokenStore::TokenStore(std::int64_t block_size)
    : block_size_(block_size),
      blocks_per_slab_log2_(BlocksPerSlabLog2(block_size)) {}

void TokenStore::Store(std::int32_t block, const TokenBlock& tokens) {
  const auto slab = Slab(block);
  if (slab >= slabs_.size()) slabs_.resize(slab + 1);
  if (slabs_[slab].empty()) {
    slabs_[slab] = Buffer(
        (static_cast<std::size_t>(block_size_) << blocks_per_slab_log2_) *
        sizeof(std::int32_t));
  }
  Drop(block);
  if (tokens.high != nullptr) {
    high_words_.emplace(block, std::vector<std::int32_t>(
                                   tokens.high, tokens.high + block_size_));
  }
  std::memcpy(slabs_[slab].As<std::int32_t>().data() + OffsetInSlab(block),
              tokens.low,
              static_cast<std::size_t>(block_size_) * sizeof(std::int32_t));
}

std::size_t TokenStore::OffsetInSlab(std::int32_t block) const {
  const std::int32_t mask = (std::int32_t{1} << blocks_per_slab_log2_) - 1;
  return static_cast<std::size_t>(block & mask) *
         static_cast<std::size_t>(block_size_);
}

bool TokenStore::Equals(std::int32_t block, const TokenBlock& tokens) const {
  const TokenBlock kept = At(block);
  if (!EqualWords(kept.low, tokens.low, block_size_)) return false;
  if (kept.high == nullptr || tokens.high == nullptr) {
    return kept.high == tokens.high;
  }
  return EqualWords(kept.high, tokens.high, block_size_);
}

TokenBlock TokenStore::At(std::int32_t block) const {
  TokenBlock tokens{.low = slabs_[Slab(block)].As<std::int32_t>().data() +
                           OffsetInSlab(block)};
  if (!high_words_.empty()) {
    const auto found = high_words_.find(block);
    if (found != high_words_.end()) tokens.high = found->second.data();
  }
  return tokens;
}

void TokenStore::Drop(std::int32_t block) noexcept {
  if (!high_words_.empty()) high_words_.erase(block);
}

}  // namespace servecore::kv
