// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace servecore::cuda::testing {

Sequence::Sequence(std::size_t size, Order order, std::uint64_t seed)
    : numbers_(size), order_(order), state_(seed) {
  std::iota(numbers_.begin(), numbers_.end(), std::size_t{0});
  if (order == Order::kReverse) std::ranges::reverse(numbers_);
}

const std::vector<std::size_t>& Sequence::Next() {
  if (order_ != Order::kShuffled) return numbers_;
  // Not std::shuffle: its order differs between libraries.
  for (std::size_t i = numbers_.size(); i > 1; --i) {
    std::swap(numbers_[i - 1], numbers_[Random() % i]);
  }
  return numbers_;
}

// SplitMix64.
std::uint64_t Sequence::Random() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace servecore::cuda::testing
