// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_KV_PREFIX_TREE_H_
#define SERVECORE_CC_KV_PREFIX_TREE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cc/base/int_span.h"
#include "cc/kv/eviction_policy.h"
#include "cc/kv/id_run.h"
#include "cc/kv/run_store.h"
#include "cc/kv/use_marks.h"

namespace servecore::kv {

// The tree of token prefixes below PrefixCache: which runs of blocks follow
// which, without locks, references or an order of eviction.
//
// A node is a run of blocks that follow one another without a branch, so a
// prompt of 2,000 blocks is a handful of nodes. The tokens of a run lie side by
// side (run_store.h), and so do its block ids, if they have to be stored at all
// (id_run.h): a lookup is a comparison of two arrays as long as it stays within
// a run, and one probe of a hash table, keyed by the parent and the tokens of
// the next block, where it enters another.
//
// A node is split only by Attach, where new tokens branch off within it. A
// lookup that ends within a node leaves a mark there instead (use_marks.h).
// Splitting copies no tokens, and the end of a node keeps its number, so
// nothing that points to it has to be changed.
//
// Nodes and marks lie in arrays and are reused through lists of free ones;
// nothing is allocated a node once the arrays have grown, and nothing is
// recursive however deep the tree is.
//
// A namespace is a root of its own, which exists while it has children. Roots
// are the negative numbers among parents.
//
// Costs: Find O(tokens), and one O(block_size) hash and O(1) expected probes a
// node entered; Prepare O(tokens), amortised; Attach O(nodes prepared + marks
// of the node that is split); Touch O(nodes + marks); Shrink O(1), and O(marks)
// where a mark ends.
// Copies: tokens and block ids are copied in Prepare, once.
// Thread safety: that of a std::vector.
class PrefixTree {
 public:
  static constexpr std::int32_t kNone = -1;

  // Where a node waits, for whoever orders evictions.
  enum class Queue : std::uint8_t { kNowhere, kHeap, kParked };

  struct Node {
    std::int32_t parent = 0;      // a node, or a root
    std::int32_t num_blocks = 0;  // 0: the node is free
    std::int32_t num_children = 0;
    std::int32_t next_in_bucket = kNone;
    std::uint64_t hash = 0;  // of the first block's tokens and the parent
    BlockUse use;            // of the last block
    std::uint64_t inserted = 0;
    std::int32_t first_mark = kNone;  // the one that ends last
    std::int32_t segment = 0;         // of the run store
    std::int32_t tokens_at = 0;       // words in the segment
    // Ids that count are not stored: the first, and 1 or -1 a block. Others are
    // stored where first_id says, in words of the segment, and id_step is 0.
    std::int32_t first_id = 0;
    std::int32_t id_step = 0;
    std::int32_t next_in_segment = kNone;
    std::int32_t previous_in_segment = kNone;
    bool wide = false;  // tokens are int64: two words each
    Queue queue = Queue::kNowhere;
  };

  // The first num_blocks blocks of a node.
  struct Step {
    std::int32_t node = 0;
    std::int32_t num_blocks = 0;
  };
  // From a root on; only the last step may end before its node does.
  using Path = std::vector<Step>;

  // New nodes in a chain, not yet in the tree.
  using Branch = std::vector<std::int32_t>;

  // `counts_hits` is for UseMarks.
  PrefixTree(std::int64_t block_size, bool counts_hits)
      : block_size_(block_size), marks_(counts_hits) {}

  std::int64_t block_size() const { return block_size_; }

  // kNone where the namespace holds nothing.
  std::int32_t FindRoot(std::string_view ns) const;
  // Throws std::bad_alloc, and then nothing has changed.
  std::int32_t FindOrAddRoot(std::string_view ns);
  void DropRootIfEmpty(std::int32_t root) noexcept;
  std::int64_t num_roots() const {
    return static_cast<std::int64_t>(root_of_namespace_.size());
  }

  // The longest way from `root` along the first num_blocks whole blocks of
  // `tokens`. Adds its steps to `path` and gives the number of blocks found.
  std::int64_t Find(std::int32_t root, const IntSpan& tokens,
                    std::int64_t num_blocks, Path& path) const;

  // Copies the blocks of `runs`, and their tokens from block `begin` on, into
  // new nodes and makes all memory ready that Attach needs. Throws
  // std::bad_alloc, and then the tree means what it did before.
  Branch Prepare(const IntSpan& tokens, std::int64_t begin,
                 std::span<const IdRun> runs);

  // Whether what Prepare copied is what `tokens` is now.
  bool HoldsSame(const Branch& branch, const IntSpan& tokens,
                 std::int64_t begin) const;

  void Discard(const Branch& branch) noexcept;

  // Hangs the branch, which is not empty, below the end of `path`, after
  // splitting the node that the path ends within. `path` ends with the node
  // that the branch hangs on then.
  void Attach(std::int32_t root, Path& path, const Branch& branch,
              std::uint64_t now, std::int32_t priority) noexcept;

