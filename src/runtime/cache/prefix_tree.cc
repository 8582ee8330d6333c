// Search, publication and eviction of prefixes.
#include "runtime/cache/prefix_tree.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace flare::runtime {
namespace {

size_t hash_of(std::span<const int32_t> tokens) {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
}

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

bool has_recurrent_state(const package::Rank& rank) {
  return std::ranges::any_of(rank.row.fields, [](const package::RowField& f) {
    return f.kind != package::RowField::Kind::kPartialPage;
  });
}

}  // namespace

std::string_view prefix_miss_text(PrefixMiss miss) {
  switch (miss) {
    case PrefixMiss::kNone:
      return "none";
    case PrefixMiss::kCold:
      return "cold";
    case PrefixMiss::kDiverged:
      return "diverged";
    case PrefixMiss::kNoSnapshot:
      return "no_snapshot";
    case PrefixMiss::kDisabled:
      return "disabled";
  }
  return "";
}

PrefixTree::PrefixTree(const package::Rank& rank, BlockPool& pages, BlockPool& rows,
                       uint32_t max_snapshots)
    : rank_(rank),
      pages_(pages),
      rows_(rows),
      max_snapshots_(rank.row.bytes == 0 ? 0 : max_snapshots),
      page_tokens_(rank.page.tokens),
      needs_snapshot_(has_recurrent_state(rank)) {}

PrefixTree::~PrefixTree() { clear(); }

PrefixTree::Node& PrefixTree::root_of(std::string_view salt) {
  const auto found = roots_.find(salt);
  return found != roots_.end() ? found->second : roots_[std::string(salt)];
}

PrefixTree::Node* PrefixTree::child(const Node& node, std::span<const int32_t> tokens) const {
  const auto [first, last] = node.children.equal_range(hash_of(tokens));
  for (auto it = first; it != last; ++it)
    if (std::ranges::equal(it->second->tokens, tokens)) return it->second.get();
  return nullptr;
}

// The deepest node whose pages all lie in `tokens`.
PrefixTree::Node* PrefixTree::walk(Node& root, std::span<const int32_t> tokens) {
  Node* node = &root;
  if (rank_.page.bytes == 0) return node;
  for (; tokens.size() >= page_tokens_; tokens = tokens.subspan(page_tokens_)) {
    Node* next = child(*node, tokens.first(page_tokens_));
    if (next == nullptr) break;
    node = next;
  }
  return node;
}

// The furthest frontier in `usable`; *known: how far pages and snapshots agree with it.
PrefixTree::Place PrefixTree::best_place(Node& root, std::span<const int32_t> usable,
                                         uint32_t* known) {
  Node* const deepest = walk(root, usable);
  *known = deepest->depth * page_tokens_;
  const std::span<const int32_t> behind = usable.subspan(*known);
  size_t further = 0;
  for (const auto& [hash, next] : deepest->children)
    further = std::max(further, common_prefix(next->tokens, behind));
  for (const Snapshot& s : deepest->snapshots)
    further = std::max(further, common_prefix(s.tail, behind));
  *known += static_cast<uint32_t>(further);
  for (Node* node = deepest; node != nullptr; node = node->parent) {
    const uint32_t begin = node->depth * page_tokens_;
    Place best;
    if (!needs_snapshot_ && node->depth > 0) best = {node, SIZE_MAX, begin};
    for (size_t i = 0; i < node->snapshots.size(); ++i) {
      const std::vector<int32_t>& tail = node->snapshots[i].tail;
      const auto frontier = begin + static_cast<uint32_t>(tail.size());
      if (frontier == 0 || (best.node != nullptr && frontier < best.tokens)) continue;
      const std::span<const int32_t> rest = usable.subspan(begin);
      if (common_prefix(tail, rest) == tail.size()) best = {node, i, frontier};
    }
    if (best.node != nullptr) return best;
  }
  return {};
}

