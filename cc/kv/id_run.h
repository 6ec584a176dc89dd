// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_ID_RUN_H_
#define SERVECORE_CC_KV_ID_RUN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace servecore::kv {

// The ids of the blocks of a run, in order: either stored in an array, or,
// where they rise or fall by one, only counted. The ids that a request holds
// mostly do, since that is how a pool gives them; so thousands of blocks can
// mostly be named by three numbers.
//
// Costs: O(1), but O(size) for Equals and what writes them.
// Lifetime: a view. Stored ids are the caller's to keep.
// Thread safety: that of a std::span.
class IdRun {
 public:
  // Stored ones.
  IdRun(std::span<const std::int32_t> ids)  // NOLINT: a view of any span
      : stored_(ids.data()), size_(ids.size()) {}
  // first, first + step, ...; step is 1 or -1.
  IdRun(std::int32_t first, std::int32_t step, std::size_t size)
      : first_(first), step_(step), size_(size) {}

  std::size_t size() const { return size_; }
  // 1 or -1 where they are counted, 0 where they are stored.
  std::int32_t step() const { return step_; }
  // The stored ones; step() is 0.
  std::span<const std::int32_t> stored() const { return {stored_, size_}; }

  std::int32_t operator[](std::size_t i) const {
    return step_ == 0 ? stored_[i]
                      : first_ + step_ * static_cast<std::int32_t>(i);
  }
  std::int32_t back() const { return (*this)[size_ - 1]; }

  // `size` of them from the i-th on; there are as many.
  IdRun Part(std::size_t i, std::size_t size) const;

  // Appends `next` and gives true, if it goes on where this run ends: with the
  // next id of those that are counted, or behind those that are stored.
  bool Extend(const IdRun& next);

  // Whether they are what `ids`, which are as many, are.
  bool Equals(std::span<const std::int32_t> ids) const;

  // Writes them to `out`, size() of them; the second the last one first.
  void WriteTo(std::int32_t* out) const;
  void WriteReversedTo(std::int32_t* out) const;

 private:
  const std::int32_t* stored_ = nullptr;
  std::int32_t first_ = 0;
  std::int32_t step_ = 0;
  std::size_t size_ = 0;
};

// How many of `ids` from the first on rise by one, or fall by one: 1 or more,
// unless there are none. O(that many), 0.1 ns each.
std::size_t CountingLength(std::span<const std::int32_t> ids);

// Fewer ids than this are not worth a run of their own.
inline constexpr std::size_t kFewestCounted = 128;

// `ids` as runs: counted ones as long as they go, where there are
// kFewestCounted ids or more in order, and stored ones between these. O(ids).
std::vector<IdRun> SplitIntoRuns(std::span<const std::int32_t> ids);

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_ID_RUN_H_
