// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/id_run.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace servecore::kv {
namespace {

// It says that a vector's way between functions depends on the machine; all of
// these functions are inlined.
#pragma GCC diagnostic ignored "-Wpsabi"

// Vectors of the compiler's own kind, which makes as many registers of one as
// the machine needs. Not of 64 bytes: gcc 12 misplaces such under the address
// sanitizer.
// Unsigned, since one past the last id may be one past the last int.
using Ids [[gnu::vector_size(32)]] = std::uint32_t;
using Words [[gnu::vector_size(32)]] = std::int64_t;
constexpr std::uint32_t kLanes = 8;
constexpr Ids kIota = {0, 1, 2, 3, 4, 5, 6, 7};

// Ids between two looks at whether they counted.
constexpr std::size_t kChunk = 64;

[[gnu::always_inline]] inline Ids FirstIds(std::int32_t first,
                                           std::int32_t step) {
  return static_cast<std::uint32_t>(first) +
         static_cast<std::uint32_t>(step) * kIota;
}

// How many of n ids are first, first + step and so on, in whole chunks.
[[gnu::always_inline]] inline std::size_t CountingChunks(
    const std::int32_t* ids, std::size_t n, std::int32_t first,
    std::int32_t step) {
  Ids expected = FirstIds(first, step);
  const std::uint32_t stride = static_cast<std::uint32_t>(step) * kLanes;
  std::size_t done = 0;
  for (; done + kChunk <= n; done += kChunk) {
    Ids different = {};
    for (std::size_t i = 0; i < kChunk; i += kLanes) {
      Ids found;
      std::memcpy(&found, ids + done + i, sizeof found);
      different |= found ^ expected;
      expected += stride;
    }
    Words bits;
    std::memcpy(&bits, &different, sizeof bits);
    if ((bits[0] | bits[1] | bits[2] | bits[3]) != 0) break;
  }
  return done;
}

[[gnu::always_inline]] inline void Count(std::int32_t* out, std::size_t n,
                                         std::int32_t first,
                                         std::int32_t step) {
  Ids ids = FirstIds(first, step);
  const std::uint32_t stride = static_cast<std::uint32_t>(step) * kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    std::memcpy(out + i, &ids, sizeof ids);
    ids += stride;
  }
  for (; i < n; ++i) out[i] = first + step * static_cast<std::int32_t>(i);
}

// The same source for each width of vectors that machines have.
[[gnu::target("avx2")]] std::size_t CountingChunksAvx2(const std::int32_t* ids,
                                                       std::size_t n,
                                                       std::int32_t first,
                                                       std::int32_t step) {
  return CountingChunks(ids, n, first, step);
}
[[gnu::target("avx2")]] void CountAvx2(std::int32_t* out, std::size_t n,
                                       std::int32_t first, std::int32_t step) {
  Count(out, n, first, step);
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2");

}  // namespace

IdRun IdRun::Part(std::size_t i, std::size_t size) const {
  IdRun part = *this;
  part.size_ = size;
  if (step_ == 0) {
    part.stored_ += i;
  } else {
    part.first_ += step_ * static_cast<std::int32_t>(i);
  }
  return part;
}

bool IdRun::Extend(const IdRun& next) {
  const bool goes_on =
      step_ == 0
          ? next.step_ == 0 && next.stored_ == stored_ + size_
          : (next.step_ == step_ || (next.step_ != 0 && next.size_ == 1)) &&
                next.first_ == (*this)[size_];
  if (goes_on) size_ += next.size_;
  return goes_on;
}

bool IdRun::Equals(std::span<const std::int32_t> ids) const {
  if (step_ == 0) return std::equal(ids.begin(), ids.end(), stored_);
  if (ids.empty()) return true;
  if (ids[0] != first_) return false;
  return ids.size() == 1 ||
         (ids[1] == first_ + step_ && CountingLength(ids) == ids.size());
}

void IdRun::WriteTo(std::int32_t* out) const {
  if (step_ == 0) {
    std::copy_n(stored_, size_, out);
  } else if (kHasAvx2) {
    CountAvx2(out, size_, first_, step_);
  } else {
    Count(out, size_, first_, step_);
  }
}

void IdRun::WriteReversedTo(std::int32_t* out) const {
  if (step_ == 0) {
    std::reverse_copy(stored_, stored_ + size_, out);
  } else if (size_ > 0) {
    IdRun(back(), -step_, size_).WriteTo(out);
  }
}

std::size_t CountingLength(std::span<const std::int32_t> ids) {
  if (ids.size() < 2) return ids.size();
  const std::int64_t step = std::int64_t{ids[1]} - ids[0];
  if (step != 1 && step != -1) return 1;
  const auto narrow_step = static_cast<std::int32_t>(step);
  // Chunks wrap where ints end, so they are not asked beyond.
  using Limits = std::numeric_limits<std::int32_t>;
  const std::int64_t before_the_end =
      step == 1 ? std::int64_t{Limits::max()} - ids[1]
                : ids[1] - std::int64_t{Limits::min()};
  const std::size_t n =
      std::min(ids.size() - 1, static_cast<std::size_t>(before_the_end) + 1);
  std::size_t i =
      1 + (kHasAvx2 ? CountingChunksAvx2(&ids[1], n, ids[1], narrow_step)
                    : CountingChunks(&ids[1], n, ids[1], narrow_step));
  while (i < ids.size() && ids[i] - std::int64_t{ids[i - 1]} == step) ++i;
  return i;
}

std::vector<IdRun> SplitIntoRuns(std::span<const std::int32_t> ids) {
  std::vector<IdRun> runs;
  std::size_t begin = 0;
  const auto add_stored = [&](std::size_t end) {
    if (begin < end) runs.emplace_back(ids.subspan(begin, end - begin));
  };
  for (std::size_t i = 0; i < ids.size();) {
    const std::size_t length = CountingLength(ids.subspan(i));
    if (length >= kFewestCounted) {
      add_stored(i);
      runs.emplace_back(ids[i], ids[i + 1] - ids[i], length);
      begin = i + length;
    }
    i += length;
  }
  add_stored(ids.size());
  return runs;
}

}  // namespace servecore::kv