PrefixTree::Hit PrefixTree::restore(std::span<const int32_t> prompt, std::string_view salt,
                                    SequenceMemory& sequence) {
  Hit hit;
  const auto found = roots_.find(salt);
  if (found == roots_.end() || prompt.empty()) return hit;
  const std::span<const int32_t> usable = prompt.first(prompt.size() - 1);
  const Place place = best_place(found->second, usable, &hit.known);
  if (place.node != nullptr) {
    std::vector<std::byte*> pages(place.node->depth);
    for (Node* node = place.node; node->parent != nullptr; node = node->parent) {
      pages[node->depth - 1] = node->page;
      touch(*node);
    }
    const std::byte* row = nullptr;
    if (place.snapshot != SIZE_MAX) {
      Snapshot& snapshot = place.node->snapshots[place.snapshot];
      touch(*place.node, snapshot);
      row = snapshot.row;
    }
    sequence.adopt(pages, row, place.tokens);
    hit.tokens = place.tokens;
  }
  if (hit.tokens == usable.size())
    hit.miss = PrefixMiss::kNone;
  else if (hit.known == 0)
    hit.miss = PrefixMiss::kCold;
  else if (hit.known == usable.size() || hit.known - hit.tokens >= page_tokens_)
    hit.miss = PrefixMiss::kNoSnapshot;
  else
    hit.miss = PrefixMiss::kDiverged;
  return hit;
}

void PrefixTree::publish(std::span<const int32_t> tokens, std::string_view salt,
                         SequenceMemory& sequence) {
  if (rank_.page.bytes == 0) return;
  Node* node = &root_of(salt);
  const uint32_t n_full = sequence.computed() / page_tokens_;
  for (uint32_t i = 0; i < n_full; ++i) {
    const std::span<const int32_t> page = tokens.subspan(size_t{i} * page_tokens_, page_tokens_);
    Node* next = child(*node, page);
    if (next == nullptr) {
      auto made = std::make_unique<Node>();
      made->parent = node;
      made->tokens.assign(page.begin(), page.end());
      made->page = sequence.page_table()[i];
      made->depth = i + 1;
      pages_.retain(made->page);
      ++stats_.pages;
      next = node->children.emplace(hash_of(page), std::move(made))->second.get();
    } else if (next->page != sequence.page_table()[i]) {
      // Computed twice at once. Who publishes below a page holds it: then no page that the tree
      // alone holds lies above one that a sequence holds, and all of them can be evicted.
      sequence.share_page(i, next->page);
    }
    touch(*next);
    node = next;
  }
}

void PrefixTree::snapshot(std::span<const int32_t> tokens, std::string_view salt,
                          SequenceMemory& sequence) {
  const uint32_t computed = sequence.computed();
  if (max_snapshots_ == 0 || computed == 0) return;
  publish(tokens, salt, sequence);
  Node* node = walk(root_of(salt), tokens.first(computed));
  const std::span<const int32_t> tail =
      tokens.first(computed).subspan(size_t{node->depth} * page_tokens_);
  if (!needs_snapshot_ && tail.empty()) return;  // the page's end is frontier enough
  for (Snapshot& s : node->snapshots)
    if (std::ranges::equal(s.tail, tail)) return touch(*node, s);
  if (!make_snapshot_room()) return;
  Snapshot made{{tail.begin(), tail.end()}, rows_.acquire()};
  std::memcpy(made.row, sequence.row(), rank_.row.bytes);
  ++stats_.snapshots;
  touch(*node, made);
  node->snapshots.push_back(std::move(made));
}

void PrefixTree::touch(Node& node) {
  node.worth = clock_ + static_cast<double>(page_tokens_) / static_cast<double>(rank_.page.bytes);
}

// What a snapshot saves: the way from the frontier before it on the same path.
void PrefixTree::touch(const Node& node, Snapshot& snapshot) {
  const auto here = node.depth * page_tokens_ + static_cast<uint32_t>(snapshot.tail.size());
  uint32_t before = needs_snapshot_ ? 0 : node.depth * page_tokens_;
  for (const Node* at = &node; at != nullptr; at = at->parent)
    for (const Snapshot& other : at->snapshots) {
      const auto there = at->depth * page_tokens_ + static_cast<uint32_t>(other.tail.size());
      if (&other != &snapshot && there < here) before = std::max(before, there);
    }
  snapshot.worth =
      clock_ + static_cast<double>(here - before) / static_cast<double>(rank_.row.bytes);
}

void PrefixTree::drop_snapshot(Node& node, size_t index) {
  rows_.release(node.snapshots[index].row);
  node.snapshots.erase(node.snapshots.begin() + static_cast<ptrdiff_t>(index));
  --stats_.snapshots;
}

