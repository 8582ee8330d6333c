// Search, publication and eviction of prefixes.
#include "runtime/cache/prefix_tree.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace flare::runtime {
namespace {

// Evicted frontiers that are remembered for the log: about a megabyte.
constexpr size_t kLostFrontiers = 16384;
// Other salts that are searched to say that the salt was why a prompt was not known.
constexpr size_t kSaltsToSearch = 256;

size_t hash_of(std::span<const int32_t> tokens) {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

uint32_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<uint32_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first - a.begin());
}

bool begins_with(std::span<const int32_t> tokens, std::span<const int32_t> beginning) {
  return common_prefix(tokens, beginning) == beginning.size();
}

}  // namespace

bool has_recurrent_state(const package::Rank& rank) {
  return std::ranges::any_of(rank.row.fields, [](const package::RowField& f) {
    return f.kind != package::RowField::Kind::kPartialPage;
  });
}

PrefixTree::PrefixTree(const package::Rank& rank, BlockPool& pages, BlockPool& rows,
                       uint32_t max_snapshots, std::function<Clock::time_point()> now)
    : rank_(rank),
      pages_(pages),
      rows_(rows),
      max_snapshots_(rank.row.bytes == 0 ? 0 : max_snapshots),
      page_tokens_(rank.page.tokens),
      needs_snapshot_(has_recurrent_state(rank)),
      now_(std::move(now)),
      lost_(kLostFrontiers) {}

PrefixTree::~PrefixTree() { clear(); }

PrefixTree::Node& PrefixTree::root_of(std::string_view salt) {
  if (const auto found = roots_.find(salt); found != roots_.end()) return found->second;
  const auto made = roots_.try_emplace(std::string(salt)).first;
  made->second.salt = &made->first;
  made->second.prefix = prefix_hash(salt);
  return made->second;
}

void PrefixTree::erase_if_empty(Node& root) {
  if (root.parent == nullptr && root.children.empty() && root.snapshots.empty())
    roots_.erase(roots_.find(*root.salt));
}

PrefixTree::Node* PrefixTree::child(const Node& node, std::span<const int32_t> tokens) const {
  const auto [first, last] = node.children.equal_range(hash_of(tokens));
  for (auto it = first; it != last; ++it)
    if (std::ranges::equal(it->second->tokens, tokens)) return it->second.get();
  return nullptr;
}

// The deepest node whose pages all lie in `tokens`.
PrefixTree::Node& PrefixTree::walk(Node& root, std::span<const int32_t> tokens) const {
  Node* node = &root;
  if (rank_.page.bytes == 0) return *node;
  for (; tokens.size() >= page_tokens_; tokens = tokens.subspan(page_tokens_)) {
    Node* next = child(*node, tokens.first(page_tokens_));
    if (next == nullptr) break;
    node = next;
  }
  return *node;
}

// The furthest frontier in `usable`; a node of none where there is none.
PrefixTree::Place PrefixTree::best_place(Node& root, std::span<const int32_t> usable) const {
  for (Node* node = &walk(root, usable); node != nullptr; node = node->parent) {
    const uint32_t begin = node->depth * page_tokens_;
    Place best;
    if (!needs_snapshot_ && node->depth > 0) best = {node, nullptr, begin};
    for (const auto& s : node->snapshots) {
      const auto frontier = begin + static_cast<uint32_t>(s->tail.size());
      if (frontier == 0 || (best.node != nullptr && frontier < best.tokens)) continue;
      if (begins_with(usable.subspan(begin), s->tail)) best = {node, s.get(), frontier};
    }
    if (best.node != nullptr) return best;
  }
  return {};
}

// How far pages and snapshots agree with `usable`.
uint32_t PrefixTree::known_tokens(Node& root, std::span<const int32_t> usable) const {
  const Node& deepest = walk(root, usable);
  const uint32_t begin = deepest.depth * page_tokens_;
  uint32_t further = 0;
  for (const auto& [hash, next] : deepest.children)
    further = std::max(further, common_prefix(next->tokens, usable.subspan(begin)));
  for (const auto& s : deepest.snapshots)
    further = std::max(further, common_prefix(s->tail, usable.subspan(begin)));
  return begin + further;
}

bool PrefixTree::known_elsewhere(std::span<const int32_t> usable, std::string_view salt,
                                 uint32_t known) {
  size_t searched = 0;
  for (auto& [other, root] : roots_) {
    if (other == salt) continue;
    if (++searched > kSaltsToSearch) return false;
    const uint32_t there = known_tokens(root, usable);
    if (there >= known + page_tokens_ || (there > known && there == usable.size())) return true;
  }
  return false;
}

