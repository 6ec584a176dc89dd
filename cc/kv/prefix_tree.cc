// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/prefix_tree.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cc/base/errors.h"
#include "cc/kv/token_compare.h"

namespace servecore::kv {
namespace {

constexpr std::size_t kFewestBuckets = 16;

// Segments that one Prepare cleans at most, so that no insert takes long.
constexpr int kMaxCleaned = 4;

// Less room than this in the open segment is not worth a node of its own.
constexpr std::int64_t kSmallestPiece = 1024;

[[noreturn]] void ThrowBroken(const std::string& what) {
  throw std::logic_error("PrefixCache is corrupt: " + what);
}

// Runs begin at a cache line, and a block of wide tokens is a whole number of
// int64, so such tokens are aligned wherever a run was split.
const std::int64_t* AsWide(const std::int32_t* words) {
  return reinterpret_cast<const std::int64_t*>(words);
}
std::int64_t* AsWide(std::int32_t* words) {
  return reinterpret_cast<std::int64_t*>(words);
}

}  // namespace

std::int32_t PrefixTree::FindRoot(std::string_view ns) const {
  const auto found = root_of_namespace_.find(ns);
  return found == root_of_namespace_.end() ? kNone : found->second;
}

std::int32_t PrefixTree::FindOrAddRoot(std::string_view ns) {
  const std::int32_t found = FindRoot(ns);
  if (found != kNone) return found;
  if (unused_roots_.empty()) {
    roots_.emplace_back();
    // So that giving a root back never needs memory.
    unused_roots_.reserve(roots_.capacity());
    unused_roots_.push_back(static_cast<std::int32_t>(roots_.size() - 1));
  }
  const std::int32_t root = unused_roots_.back();
  std::string name(ns);
  root_of_namespace_.emplace(name, root);
  roots_[root] = {.name = std::move(name)};
  unused_roots_.pop_back();
  return root;
}

void PrefixTree::DropRootIfEmpty(std::int32_t root) noexcept {
  if (roots_[root].num_children > 0) return;
  const auto found = root_of_namespace_.find(roots_[root].name);
  if (found == root_of_namespace_.end()) return;  // several asked for it
  root_of_namespace_.erase(found);
  unused_roots_.push_back(root);
}

std::int64_t PrefixTree::Find(std::int32_t root, const IntSpan& tokens,
                              std::int64_t num_blocks, Path& path) const {
  std::int64_t num_found = 0;
  std::int32_t parent = RootCode(root);
  while (num_found < num_blocks) {
    const std::int32_t child =
        FindChild(parent, tokens, num_found * block_size_);
    if (child == kNone) break;
    const Node& node = nodes_[child];
    const std::int64_t limit =
        std::min<std::int64_t>(node.num_blocks, num_blocks - num_found);
    // FindChild compared the first block.
    const std::int64_t common =
        1 + CommonTokensOf(node, block_size_, tokens,
                           (num_found + 1) * block_size_,
                           (limit - 1) * block_size_) /
                block_size_;
    path.push_back(
        {.node = child, .num_blocks = static_cast<std::int32_t>(common)});
    num_found += common;
    if (common < node.num_blocks) break;
    parent = child;
  }
  return num_found;
}

PrefixTree::Branch PrefixTree::Prepare(const IntSpan& tokens,
                                       std::int64_t begin,
                                       std::span<const IdRun> runs) {
  for (int i = 0; i < kMaxCleaned; ++i) {
    const std::int32_t segment = runs_.SegmentToClean();
    if (segment == RunStore::kNone) break;
    Clean(segment);
  }
  Branch branch;
  try {
    // Nearly every token fits int32, so that is found out on the way.
    if (!Copy(tokens, begin, runs, /*wide=*/false, branch)) {
      Discard(std::exchange(branch, {}));
      Copy(tokens, begin, runs, /*wide=*/true, branch);
    }
  } catch (...) {
    Discard(branch);
    throw;
  }
  return branch;
}

bool PrefixTree::Copy(const IntSpan& tokens, std::int64_t begin,
                      std::span<const IdRun> runs, bool wide, Branch& branch) {
  bool fitted = true;
  for (const IdRun& run : runs) {
    fitted &= CopyRun(tokens, begin, run, wide, branch);
    begin += static_cast<std::int64_t>(run.size());
  }
  return fitted;
}

bool PrefixTree::CopyRun(const IntSpan& tokens, std::int64_t begin,
                         const IdRun& run, bool wide, Branch& branch) {
  Node node;
  node.wide = wide;
  node.id_step = run.step();
  const std::int64_t words_per_block = WordsPerBlock(node);
  const auto num_blocks = static_cast<std::int64_t>(run.size());
  // A piece for the open segment, one for each further one, and one for Split.
  const std::int64_t per_segment = std::max<std::int64_t>(
      1, (RunStore::kSegmentWords - RunStore::kAlignWords) / words_per_block);
  const std::int64_t most_pieces = 2 + num_blocks / per_segment;
  ReserveNodes(most_pieces + 1);
  branch.reserve(branch.size() + static_cast<std::size_t>(most_pieces));
  bool fitted = true;
  for (std::int64_t i = 0; i < num_blocks;) {
    std::int64_t room = runs_.room() - RunStore::kAlignWords;
    if (room < std::max(words_per_block, kSmallestPiece)) {
      room = RunStore::kSegmentWords - RunStore::kAlignWords;
    }
    const std::int64_t n =
        std::clamp<std::int64_t>(room / words_per_block, 1, num_blocks - i);
    const RunStore::Place place = AddRun(n * words_per_block);
    const std::int32_t added = TakeNode();
    node.num_blocks = static_cast<std::int32_t>(n);
    node.segment = place.segment;
    node.tokens_at = place.offset;
    node.first_id = run.step() != 0 ? run[static_cast<std::size_t>(i)]
                                    : node.tokens_at + TokenWords(node);
    nodes_[added] = node;
    AddToSegment(added);
    branch.push_back(added);
    std::int32_t* const words = runs_.words(place.segment);
    std::int32_t* const token_words = words + node.tokens_at;
    const std::int64_t first = (begin + i) * block_size_;
    fitted &=
        wide ? CopyTokens(tokens, first, n * block_size_, AsWide(token_words))
             : CopyTokens(tokens, first, n * block_size_, token_words);
    if (run.step() == 0) {
      std::copy_n(run.stored().begin() + i, n, words + node.first_id);
    }
    i += n;
  }
  return fitted;
}

bool PrefixTree::HoldsSame(const Branch& branch, const IntSpan& tokens,
                           std::int64_t begin) const {
  for (const std::int32_t added : branch) {
    const Node& node = nodes_[added];
    const std::int64_t num_tokens = node.num_blocks * block_size_;
    if (CommonTokensOf(node, 0, tokens, begin * block_size_, num_tokens) !=
        num_tokens) {
      return false;
    }
    begin += node.num_blocks;
  }
  return true;
}

void PrefixTree::Discard(const Branch& branch) noexcept {
  for (const std::int32_t node : branch) {
    RemoveFromSegment(node);
    runs_.Drop(nodes_[node].segment,
               nodes_[node].num_blocks * WordsPerBlock(nodes_[node]));
    FreeNode(node);
  }
}

void PrefixTree::Attach(std::int32_t root, Path& path, const Branch& branch,
                        std::uint64_t now, std::int32_t priority) noexcept {
  std::int32_t parent = RootCode(root);
  if (!path.empty()) {
    Step& last = path.back();
    if (last.num_blocks < nodes_[last.node].num_blocks) {
      last.node = Split(last.node, last.num_blocks);
    }
    parent = last.node;
  }
  for (const std::int32_t added : branch) {
    Node& node = nodes_[added];
    node.parent = parent;
    node.use = {.hits = 0, .last_use = now, .priority = priority};
    node.inserted = now;
    node.hash = HashOf(parent, TokensOf(node), 0);
    AddToTable(added);
    CountChild(parent, 1);
    parent = added;
  }
}

void PrefixTree::Touch(const Path& path, const BlockUse& use) noexcept {
  for (const Step& step : path) {
    Node& node = nodes_[step.node];
    if (step.num_blocks < node.num_blocks) {
      marks_.Add(node.first_mark, step.num_blocks, use);
    } else {
      node.use.Add(use);
      marks_.DropNeedless(node.first_mark, node.use);
    }
  }
}

std::int32_t PrefixTree::TailLength(std::int32_t node) const {
  const Node& n = nodes_[node];
  return n.num_blocks - (n.first_mark == kNone ? 0 : marks_[n.first_mark].end);
}

PrefixTree::Shrunk PrefixTree::Shrink(std::int32_t node,
                                      std::int32_t n) noexcept {
  Node& shrunk = nodes_[node];
  Shrunk done = {.node = node,
                 .num_blocks = n,
                 .use = shrunk.use,
                 .first_mark = shrunk.first_mark};
  shrunk.num_blocks -= n;
  if (shrunk.num_blocks == 0) {
    done.emptied = true;
    CountChild(shrunk.parent, -1);
  } else if (shrunk.first_mark != kNone &&
             marks_[shrunk.first_mark].end == shrunk.num_blocks) {
    shrunk.use.Add(marks_[shrunk.first_mark].use);
    shrunk.first_mark = marks_[shrunk.first_mark].next;
  }
  done.first_mark_left = shrunk.first_mark;
  return done;
}

void PrefixTree::Unshrink(const Shrunk& shrunk) noexcept {
  Node& node = nodes_[shrunk.node];
  if (shrunk.emptied) CountChild(node.parent, 1);
  node.num_blocks += shrunk.num_blocks;
  node.use = shrunk.use;
  node.first_mark = shrunk.first_mark;
}

void PrefixTree::FinishShrink(const Shrunk& shrunk) noexcept {
  marks_.Drop(shrunk.first_mark, shrunk.first_mark_left);
  const Node& node = nodes_[shrunk.node];
  if (shrunk.emptied) {
    RemoveFromTable(shrunk.node);
    RemoveFromSegment(shrunk.node);
  }
  runs_.Drop(node.segment, shrunk.num_blocks * WordsPerBlock(node));
  if (shrunk.emptied) {
    const std::int32_t parent = node.parent;
    FreeNode(shrunk.node);
    if (parent < 0) DropRootIfEmpty(RootCode(parent));
  }
}

void PrefixTree::Clear() noexcept {
  for (std::int32_t i = 0; i < num_slots(); ++i) {
    const Node& node = nodes_[i];
    if (node.num_blocks == 0) continue;
    marks_.Drop(node.first_mark);
    RemoveFromSegment(i);
    runs_.Drop(node.segment, node.num_blocks * WordsPerBlock(node));
    FreeNode(i);
  }
  std::ranges::fill(buckets_, kNone);
  for (const auto& [name, root] : root_of_namespace_) {
    unused_roots_.push_back(root);
  }
  root_of_namespace_.clear();
}

IdRun PrefixTree::ids(std::int32_t node) const {
  const Node& n = nodes_[node];
  const auto size = static_cast<std::size_t>(n.num_blocks);
  if (n.id_step != 0) return {n.first_id, n.id_step, size};
  return {std::span(runs_.words(n.segment) + n.first_id, size)};
}

IntSpan PrefixTree::TokensOf(const Node& node) const {
  const std::int32_t* const words = runs_.words(node.segment) + node.tokens_at;
  const std::int64_t n = node.num_blocks * block_size_;
  if (node.wide) return StridedSpan<std::int64_t>(AsWide(words), n);
  return StridedSpan<std::int32_t>(words, n);
}

std::int64_t PrefixTree::CommonTokensOf(const Node& node, std::int64_t first,
                                        const IntSpan& tokens,
                                        std::int64_t begin,
                                        std::int64_t n) const {
  const std::int32_t* const words = runs_.words(node.segment) + node.tokens_at;
  if (node.wide) {
    return CommonTokens(AsWide(words) + first, tokens, begin, n);
  }
  return CommonTokens(words + first, tokens, begin, n);
}

std::int32_t PrefixTree::FindChild(std::int32_t parent, const IntSpan& tokens,
                                   std::int64_t begin) const {
  if (buckets_.empty()) return kNone;
  const std::uint64_t hash = HashOf(parent, tokens, begin);
  std::int32_t child = buckets_[hash & (buckets_.size() - 1)];
  while (child != kNone) {
    const Node& node = nodes_[child];
    if (node.hash == hash && node.parent == parent &&
        CommonTokensOf(node, 0, tokens, begin, block_size_) == block_size_) {
      break;
    }
    child = node.next_in_bucket;
  }
  return child;
}

std::uint64_t PrefixTree::HashOf(std::int32_t parent, const IntSpan& tokens,
                                 std::int64_t begin) const {
  return HashTokens(tokens, begin, block_size_,
                    static_cast<std::uint32_t>(parent));
}

void PrefixTree::ReserveNodes(std::int64_t n) {
  const auto needed = static_cast<std::size_t>(num_nodes_ + n);
  if (needed > nodes_.size()) {
    const std::size_t old_size = nodes_.size();
    const std::size_t size = std::max(needed, 2 * old_size);
    nodes_.resize(size);
    for (std::size_t i = size; i-- > old_size;) {
      nodes_[i].next_in_bucket =
          std::exchange(free_node_, static_cast<std::int32_t>(i));
    }
  }
  if (needed <= buckets_.size()) return;
  buckets_ = std::vector<std::int32_t>(
      std::max(kFewestBuckets, std::bit_ceil(needed)), kNone);
  for (std::int32_t i = 0; i < num_slots(); ++i) {
    if (nodes_[i].num_blocks > 0) AddToTable(i);
  }
}

std::int32_t PrefixTree::TakeNode() noexcept {
  const std::int32_t taken = free_node_;
  free_node_ = nodes_[taken].next_in_bucket;
  nodes_[taken] = {};
  ++num_nodes_;
  return taken;
}

void PrefixTree::FreeNode(std::int32_t node) noexcept {
  nodes_[node] = {};
  nodes_[node].next_in_bucket = std::exchange(free_node_, node);
  --num_nodes_;
}

RunStore::Place PrefixTree::AddRun(std::int64_t num_words) {
  const RunStore::Place place = runs_.Add(num_words);
  const auto segment = static_cast<std::size_t>(place.segment);
  if (segment >= first_in_segment_.size()) {
    try {
      first_in_segment_.resize(segment + 1, kNone);
    } catch (...) {
      runs_.Drop(place.segment, num_words);
      throw;
    }
  }
  return place;
}

// Moves all runs of a segment, so that it may be used again. A run keeps its
// node, so nothing but the node's place changes.
void PrefixTree::Clean(std::int32_t segment) {
  while (first_in_segment_[segment] != kNone) {
    const std::int32_t moved = first_in_segment_[segment];
    Node& node = nodes_[moved];
    const std::int64_t num_words = node.num_blocks * WordsPerBlock(node);
    const std::int32_t token_words = TokenWords(node);
    const RunStore::Place place = AddRun(num_words);
    std::int32_t* const to = runs_.words(place.segment) + place.offset;
    const std::int32_t* const from = runs_.words(segment);
    std::copy_n(from + node.tokens_at, token_words, to);
    if (node.id_step == 0) {
      std::copy_n(from + node.first_id, node.num_blocks, to + token_words);
      node.first_id = place.offset + token_words;
    }
    RemoveFromSegment(moved);
    node.segment = place.segment;
    node.tokens_at = place.offset;
    AddToSegment(moved);
    runs_.Drop(segment, num_words);
  }
}

void PrefixTree::AddToTable(std::int32_t node) noexcept {
  std::int32_t& bucket = buckets_[nodes_[node].hash & (buckets_.size() - 1)];
  nodes_[node].next_in_bucket = std::exchange(bucket, node);
}

void PrefixTree::RemoveFromTable(std::int32_t node) noexcept {
  std::int32_t* link = &buckets_[nodes_[node].hash & (buckets_.size() - 1)];
  while (*link != node) link = &nodes_[*link].next_in_bucket;
  *link = nodes_[node].next_in_bucket;
}

void PrefixTree::AddToSegment(std::int32_t node) noexcept {
  std::int32_t& first = first_in_segment_[nodes_[node].segment];
  nodes_[node].previous_in_segment = kNone;
  nodes_[node].next_in_segment = first;
  if (first != kNone) nodes_[first].previous_in_segment = node;
  first = node;
}

void PrefixTree::RemoveFromSegment(std::int32_t node) noexcept {
  const Node& removed = nodes_[node];
  const std::int32_t next = removed.next_in_segment;
  const std::int32_t previous = removed.previous_in_segment;
  if (next != kNone) nodes_[next].previous_in_segment = previous;
  (previous == kNone ? first_in_segment_[removed.segment]
                     : nodes_[previous].next_in_segment) = next;
}

void PrefixTree::CountChild(std::int32_t parent, std::int32_t change) noexcept {
  if (parent < 0) {
    roots_[RootCode(parent)].num_children += change;
  } else {
    nodes_[parent].num_children += change;
  }
}

// The beginning gets a new number and the end keeps the old one, for its
// children, the order of eviction and whoever else knows it by that.
std::int32_t PrefixTree::Split(std::int32_t node,
                               std::int32_t num_blocks) noexcept {
  const std::int32_t added = TakeNode();
  Node& tail = nodes_[node];
  Node& head = nodes_[added];
  RemoveFromTable(node);

  head.parent = tail.parent;
  head.hash = tail.hash;
  head.num_blocks = num_blocks;
  head.num_children = 1;
  head.use = tail.use;
  head.inserted = tail.inserted;
  head.segment = tail.segment;
  head.tokens_at = tail.tokens_at;
  head.first_id = tail.first_id;
  head.id_step = tail.id_step;
  head.wide = tail.wide;

  tail.parent = added;
  tail.num_blocks -= num_blocks;
  tail.first_id += tail.id_step == 0 ? num_blocks : tail.id_step * num_blocks;
  tail.tokens_at +=
      static_cast<std::int32_t>(num_blocks * block_size_ * (tail.wide ? 2 : 1));
  head.first_mark = marks_.Cut(tail.first_mark, num_blocks, head.use);

  tail.hash = HashOf(added, TokensOf(tail), 0);
  AddToTable(added);
  AddToTable(node);
  AddToSegment(added);
  return added;
}

std::int64_t PrefixTree::Check() const {
  std::int64_t num_nodes = 0;
  std::int64_t num_blocks = 0;
  std::int64_t num_marks = 0;
  std::vector<std::int32_t> num_children(nodes_.size());
  std::vector<std::int64_t> num_root_children(roots_.size());
  std::vector<std::int64_t> live_words(
      static_cast<std::size_t>(runs_.num_segments()));
  for (std::int32_t i = 0; i < num_slots(); ++i) {
    const Node& node = nodes_[i];
    if (node.num_blocks == 0) continue;
    CheckNode(i);
    ++num_nodes;
    num_blocks += node.num_blocks;
    live_words[node.segment] += node.num_blocks * WordsPerBlock(node);
    if (node.parent < 0) {
      ++num_root_children[RootCode(node.parent)];
    } else {
      ++num_children[node.parent];
    }
    for (std::int32_t mark = node.first_mark; mark != kNone;
         mark = marks_[mark].next) {
      ++num_marks;
    }
  }
  for (std::int32_t i = 0; i < num_slots(); ++i) {
    if (nodes_[i].num_blocks > 0 && nodes_[i].num_children != num_children[i]) {
      ThrowBroken(StrCat("node ", i, " counts ", nodes_[i].num_children,
                         " children and has ", num_children[i]));
    }
  }
  CheckRoots(num_root_children);
  if (num_nodes != num_nodes_) {
    ThrowBroken(
        StrCat("num_nodes is ", num_nodes_, ", but there are ", num_nodes));
  }
  CheckSegments();
  std::int64_t num_entries = 0;
  for (const std::int32_t bucket : buckets_) {
    for (std::int32_t i = bucket; i != kNone && num_entries <= num_nodes;
         i = nodes_[i].next_in_bucket) {
      ++num_entries;
    }
  }
  if (num_entries != num_nodes) {
    ThrowBroken(StrCat("the table has ", num_entries, " nodes of ", num_nodes));
  }
  for (std::int64_t i = 0; i < runs_.num_segments(); ++i) {
    const auto segment = static_cast<std::int32_t>(i);
    if (runs_.live_words(segment) != live_words[i]) {
      ThrowBroken(StrCat("segment ", i, " counts ", runs_.live_words(segment),
                         " words in use and has ", live_words[i]));
    }
  }
  marks_.Check(num_marks);
  return num_blocks;
}

void PrefixTree::CheckNode(std::int32_t node) const {
  const Node& n = nodes_[node];
  if (n.parent < 0) {
    if (RootCode(n.parent) >= static_cast<std::int32_t>(roots_.size())) {
      ThrowBroken(StrCat("node ", node, " belongs to no namespace"));
    }
  } else if (n.parent >= num_slots() || nodes_[n.parent].num_blocks == 0) {
    ThrowBroken(StrCat("node ", node, " continues node ", n.parent,
                       ", which does not exist"));
  } else if (nodes_[n.parent].use.last_use < n.use.last_use ||
             nodes_[n.parent].use.priority < n.use.priority ||
             nodes_[n.parent].use.hits < n.use.hits) {
    ThrowBroken(StrCat("node ", node, " was used later or more than node ",
                       n.parent, ", which it continues"));
  }
  std::int32_t end = n.num_blocks;
  for (std::int32_t mark = n.first_mark; mark != kNone;
       mark = marks_[mark].next) {
    if (marks_[mark].end >= end || marks_[mark].end <= 0) {
      ThrowBroken(StrCat("node ", node, " of ", n.num_blocks,
                         " blocks has a mark at ", marks_[mark].end,
                         " that is out of place"));
    }
    end = marks_[mark].end;
  }
  const IntSpan tokens = TokensOf(n);
  if (n.hash != HashOf(n.parent, tokens, 0) ||
      FindChild(n.parent, tokens, 0) != node) {
    ThrowBroken(StrCat("node ", node, " is not found under its tokens"));
  }
}

void PrefixTree::CheckSegments() const {
  std::int64_t num_listed = 0;
  for (std::size_t i = 0; i < first_in_segment_.size(); ++i) {
    const auto segment = static_cast<std::int32_t>(i);
    std::int32_t previous = kNone;
    for (std::int32_t node = first_in_segment_[i]; node != kNone;
         node = nodes_[node].next_in_segment) {
      if (nodes_[node].num_blocks == 0 || nodes_[node].segment != segment ||
          nodes_[node].previous_in_segment != previous ||
          ++num_listed > num_nodes_) {
        ThrowBroken(
            StrCat("the list of segment ", i, " is broken at node ", node));
      }
      previous = node;
    }
  }
  if (num_listed != num_nodes_) {
    ThrowBroken(StrCat("the lists of segments have ", num_listed, " nodes of ",
                       num_nodes_));
  }
}

void PrefixTree::CheckRoots(
    const std::vector<std::int64_t>& num_children) const {
  std::int64_t num_used = 0;
  for (std::size_t root = 0; root < roots_.size(); ++root) {
    if (num_children[root] == 0) continue;
    ++num_used;
    if (roots_[root].num_children != num_children[root] ||
        FindRoot(roots_[root].name) != static_cast<std::int32_t>(root)) {
      ThrowBroken(StrCat("namespace '", roots_[root].name, "' counts ",
                         roots_[root].num_children, " children and has ",
                         num_children[root]));
    }
  }
  if (num_used != num_roots()) {
    ThrowBroken(StrCat(num_roots(), " namespaces exist, but ", num_used,
                       " hold blocks"));
  }
}

}  // namespace servecore::kv