// Takes a node without children out of the tree.
void PrefixTree::drop(Node& node) {
  while (!node.snapshots.empty()) {
    drop_snapshot(node, 0);
    ++stats_.evicted_snapshots;
  }
  pages_.release(node.page);
  --stats_.pages;
  Node& parent = *node.parent;
  const auto [first, last] = parent.children.equal_range(hash_of(node.tokens));
  for (auto it = first; it != last; ++it)
    if (it->second.get() == &node) {
      parent.children.erase(it);
      return;
    }
}

// Of the pages that nobody else holds and no other page stands on, the one worth least.
PrefixTree::Node* PrefixTree::least_page(Node& node) {
  Node* least = nullptr;
  const auto better = [&least](Node* other) {
    if (other != nullptr && (least == nullptr || other->worth < least->worth)) least = other;
  };
  for (auto& [hash, next] : node.children) better(least_page(*next));
  if (node.parent != nullptr && node.children.empty() && pages_.references(node.page) == 1)
    better(&node);
  return least;
}

void PrefixTree::make_room(uint32_t n_pages) {
  while (pages_.available() < n_pages) {
    Node* least = nullptr;
    for (auto& [salt, root] : roots_) {
      Node* other = least_page(root);
      if (other != nullptr && (least == nullptr || other->worth < least->worth)) least = other;
    }
    if (least == nullptr) return;
    clock_ = std::max(clock_, least->worth);
    drop(*least);
    ++stats_.evicted_pages;
  }
  std::erase_if(roots_, [](const auto& entry) {
    return entry.second.children.empty() && entry.second.snapshots.empty();
  });
}

void PrefixTree::least_snapshot(Node& node, Node** holder, size_t* index) {
  for (size_t i = 0; i < node.snapshots.size(); ++i)
    if (*holder == nullptr || node.snapshots[i].worth < (*holder)->snapshots[*index].worth) {
      *holder = &node;
      *index = i;
    }
  for (auto& [hash, next] : node.children) least_snapshot(*next, holder, index);
}

// False if there is none to be had.
bool PrefixTree::make_snapshot_room() {
  if (stats_.snapshots < max_snapshots_) return rows_.available() > 0;
  Node* holder = nullptr;
  size_t index = 0;
  for (auto& [salt, root] : roots_) least_snapshot(root, &holder, &index);
  if (holder == nullptr) return false;
  clock_ = std::max(clock_, holder->snapshots[index].worth);
  drop_snapshot(*holder, index);
  ++stats_.evicted_snapshots;
  return true;
}

void PrefixTree::clear() {
  // Deep trees are taken apart from the leaves: a destructor of nodes would recurse.
  for (auto& [salt, root] : roots_) {
    while (!root.snapshots.empty()) drop_snapshot(root, 0);
    Node* node = &root;
    while (node != &root || !root.children.empty()) {
      if (!node->children.empty()) {
        node = node->children.begin()->second.get();
        continue;
      }
      Node* const parent = node->parent;
      drop(*node);
      node = parent;
    }
  }
  roots_.clear();
}

void PrefixTree::audit(const Node& node, uint32_t* n_pages, uint32_t* n_snapshots) const {
  for (const Snapshot& s : node.snapshots) {
    FLARE_ASSERT(s.row != nullptr && rows_.references(s.row) == 1);
    FLARE_ASSERT(rank_.page.bytes == 0 || s.tail.size() < page_tokens_);
    ++*n_snapshots;
  }
  for (const auto& [hash, next] : node.children) {
    FLARE_ASSERT(next->parent == &node && next->depth == node.depth + 1);
    FLARE_ASSERT(next->tokens.size() == page_tokens_ && hash == hash_of(next->tokens));
    FLARE_ASSERT(pages_.references(next->page) >= 1);
    ++*n_pages;
    audit(*next, n_pages, n_snapshots);
  }
}

void PrefixTree::audit() const {
  uint32_t n_pages = 0, n_snapshots = 0;
  for (const auto& [salt, root] : roots_) audit(root, &n_pages, &n_snapshots);
  FLARE_ASSERT(n_pages == stats_.pages && n_snapshots == stats_.snapshots);
  FLARE_ASSERT(n_snapshots <= max_snapshots_);
}

}  // namespace flare::runtime