PrefixMiss PrefixTree::miss_reason(std::span<const int32_t> usable, std::string_view salt,
                                   const Hit& hit) {
  if (hit.tokens == usable.size()) return PrefixMiss::kNone;
  if (lost_.any_behind(salt, usable, hit.tokens)) return PrefixMiss::kEvicted;
  if (known_elsewhere(usable, salt, hit.known)) return PrefixMiss::kSalt;
  if (hit.known == 0) return PrefixMiss::kCold;
  if (hit.known == usable.size() || hit.known - hit.tokens >= page_tokens_)
    return PrefixMiss::kNoSnapshot;
  return PrefixMiss::kDiverged;
}

PrefixTree::Hit PrefixTree::restore(std::span<const int32_t> prompt, std::string_view salt,
                                    SequenceMemory& sequence, std::string_view session) {
  Hit hit;
  if (prompt.empty()) return hit;
  const std::span<const int32_t> usable = prompt.first(prompt.size() - 1);
  Place place;
  if (const auto found = roots_.find(salt); found != roots_.end()) {
    place = best_place(found->second, usable);
    hit.known = known_tokens(found->second, usable);
  }
  if (place.node != nullptr) {
    std::vector<std::byte*> pages(place.node->depth);
    for (Node* node = place.node; node->parent != nullptr; node = node->parent) {
      pages[node->depth - 1] = node->page;
      touch(*node);
    }
    if (place.snapshot != nullptr) {
      touch(*place.snapshot);
      follow(*place.snapshot, salt, session);
    }
    sequence.adopt(pages, place.snapshot != nullptr ? place.snapshot->row : nullptr, place.tokens);
    hit.tokens = place.tokens;
  }
  hit.miss = miss_reason(usable, salt, hit);
  return hit;
}

PrefixTree::Node& PrefixTree::add_child(Node& parent, std::span<const int32_t> tokens,
                                        std::byte* page) {
  auto made = std::make_unique<Node>();
  made->parent = &parent;
  made->tokens.assign(tokens.begin(), tokens.end());
  made->page = page;
  made->depth = parent.depth + 1;
  made->prefix = prefix_hash(parent.prefix, tokens);
  Node& node = *parent.children.emplace(hash_of(tokens), std::move(made))->second;
  ++stats_.pages;
  leaves_.erase(parent);
  touch(node);
  leaves_.insert(node);
  return node;
}

void PrefixTree::publish(std::span<const int32_t> tokens, std::string_view salt,
                         SequenceMemory& sequence) {
  if (rank_.page.bytes == 0 || sequence.computed() < page_tokens_) return;
  Node* node = &root_of(salt);
  const uint32_t n_full = sequence.computed() / page_tokens_;
  for (uint32_t i = 0; i < n_full; ++i) {
    const std::span<const int32_t> page = tokens.subspan(size_t{i} * page_tokens_, page_tokens_);
    Node* next = child(*node, page);
    if (next == nullptr) {
      pages_.retain(sequence.page_table()[i]);
      next = &add_child(*node, page, sequence.page_table()[i]);
    } else {
      // Computed twice at once. Who publishes below a page holds it: then no page that the tree
      // alone holds lies above one that a sequence holds, and all of them can be evicted.
      if (next->page != sequence.page_table()[i]) sequence.share_page(i, next->page);
      touch(*next);
    }
    node = next;
  }
}

void PrefixTree::snapshot(std::span<const int32_t> tokens, std::string_view salt,
                          SequenceMemory& sequence, std::string_view session) {
  const uint32_t computed = sequence.computed();
  if (computed == 0) return;
  publish(tokens, salt, sequence);
  if (max_snapshots_ == 0) return;
  const std::span<const int32_t> stored = tokens.first(computed);
  if (Snapshot* found = find_snapshot(stored, salt)) {
    touch(*found);
    return follow(*found, salt, session);
  }
  if (!needs_row(computed) || !make_snapshot_room()) return;
  std::byte* const row = rows_.acquire();
  std::memcpy(row, sequence.row(), rank_.row.bytes);
  follow(add_snapshot(stored, salt, row), salt, session);
}

// A page's end is frontier enough for a model without recurrent state.
bool PrefixTree::needs_row(size_t n_tokens) const {
  return needs_snapshot_ || n_tokens % page_tokens_ != 0;
}

std::byte* PrefixTree::begin_snapshot(std::span<const int32_t> tokens, std::string_view salt) {
  if (!needs_row(tokens.size()) || find_snapshot(tokens, salt) != nullptr) return nullptr;
  return take_row();
}

