// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/run_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace servecore::kv {
namespace {

// Empty segments kept for the next run, so that a cache that turns over does
// not go to the memory allocator. Any more are given back.
constexpr std::size_t kMaxSpares = 4;

std::int64_t RoundUp(std::int64_t num_words) {
  return (num_words + RunStore::kAlignWords - 1) / RunStore::kAlignWords *
         RunStore::kAlignWords;
}

}  // namespace

std::int64_t RunStore::room() const {
  if (open_ == kNone) return 0;
  const Segment& segment = segments_[open_];
  return static_cast<std::int64_t>(segment.memory.size() /
                                   sizeof(std::int32_t)) -
         segment.used;
}

RunStore::Place RunStore::Add(std::int64_t num_words) {
  const std::int64_t rounded = RoundUp(num_words);
  std::int32_t target = open_;
  if (rounded > kSegmentWords) {
    // The open segment stays open: this one is full at once.
    target = OpenSegment(rounded);
  } else if (rounded > room()) {
    target = OpenSegment(kSegmentWords);
    open_ = target;
  }
  Segment& segment = segments_[target];
  const Place place = {.segment = target,
                       .offset = static_cast<std::int32_t>(segment.used)};
  segment.used += rounded;
  segment.live += num_words;
  total_live_ += num_words;
  return place;
}

std::int32_t RunStore::OpenSegment(std::int64_t num_words) {
  if (num_words == kSegmentWords && !spares_.empty()) {
    const std::int32_t segment = spares_.back();
    spares_.pop_back();
    return segment;
  }
  // Room for giving every segment back, which must not need memory.
  spares_.reserve(kMaxSpares);
  if (empty_.capacity() < segments_.size() + 1) {
    empty_.reserve(2 * segments_.size() + 8);
  }
  Buffer memory(static_cast<std::size_t>(num_words) * sizeof(std::int32_t));
  std::int32_t segment = 0;
  if (empty_.empty()) {
    segment = static_cast<std::int32_t>(segments_.size());
    segments_.emplace_back();
  } else {
    segment = empty_.back();
    empty_.pop_back();
  }
  segments_[segment].memory = std::move(memory);
  total_words_ += num_words;
  return segment;
}

void RunStore::Drop(std::int32_t segment, std::int64_t num_words) noexcept {
  Segment& dropped = segments_[segment];
  dropped.live -= num_words;
  total_live_ -= num_words;
  if (dropped.live > 0) return;
  dropped.used = 0;
  if (segment == open_) return;
  const auto size =
      static_cast<std::int64_t>(dropped.memory.size() / sizeof(std::int32_t));
  if (size == kSegmentWords && spares_.size() < kMaxSpares) {
    spares_.push_back(segment);
  } else {
    dropped.memory = Buffer();
    total_words_ -= size;
    empty_.push_back(segment);
  }
}

std::int32_t RunStore::SegmentToClean() const {
  // What is not in use, less what cannot be helped: the open and spare ones.
  const std::int64_t slack =
      static_cast<std::int64_t>(kMaxSpares + 2) * kSegmentWords;
  if (total_words_ - slack <= 2 * total_live_) return kNone;
  std::int32_t emptiest = kNone;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(segments_.size());
       ++i) {
    const Segment& segment = segments_[i];
    if (i == open_ || segment.live == 0 || 2 * segment.live > kSegmentWords) {
      continue;
    }
    if (emptiest == kNone || segment.live < segments_[emptiest].live) {
      emptiest = i;
    }
  }
  return emptiest;
}

}  // namespace servecore::kv