  // Makes memory ready for one Touch. Throws std::bad_alloc.
  void ReserveMark() { marks_.Reserve(); }

  // Adds `use` to every block of the path.
  void Touch(const Path& path, const BlockUse& use) noexcept;

  // The number of blocks at the end of a node that were used alike.
  std::int32_t TailLength(std::int32_t node) const;

  // What Shrink did, for undoing or finishing it.
  struct Shrunk {
    std::int32_t node = 0;
    std::int32_t num_blocks = 0;  // taken off
    BlockUse use;                 // before
    std::int32_t first_mark = kNone;
    std::int32_t first_mark_left = kNone;
    bool emptied = false;
  };

  // Takes the last n blocks, at most TailLength, off a node without children,
  // so that all looks as if they were gone; what is needed to undo it stays. A
  // node that has no blocks left is no child of its parent any more. Until the
  // Shrunk is undone or finished, only Shrink may be called.
  Shrunk Shrink(std::int32_t node, std::int32_t n) noexcept;

  // Undoes Shrink; of several the last one first.
  void Unshrink(const Shrunk& shrunk) noexcept;

  // Gives back what Shrink left; of several the first one first.
  void FinishShrink(const Shrunk& shrunk) noexcept;

  // Forgets everything.
  void Clear() noexcept;

  // Its stored ids live until the tree is changed.
  IdRun ids(std::int32_t node) const;
  Node& node(std::int32_t node) { return nodes_[node]; }
  const Node& node(std::int32_t node) const { return nodes_[node]; }
  // Numbers of nodes are below this; those of free nodes too.
  std::int32_t num_slots() const {
    return static_cast<std::int32_t>(nodes_.size());
  }
  std::int64_t num_nodes() const { return num_nodes_; }

  // Verifies every invariant, in O(blocks + tokens). Throws std::logic_error
  // that names the broken one. Gives the number of blocks.
  std::int64_t Check() const;

 private:
  friend class PrefixTreeTestPeer;

  struct Root {
    std::string name;
    std::int64_t num_children = 0;
  };

  static constexpr std::int32_t RootCode(std::int32_t root) {
    return -1 - root;
  }

  std::int64_t WordsPerBlock(const Node& node) const {
    return (node.wide ? 2 : 1) * block_size_ + (node.id_step == 0 ? 1 : 0);
  }
  // One segment holds them, so int32 does.
  std::int32_t TokenWords(const Node& node) const {
    return static_cast<std::int32_t>(node.num_blocks * block_size_ *
                                     (node.wide ? 2 : 1));
  }
  IntSpan TokensOf(const Node& node) const;
  std::int64_t CommonTokensOf(const Node& node, std::int64_t first,
                              const IntSpan& tokens, std::int64_t begin,
                              std::int64_t n) const;
  std::int32_t FindChild(std::int32_t parent, const IntSpan& tokens,
                         std::int64_t begin) const;
  std::uint64_t HashOf(std::int32_t parent, const IntSpan& tokens,
                       std::int64_t begin) const;

  // Whether all tokens fitted into as many words as `wide` says.
  bool Copy(const IntSpan& tokens, std::int64_t begin,
            std::span<const IdRun> runs, bool wide, Branch& branch);
  bool CopyRun(const IntSpan& tokens, std::int64_t begin, const IdRun& run,
               bool wide, Branch& branch);
  void ReserveNodes(std::int64_t n);
  std::int32_t TakeNode() noexcept;
  void FreeNode(std::int32_t node) noexcept;
  RunStore::Place AddRun(std::int64_t num_words);
  void Clean(std::int32_t segment);

  void AddToTable(std::int32_t node) noexcept;
  void RemoveFromTable(std::int32_t node) noexcept;
  void AddToSegment(std::int32_t node) noexcept;
  void RemoveFromSegment(std::int32_t node) noexcept;
  void CountChild(std::int32_t parent, std::int32_t change) noexcept;

  std::int32_t Split(std::int32_t node, std::int32_t num_blocks) noexcept;

  void CheckNode(std::int32_t node) const;
  void CheckSegments() const;
  void CheckRoots(const std::vector<std::int64_t>& num_children) const;

  const std::int64_t block_size_;
  RunStore runs_;
  std::vector<std::int32_t> first_in_segment_;
  std::vector<Node> nodes_;
  std::int32_t free_node_ = kNone;  // linked by next_in_bucket
  std::int64_t num_nodes_ = 0;
  UseMarks marks_;
  std::vector<std::int32_t> buckets_;  // first node of each; 2^k of them
  std::vector<Root> roots_;
  std::vector<std::int32_t> unused_roots_;
  std::map<std::string, std::int32_t, std::less<>> root_of_namespace_;
};

}  // namespace servecore::kv

#endif  // SERVECORE_CC_KV_PREFIX_TREE_H_