void PrefixTree::end_snapshot(std::span<const int32_t> tokens, std::string_view salt,
                              std::byte* row, std::string_view session) {
  --taken_rows_;
  Snapshot* kept = find_snapshot(tokens, salt);  // meanwhile
  if (kept != nullptr)
    rows_.release(row);
  else
    kept = &add_snapshot(tokens, salt, row);
  follow(*kept, salt, session);
}

PrefixTree::Snapshot* PrefixTree::find_snapshot(std::span<const int32_t> tokens,
                                                std::string_view salt) {
  const auto found = roots_.find(salt);
  if (found == roots_.end()) return nullptr;
  const Node& node = walk(found->second, tokens);
  for (const auto& s : node.snapshots)
    if (std::ranges::equal(s->tail, tokens.subspan(size_t{node.depth} * page_tokens_)))
      return s.get();
  return nullptr;
}

// Behind all of `tokens`, whose pages it has.
PrefixTree::Snapshot& PrefixTree::add_snapshot(std::span<const int32_t> tokens,
                                               std::string_view salt, std::byte* row) {
  Node& node = walk(root_of(salt), tokens);
  const auto tail = tokens.subspan(size_t{node.depth} * page_tokens_);
  auto made = std::make_unique<Snapshot>();
  made->node = &node;
  made->tail.assign(tail.begin(), tail.end());
  made->row = row;
  Snapshot& snapshot = *node.snapshots.emplace_back(std::move(made));
  ++stats_.snapshots;
  touch(snapshot);
  snapshots_.insert(snapshot);
  touch(node);
  return snapshot;
}

// Pages of a recurrent model are worth nothing behind the last snapshot on their way.
void PrefixTree::touch(Node& node) {
  if (node.parent == nullptr) return;
  const bool is_useless = needs_snapshot_ && node.snapshots.empty();
  const double saved = static_cast<double>(page_tokens_) / static_cast<double>(rank_.page.bytes);
  leaves_.set_rank(
      node, {.kept = is_followed(node), .worth = is_useless ? 0 : clock_ + saved, .use = ++uses_});
}

// What a snapshot saves: the way from the frontier before it on the same path.
void PrefixTree::touch(Snapshot& snapshot) {
  const Node& node = *snapshot.node;
  const auto here = node.depth * page_tokens_ + static_cast<uint32_t>(snapshot.tail.size());
  uint32_t before = needs_snapshot_ ? 0 : node.depth * page_tokens_;
  for (const Node* at = &node; at != nullptr && before == 0; at = at->parent)
    for (const auto& other : at->snapshots) {
      const auto there = at->depth * page_tokens_ + static_cast<uint32_t>(other->tail.size());
      if (there < here) before = std::max(before, there);
    }
  const double saved = static_cast<double>(here - before) / static_cast<double>(rank_.row.bytes);
  snapshots_.set_rank(snapshot, {snapshot.sessions > 0, clock_ + saved, ++uses_});
}

bool PrefixTree::is_followed(const Node& node) {
  return std::ranges::any_of(node.snapshots, [](const auto& s) { return s->sessions > 0; });
}

// The last use stays; whether a conversation follows it may have changed.
void PrefixTree::update_kept(Snapshot& snapshot) {
  EvictionRank rank = snapshot.rank;
  rank.kept = snapshot.sessions > 0;
  snapshots_.set_rank(snapshot, rank);
  rank = snapshot.node->rank;
  rank.kept = is_followed(*snapshot.node);
  leaves_.set_rank(*snapshot.node, rank);
}

// The snapshot is the newest of that conversation now.
void PrefixTree::follow(Snapshot& snapshot, std::string_view salt, std::string_view session) {
  if (session.empty()) return;
  std::string name = std::string(salt) + '\0' + std::string(session);
  const auto found = session_of_.find(name);
  if (found == session_of_.end()) {
    sessions_.push_front({std::move(name), nullptr, {}});
    session_of_.emplace(sessions_.front().name, sessions_.begin());
  } else {
    sessions_.splice(sessions_.begin(), sessions_, found->second);
  }
  Session& followed = sessions_.front();
  followed.used = now_();
  Snapshot* const before = std::exchange(followed.newest, &snapshot);
  if (before == &snapshot) return;
  ++snapshot.sessions;
  update_kept(snapshot);
  if (before != nullptr) {
    --before->sessions;
    update_kept(*before);
  }
  while (sessions_.size() > kSessions) forget_oldest_session();
}

