// The prefix tree: which computed prefixes other requests may go on from, and what each is worth.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "package/prepared.h"
#include "runtime/cache/sequence.h"
#include "runtime/request.h"

namespace flare::runtime {

// A tree of full pages, each under the page before it; the root's children differ by salt too.
// Identity is the token ids and the salt, compared in full; hashes only shorten the search. What
// lies in a sequence's continuation row at some frontier (recurrent state, the open page) is kept
// by snapshots, copies of the row in rows of their own (package.md §11.2). A model without
// recurrent state can go on from every page's end without one.
//
// Eviction is GreedyDual-Size: an entry's worth is the clock of its last use plus the tokens that
// would have to be computed again per byte that it holds; the least goes first and sets the clock.
//
// Confined to the engine thread; the pools outlive it.
class PrefixTree {
 public:
  // At most `max_snapshots` rows of the pool are used for snapshots.
  PrefixTree(const package::Rank& rank, BlockPool& pages, BlockPool& rows, uint32_t max_snapshots);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  struct Hit {
    uint32_t tokens = 0;  // of the prompt that need not be computed
    uint32_t known = 0;   // of the prompt that some page or snapshot holds
    PrefixMiss miss = PrefixMiss::kCold;
  };
  // Gives a new sequence the longest usable prefix of `prompt` but for its last token.
  Hit restore(std::span<const int32_t> prompt, std::string_view salt, SequenceMemory& sequence);
  // Makes the sequence's full pages available; `tokens` are its ids from the first on. Pages that
  // the tree has already take the place of the sequence's own.
  void publish(std::span<const int32_t> tokens, std::string_view salt, SequenceMemory& sequence);
  // Keeps the sequence's row as it stands behind sequence.computed() tokens, whose full pages are
  // published with it. Nothing happens where that frontier is kept already or no row can be had.
  void snapshot(std::span<const int32_t> tokens, std::string_view salt, SequenceMemory& sequence);
  // Evicts until the pool has `n_pages` free, or nothing is left that only the tree holds.
  void make_room(uint32_t n_pages);
  void clear();
  // Whether a full page alone is no frontier: the model has recurrent state.
  bool needs_snapshots() const { return needs_snapshot_; }

  struct Stats {
    uint32_t pages = 0;  // in the tree, those that sequences hold too included
    uint32_t snapshots = 0;
    uint64_t evicted_pages = 0, evicted_snapshots = 0;
  };
  const Stats& stats() const { return stats_; }
  // Everything that must hold between the tree and its pools; FLARE_ASSERTs where it does not.
  void audit() const;

 private:
  struct Snapshot {
    std::vector<int32_t> tail;  // ids behind the node's pages, fewer than a page
    std::byte* row = nullptr;
    double worth = 0;
  };
  struct Node {
    Node* parent = nullptr;
    std::vector<int32_t> tokens;  // one page's; a root has none
    std::byte* page = nullptr;
    uint32_t depth = 0;  // pages from the root to this one, which is counted
    double worth = 0;
    std::multimap<size_t, std::unique_ptr<Node>> children;  // by hash of tokens
    std::vector<Snapshot> snapshots;
  };
  struct Place {
    Node* node = nullptr;
    size_t snapshot = SIZE_MAX;  // of the node's; SIZE_MAX: the page's end
    uint32_t tokens = 0;
  };

  Node* child(const Node& node, std::span<const int32_t> tokens) const;
  Node* walk(Node& root, std::span<const int32_t> tokens);
  Node& root_of(std::string_view salt);
  Place best_place(Node& root, std::span<const int32_t> usable, uint32_t* known);
  void touch(Node& node);
  void touch(const Node& node, Snapshot& snapshot);
  bool make_snapshot_room();
  void drop_snapshot(Node& node, size_t index);
  void drop(Node& node);
  Node* least_page(Node& node);
  void least_snapshot(Node& node, Node** holder, size_t* index);
  void audit(const Node& node, uint32_t* n_pages, uint32_t* n_snapshots) const;

  const package::Rank& rank_;
  BlockPool& pages_;
  BlockPool& rows_;
  const uint32_t max_snapshots_;
  const uint32_t page_tokens_;
  const bool needs_snapshot_;  // there is recurrent state
  double clock_ = 0;
  Stats stats_;
  std::map<std::string, Node, std::less<>> roots_;  // by salt
};

}  // namespace flare::runtime
