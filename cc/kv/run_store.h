// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_RUN_STORE_H_
#define SERVECORE_CC_KV_RUN_STORE_H_

#include <cstdint>
#include <vector>

#include "cc/base/buffer.h"

namespace servecore::kv {

// Memory for runs of 32-bit words that are written once, shrink from the end,
// and are read at the speed of memory: each run lies in one piece.
//
// It is a log in segments of 256 KiB. Runs are placed one behind the other in
// the open segment, so placing one takes no search and no call of the memory
// allocator. What is dropped is only counted; a segment of which everything was
// dropped is used again. When less than half of the closed segments is in use,
// SegmentToClean names the emptiest, and whoever knows its runs moves them to
// the open one: at most half a segment of words for a whole one gained.
//
// Costs: Place and Drop O(1); SegmentToClean O(segments), when there is one to
// clean, else O(1).
// Ownership: it holds the memory, at most about twice what is in use.
// Lifetime: words() of a segment stay in place until all of it is dropped.
// Thread safety: that of a std::vector.
class RunStore {
 public:
  static constexpr std::int64_t kSegmentWords = std::int64_t{1} << 16;
  // Runs begin at a multiple of a cache line.
  static constexpr std::int64_t kAlignWords = 16;
  static constexpr std::int32_t kNone = -1;

  struct Place {
    std::int32_t segment = kNone;
    std::int32_t offset = 0;  // in words
  };

  // The longest run that Place would put into the open segment.
  std::int64_t room() const;

  // A place for a run of num_words > 0, in the open segment if there is room,
  // else in a new one. One longer than a segment gets a segment of its own.
  // Throws std::bad_alloc, and then nothing has changed.
  Place Add(std::int64_t num_words);

  // num_words of the runs in `segment` are used no more.
  void Drop(std::int32_t segment, std::int64_t num_words) noexcept;

  std::int32_t* words(std::int32_t segment) {
    return segments_[segment].memory.As<std::int32_t>().data();
  }
  const std::int32_t* words(std::int32_t segment) const {
    return segments_[segment].memory.As<std::int32_t>().data();
  }

  // The closed segment of the fewest words in use, if memory is worth winning
  // back; else kNone.
  std::int32_t SegmentToClean() const;

  std::int64_t num_segments() const {
    return static_cast<std::int64_t>(segments_.size());
  }
  std::int64_t live_words(std::int32_t segment) const {
    return segments_[segment].live;
  }
  std::int64_t total_live_words() const { return total_live_; }
  std::int64_t total_words() const { return total_words_; }

 private:
  struct Segment {
    Buffer memory;
    std::int64_t used = 0;  // words placed, since it was opened
    std::int64_t live = 0;  // those not dropped
  };

  std::int32_t OpenSegment(std::int64_t num_words);

  std::vector<Segment> segments_;
  std::vector<std::int32_t> empty_;   // slots without memory
  std::vector<std::int32_t> spares_;  // segments with memory, all dropped
  std::int32_t open_ = kNone;
  std::int64_t total_live_ = 0;
  std::int64_t total_words_ = 0;  // of all memory held
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_RUN_STORE_H_