void PrefixTree::forget_oldest_session() {
  Session& oldest = sessions_.back();
  if (oldest.newest != nullptr) {
    --oldest.newest->sessions;
    update_kept(*oldest.newest);
  }
  session_of_.erase(oldest.name);
  sessions_.pop_back();
}

void PrefixTree::expire_sessions() {
  if (sessions_.empty()) return;
  const Clock::time_point now = now_();
  while (!sessions_.empty() && now - sessions_.back().used > kSessionLife) forget_oldest_session();
}

void PrefixTree::drop_snapshot(Snapshot& snapshot) {
  if (snapshot.sessions > 0)
    for (Session& session : sessions_)
      if (session.newest == &snapshot) session.newest = nullptr;
  snapshots_.erase(snapshot);
  rows_.release(snapshot.row);
  --stats_.snapshots;
  lost_.add(prefix_hash(snapshot.node->prefix, snapshot.tail));
  Node& node = *snapshot.node;
  std::erase_if(node.snapshots, [&](const auto& s) { return s.get() == &snapshot; });
  if (node.parent == nullptr) return;
  EvictionRank rank = node.rank;
  rank.kept = is_followed(node);
  if (needs_snapshot_ && node.snapshots.empty()) rank.worth = 0;
  leaves_.set_rank(node, rank);
}

// Takes a node without children out of the tree.
void PrefixTree::drop(Node& node) {
  while (!node.snapshots.empty()) {
    drop_snapshot(*node.snapshots.back());
    ++stats_.evicted_snapshots;
  }
  leaves_.erase(node);
  if (!needs_snapshot_) lost_.add(node.prefix);
  pages_.release(node.page);
  --stats_.pages;
  Node& parent = *node.parent;
  const auto [first, last] = parent.children.equal_range(hash_of(node.tokens));
  parent.children.erase(
      std::find_if(first, last, [&](const auto& entry) { return entry.second.get() == &node; }));
  if (parent.parent != nullptr && parent.children.empty()) leaves_.insert(parent);
  erase_if_empty(parent);
}

// Held ones among the leaves are few: each holder holds one path.
bool PrefixTree::may_go(const Node& node) const {
  return pages_.references(node.page) == 1 &&
         std::ranges::all_of(node.snapshots, [this](const auto& s) { return may_go(*s); });
}
bool PrefixTree::may_go(const Snapshot& snapshot) const {
  return rows_.references(snapshot.row) == 1;
}

void PrefixTree::make_room(uint32_t n_pages) {
  if (pages_.available() >= n_pages) return;
  expire_sessions();
  while (pages_.available() < n_pages) {
    Node* const least = leaves_.first([this](const Node& node) { return may_go(node); });
    if (least == nullptr) return;
    clock_ = std::max(clock_, least->rank.worth);
    drop(*least);
    ++stats_.evicted_pages;
  }
}

// False if there is none to be had.
bool PrefixTree::make_snapshot_room() {
  if (stats_.snapshots + taken_rows_ >= max_snapshots_) {
    expire_sessions();
    Snapshot* const least = snapshots_.first([this](const Snapshot& s) { return may_go(s); });
    if (least == nullptr) return false;
    clock_ = std::max(clock_, least->rank.worth);
    Node& node = *least->node;
    drop_snapshot(*least);
    erase_if_empty(node);
    ++stats_.evicted_snapshots;
  }
  return rows_.available() > 0;
}

PrefixTree::Held PrefixTree::held(std::span<const int32_t> tokens, std::string_view salt) {
  const auto found = roots_.find(salt);
  if (found == roots_.end()) return {};
  return {walk(found->second, tokens).depth, best_place(found->second, tokens).tokens};
}

void PrefixTree::visit(std::span<const int32_t> tokens, std::string_view salt,
                       const Visitor& visitor) {
  const auto found = roots_.find(salt);
  if (found == roots_.end()) return;
  const Node* node = &found->second;
  while (node != nullptr) {
    std::vector<SnapshotView> snapshots;
    for (const auto& s : node->snapshots)
      if (begins_with(tokens, s->tail)) snapshots.push_back({s->tail, s->row});
    visitor(node->tokens, node->page, snapshots);
    const bool has_page = rank_.page.bytes > 0 && tokens.size() >= page_tokens_;
    node = has_page ? child(*node, tokens.first(page_tokens_)) : nullptr;
    if (node != nullptr) tokens = tokens.subspan(page_tokens_);
  }
}

