// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/named_blocks.h"

#include <algorithm>
#include <stdexcept>

#include "cc/base/errors.h"

namespace servecore::kv {

NamedBlocks::~NamedBlocks() {
  named_.Remove(IdRun(duplicates_));
  cached_.Remove(IdRun(ids_.subspan(begin_, num_added_)));
}

void NamedBlocks::NameDuplicate(std::size_t i) {
  if (cached_.Contains(ids_[i])) Refuse(i);
  duplicates_.push_back(ids_[i]);
  if (named_.AddNew(IdRun(ids_.subspan(i, 1))) == 0) {
    duplicates_.pop_back();
    Refuse(i);
  }
}

void NamedBlocks::NameRest(std::size_t begin, std::span<const IdRun> runs) {
  begin_ = begin;
  for (const IdRun& run : runs) {
    const std::size_t num_new = cached_.AddNew(run);
    num_added_ += num_new;
    if (num_new < run.size()) Refuse(begin + num_added_);
  }
  if (duplicates_.empty()) return;
  for (std::size_t i = begin; i < ids_.size(); ++i) {
    if (named_.Contains(ids_[i])) Refuse(i);
  }
}

void NamedBlocks::Refuse(std::size_t i) const {
  const auto before = ids_.subspan(begin_, std::min(num_added_, i - begin_));
  const bool named_before = named_.Contains(ids_[i]) ||
                            std::ranges::find(before, ids_[i]) != before.end();
  throw std::invalid_argument(StrCat(
      "block_ids[", i, "] is block ", ids_[i],
      named_before ? ", which is named before; each place needs a block of its "
                     "own"
                   : ", which is cached under other tokens; a block can be "
                     "cached at one place only"));
}

}  // namespace servecore::kv
