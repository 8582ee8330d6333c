// The prefix tree: which computed prefixes other requests may go on from, and what each is worth.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "package/prepared.h"
#include "runtime/cache/eviction_order.h"
#include "runtime/cache/lost_frontiers.h"
#include "runtime/cache/sequence.h"
#include "runtime/request.h"

namespace flare::runtime {

// Whether a full page alone is no frontier of such a model.
bool has_recurrent_state(const package::Rank& rank);

// A tree of full pages, each under the page before it; the root's children differ by salt too.
// Identity is the token ids and the salt, compared in full; hashes only shorten the search. What
// lies in a sequence's continuation row at some frontier (recurrent state, the open page) is kept
// by snapshots, copies of the row in rows of their own (package.md §11.2). A model without
// recurrent state can go on from every page's end without one.
//
// Eviction is GreedyDual-Size: an entry's worth is the clock of its last use plus the tokens that
// would have to be computed again per byte that it holds; the least goes first and sets the clock,
// of equals the longest unused. The newest snapshot of a named conversation, and its pages, go
// last. An eviction takes logarithmic time.
//
// Confined to the engine thread; the pools outlive it. Whoever else holds a page or a row (a
// sequence, a writer) keeps it from being evicted.
class PrefixTree {
 public:
  using Clock = std::chrono::steady_clock;
  // At most `max_snapshots` rows of the pool are used for snapshots.
  PrefixTree(const package::Rank& rank, BlockPool& pages, BlockPool& rows, uint32_t max_snapshots,
             std::function<Clock::time_point()> now = Clock::now);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // Named conversations whose newest snapshot goes last, and for how long after their last use.
  static constexpr size_t kSessions = 64;
  static constexpr std::chrono::hours kSessionLife{1};

  struct Hit {
    uint32_t tokens = 0;  // of the prompt that need not be computed
    uint32_t known = 0;   // of the prompt that some page or snapshot holds
    PrefixMiss miss = PrefixMiss::kCold;
  };
  // Gives a new sequence the longest usable prefix of `prompt` but for its last token. `session`
  // names the conversation; empty: none.
  Hit restore(std::span<const int32_t> prompt, std::string_view salt, SequenceMemory& sequence,
              std::string_view session = {});
  // Makes the sequence's full pages available; `tokens` are its ids from the first on. Pages that
  // the tree has already take the place of the sequence's own.
  void publish(std::span<const int32_t> tokens, std::string_view salt, SequenceMemory& sequence);
  // Keeps the sequence's row as it stands behind sequence.computed() tokens, whose full pages are
  // published with it. Nothing happens where that frontier is kept already or no row can be had.
  void snapshot(std::span<const int32_t> tokens, std::string_view salt, SequenceMemory& sequence,
                std::string_view session = {});
  // The same for a frontier that a step passes: a row that it fills as it stands behind all of
  // `tokens`; null where that frontier is kept already, is none, or no row can be had. It counts as
  // a snapshot until end_snapshot() takes it over, once the pages before it are published.
  std::byte* begin_snapshot(std::span<const int32_t> tokens, std::string_view salt);
  void end_snapshot(std::span<const int32_t> tokens, std::string_view salt, std::byte* row,
                    std::string_view session = {});
  // Evicts until the pool has `n_pages` free, or nothing is left that only the tree holds.
  void make_room(uint32_t n_pages);
  // Whether a full page alone is no frontier: the model has recurrent state.
  bool needs_snapshots() const { return needs_snapshot_; }

  // For a store behind the tree.
  //
  // How far the tree holds pages of `tokens`, and the furthest frontier within them, in tokens.
  struct Held {
    uint32_t pages = 0;
    uint32_t frontier = 0;
  };
  Held held(std::span<const int32_t> tokens, std::string_view salt);
  struct SnapshotView {
    std::span<const int32_t> tail;  // ids behind the page
    std::byte* row = nullptr;
  };
  // Calls `visit` for every depth whose page agrees with `tokens`, from the root, which has no page
  // (null), to the deepest; `snapshots` are those whose tail agrees too.
  using Visitor = std::function<void(std::span<const int32_t> page_tokens, std::byte* page,
                                     std::span<SnapshotView> snapshots)>;
  void visit(std::span<const int32_t> tokens, std::string_view salt, const Visitor& visitor);
  // A row for a snapshot that someone else fills, reference count 1; null if none can be had. It
  // counts as a snapshot until insert() or return_row() takes it.
  std::byte* take_row();
  void return_row(std::byte* row);
  // Adds pages behind those that it holds of `tokens`, pages[i] being number first + i, and a
  // snapshot behind all of `tokens` (null: none). Takes over one reference of each; what it has
  // already, or what does not join, is released.
  void insert(std::span<const int32_t> tokens, std::string_view salt, uint32_t first,
              std::span<std::byte* const> pages, std::byte* row);