std::byte* PrefixTree::take_row() {
  if (max_snapshots_ == 0 || !make_snapshot_room()) return nullptr;
  std::byte* const row = rows_.acquire();
  ++taken_rows_;
  return row;
}

void PrefixTree::return_row(std::byte* row) {
  --taken_rows_;
  rows_.release(row);
}

void PrefixTree::insert(std::span<const int32_t> tokens, std::string_view salt, uint32_t first,
                        std::span<std::byte* const> pages, std::byte* row) {
  Node* node = pages.empty() && row == nullptr ? nullptr : &root_of(salt);
  const auto n_pages = first + static_cast<uint32_t>(pages.size());
  for (uint32_t i = 0; i < n_pages; ++i) {
    const auto page_tokens = tokens.subspan(size_t{i} * page_tokens_, page_tokens_);
    Node* next = node == nullptr ? nullptr : child(*node, page_tokens);
    if (next == nullptr && node != nullptr && i >= first)
      next = &add_child(*node, page_tokens, pages[i - first]);
    else if (i >= first)
      pages_.release(pages[i - first]);
    node = next;
  }
  const bool joins =
      node != nullptr && (tokens.size() - size_t{n_pages} * page_tokens_ < size_t{page_tokens_} ||
                          rank_.page.bytes == 0);
  if (row != nullptr) {
    --taken_rows_;
    if (joins && find_snapshot(tokens, salt) == nullptr)
      add_snapshot(tokens, salt, row);
    else
      rows_.release(row);
  }
  if (const auto root = roots_.find(salt); root != roots_.end()) erase_if_empty(root->second);
}

void PrefixTree::clear() {
  // Deep trees are taken apart from the leaves: a destructor of nodes would recurse.
  while (!roots_.empty()) {
    Node* node = &roots_.begin()->second;
    while (!node->snapshots.empty()) drop_snapshot(*node->snapshots.back());
    if (node->children.empty()) {
      erase_if_empty(*node);
      continue;
    }
    for (bool root_is_left = true; root_is_left;) {
      while (!node->children.empty()) node = node->children.begin()->second.get();
      Node* const parent = node->parent;
      root_is_left = parent->parent != nullptr || parent->children.size() > 1;
      drop(*node);
      node = parent;
    }
  }
  sessions_.clear();
  session_of_.clear();
}

void PrefixTree::audit(const Node& node) const {
  for (const auto& s : node.snapshots) {
    FLARE_ASSERT(s->node == &node && s->ordered && s->row != nullptr);
    FLARE_ASSERT(rows_.references(s->row) >= 1);
    FLARE_ASSERT(rank_.page.bytes == 0 || s->tail.size() < page_tokens_);
    FLARE_ASSERT(s->rank.kept == (s->sessions > 0));
  }
  if (node.parent == nullptr) {
    FLARE_ASSERT(!node.ordered && !(node.children.empty() && node.snapshots.empty()));
    return;
  }
  FLARE_ASSERT(node.depth == node.parent->depth + 1 && node.tokens.size() == page_tokens_);
  FLARE_ASSERT(node.prefix == prefix_hash(node.parent->prefix, node.tokens));
  FLARE_ASSERT(pages_.references(node.page) >= 1);
  FLARE_ASSERT(node.ordered == node.children.empty());
  FLARE_ASSERT(node.rank.kept == is_followed(node));
}

void PrefixTree::audit() const {
  uint32_t n_pages = 0, n_snapshots = 0, n_leaves = 0, n_followed = 0;
  std::vector<const Node*> open;
  for (const auto& [salt, root] : roots_) open.push_back(&root);
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    audit(node);
    n_pages += node.parent != nullptr;
    n_leaves += node.ordered;
    n_snapshots += static_cast<uint32_t>(node.snapshots.size());
    for (const auto& s : node.snapshots) n_followed += s->sessions;
    for (const auto& [hash, next] : node.children) {
      FLARE_ASSERT(next->parent == &node && hash == hash_of(next->tokens));
      open.push_back(next.get());
    }
  }
  FLARE_ASSERT(n_pages == stats_.pages && n_snapshots == stats_.snapshots);
  FLARE_ASSERT(n_leaves == leaves_.size() && n_snapshots == snapshots_.size());
  FLARE_ASSERT(n_snapshots + taken_rows_ <= max_snapshots_);
  FLARE_ASSERT(sessions_.size() == session_of_.size() && sessions_.size() <= kSessions);
  FLARE_ASSERT(n_followed ==
               std::ranges::count_if(sessions_, [](const auto& s) { return s.newest != nullptr; }));
}

}  // namespace flare::runtime
