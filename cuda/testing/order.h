// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_ORDER_H_
#define SERVECORE_CUDA_TESTING_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace servecore::cuda::testing {

// The order in which those take turns that CUDA leaves without one.
enum class Order : unsigned char {
  kForward,
  kReverse,
  // Another one at every turn, the same for the same seed.
  kShuffled,
};

// The numbers below a size in an order, turn after turn.
// Complexity: O(size) memory, and time at every shuffled turn.
class Sequence {
 public:
  Sequence(std::size_t size, Order order, std::uint64_t seed);

  // The numbers in their order. The next turn's, if it is not the first call.
  // Lifetime: until the next call.
  const std::vector<std::size_t>& Next();

 private:
  std::uint64_t Random();

  std::vector<std::size_t> numbers_;
  Order order_;
  std::uint64_t state_;
};

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_ORDER_H_