  struct Stats {
    uint32_t pages = 0;  // in the tree, those that sequences hold too included
    uint32_t snapshots = 0;
    uint64_t evicted_pages = 0, evicted_snapshots = 0;
  };
  const Stats& stats() const { return stats_; }
  // Everything that must hold between the tree and its pools; FLARE_ASSERTs where it does not.
  void audit() const;

 private:
  struct Node;
  struct Snapshot {
    Node* node = nullptr;
    std::vector<int32_t> tail;  // ids behind the node's pages, fewer than a page
    std::byte* row = nullptr;
    uint32_t sessions = 0;  // whose newest it is
    EvictionRank rank;
    bool ordered = false;
  };
  struct Node {
    Node* parent = nullptr;
    const std::string* salt = nullptr;  // a root's key
    std::vector<int32_t> tokens;        // one page's; a root has none
    std::byte* page = nullptr;
    uint32_t depth = 0;   // pages from the root to this one, which is counted
    uint64_t prefix = 0;  // prefix_hash of everything up to its end
    std::multimap<size_t, std::unique_ptr<Node>> children;  // by hash of tokens
    std::vector<std::unique_ptr<Snapshot>> snapshots;
    EvictionRank rank;
    bool ordered = false;
  };
  struct Place {
    Node* node = nullptr;
    Snapshot* snapshot = nullptr;  // of the node's; null: the page's end
    uint32_t tokens = 0;
  };
  struct Session {
    std::string name;  // salt and session
    Snapshot* newest = nullptr;
    Clock::time_point used;
  };
  using Sessions = std::list<Session>;

  void clear();
  Node* child(const Node& node, std::span<const int32_t> tokens) const;
  Node& walk(Node& root, std::span<const int32_t> tokens) const;
  Node& root_of(std::string_view salt);
  void erase_if_empty(Node& root);
  Node& add_child(Node& parent, std::span<const int32_t> tokens, std::byte* page);
  Snapshot* find_snapshot(std::span<const int32_t> tokens, std::string_view salt);
  bool needs_row(size_t n_tokens) const;
  Snapshot& add_snapshot(std::span<const int32_t> tokens, std::string_view salt, std::byte* row);
  Place best_place(Node& root, std::span<const int32_t> usable) const;
  uint32_t known_tokens(Node& root, std::span<const int32_t> usable) const;
  bool known_elsewhere(std::span<const int32_t> usable, std::string_view salt, uint32_t known);
  PrefixMiss miss_reason(std::span<const int32_t> usable, std::string_view salt, const Hit& hit);
  void touch(Node& node);
  void touch(Snapshot& snapshot);
  static bool is_followed(const Node& node);
  void update_kept(Snapshot& snapshot);
  void follow(Snapshot& snapshot, std::string_view salt, std::string_view session);
  void forget_oldest_session();
  void expire_sessions();
  bool make_snapshot_room();
  void drop_snapshot(Snapshot& snapshot);
  void drop(Node& node);
  bool may_go(const Node& node) const;
  bool may_go(const Snapshot& snapshot) const;
  void audit(const Node& node) const;

  const package::Rank& rank_;
  BlockPool& pages_;
  BlockPool& rows_;
  const uint32_t max_snapshots_;
  const uint32_t page_tokens_;
  const bool needs_snapshot_;  // there is recurrent state
  const std::function<Clock::time_point()> now_;
  double clock_ = 0;
  uint64_t uses_ = 0;
  uint32_t taken_rows_ = 0;  // by take_row() and begin_snapshot(), not inserted yet
  Stats stats_;
  std::map<std::string, Node, std::less<>> roots_;  // by salt
  EvictionOrder<Node> leaves_;                      // pages that no other stands on
  EvictionOrder<Snapshot> snapshots_;
  LostFrontiers lost_;
  Sessions sessions_;  // last used first
  std::map<std::string, Sessions::iterator, std::less<>> session_of_;
};

}  // namespace flare::runtime
