// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_BLOCK_GROUPS_H_
#define SERVECORE_CC_KV_BLOCK_GROUPS_H_

#include <cstddef>
#include <cstdint>

#include "cc/kv/id_run.h"

namespace servecore::kv {

// Blocks are kept account of in groups of 64 neighbouring ids, of which the
// first is a multiple of 64: as many as there are bits in a word.
inline constexpr std::int32_t kGroupBlocks = 64;

// Goes through a run of ids in order. Where all of a group comes in a row, from
// its lowest id on or from its highest on, it calls on_group(group, place of
// its first id in the run), which does for all of them at once what is to be
// done, or gives false. For each other id it calls on_block(id), which gives
// false to stop there. Gives the number of ids that were done.
//
// Ids may be anything: groups are those of ids from 0 on.
//
// Costs: O(1) for each call, and O(1) for each stored id.
template <class OnGroup, class OnBlock>
std::size_t ForEachInGroups(const IdRun& run, const OnGroup& on_group,
                            const OnBlock& on_block) {
  constexpr std::int32_t kLast = kGroupBlocks - 1;
  std::size_t i = 0;
  std::int32_t step = run.step();
  std::size_t end_of_counting = step == 0 ? 0 : run.size();
  while (i < run.size()) {
    const std::int32_t id = run[i];
    const std::int32_t place = id & kLast;
    // Only an id at an end of its group is worth a look at what follows.
    if ((place == 0 || place == kLast) && id >= 0 &&
        i + kGroupBlocks <= run.size()) {
      if (i >= end_of_counting) {
        const auto left = run.stored().subspan(i);
        end_of_counting = i + CountingLength(left);
        step = i + 1 < end_of_counting ? left[1] - left[0] : 0;
      }
      if ((step > 0) == (place == 0)) {
        const std::size_t before = i;
        for (std::int32_t group = id / kGroupBlocks;
             i + kGroupBlocks <= end_of_counting && on_group(group, i);
             group += step) {
          i += kGroupBlocks;
        }
        if (i > before) continue;
      }
    }
    if (!on_block(id)) break;
    ++i;
  }
  return i;
}

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_BLOCK_GROUPS_H_
