// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/use_marks.h"

#include <stdexcept>

#include "cc/base/errors.h"

namespace servecore::kv {

void UseMarks::Reserve() {
  if (free_ != kNone) return;
  marks_.emplace_back();
  free_ = static_cast<std::int32_t>(marks_.size() - 1);
}

void UseMarks::Add(std::int32_t& first, std::int32_t end,
                   const BlockUse& use) noexcept {
  std::int32_t* link = &first;
  while (*link != kNone && marks_[*link].end > end) link = &marks_[*link].next;
  if (*link == kNone || marks_[*link].end < end) {
    const std::int32_t added = free_;
    free_ = marks_[added].next;
    marks_[added] = {.end = end, .next = *link, .use = {}};
    *link = added;
  }
  Mark& mark = marks_[*link];
  mark.use.Add(use);
  DropNeedless(mark.next, mark.use);
}

void UseMarks::DropNeedless(std::int32_t& first, const BlockUse& use) noexcept {
  if (counts_hits_) return;
  std::int32_t left = first;
  while (left != kNone && marks_[left].use.last_use <= use.last_use &&
         marks_[left].use.priority <= use.priority) {
    left = marks_[left].next;
  }
  Drop(first, left);
  first = left;
}

std::int32_t UseMarks::Cut(std::int32_t& first, std::int32_t num_blocks,
                           BlockUse& use) noexcept {
  std::int32_t* link = &first;
  while (*link != kNone && marks_[*link].end > num_blocks) {
    Mark& mark = marks_[*link];
    use.Add(mark.use);
    mark.end -= num_blocks;
    link = &mark.next;
  }
  const std::int32_t rest = *link;
  *link = kNone;
  if (rest == kNone || marks_[rest].end < num_blocks) return rest;
  // A mark at the cut says how the first part's end was used.
  use.Add(marks_[rest].use);
  const std::int32_t next = marks_[rest].next;
  Free(rest);
  return next;
}

void UseMarks::Drop(std::int32_t first, std::int32_t until) noexcept {
  while (first != until) {
    const std::int32_t next = marks_[first].next;
    Free(first);
    first = next;
  }
}

void UseMarks::Free(std::int32_t mark) noexcept {
  marks_[mark] = {.end = 0, .next = free_, .use = {}};
  free_ = mark;
}

void UseMarks::Check(std::int64_t num_used) const {
  const auto size = static_cast<std::int64_t>(marks_.size());
  std::int64_t num_free = 0;
  for (std::int32_t mark = free_; mark != kNone && num_free <= size;
       mark = marks_[mark].next) {
    ++num_free;
  }
  if (num_used + num_free != size) {
    throw std::logic_error(StrCat("PrefixCache is corrupt: ", num_used,
                                  " marks are in use and ", num_free,
                                  " free of ", size));
  }
}

}  // namespace servecore::kv
