// Building the trie level by level from sorted pieces.
#include "frontend/tokenizer/piece_trie.h"

#include <algorithm>

namespace flare::frontend::tokenizer {

PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, int32_t>> pieces) : nodes_(1) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // What is still to do: the pieces [begin, end) share the `depth` bytes that lead to a node.
  struct Task {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Task> tasks = {{kRoot, 0, pieces.size(), 0}};
  for (size_t t = 0; t < tasks.size(); ++t) {
    auto [node, begin, end, depth] = tasks[t];
    // Pieces that end here come first.
    for (; begin < end && pieces[begin].first.size() == depth; ++begin)
      if (depth > 0) nodes_[node].value = pieces[begin].second;
    nodes_[node].first = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = pieces[begin].first[depth];
      size_t behind = begin + 1;
      while (behind < end && pieces[behind].first[depth] == label) ++behind;
      tasks.push_back({static_cast<uint32_t>(nodes_.size()), begin, behind, depth + 1});
      nodes_.push_back({0, 0, static_cast<uint8_t>(label), kNone});
      ++nodes_[node].count;
      begin = behind;
    }
  }
  for (uint32_t i = 0; i < nodes_[kRoot].count; ++i)
    from_root_[nodes_[nodes_[kRoot].first + i].label] = nodes_[kRoot].first + i;
}

uint32_t PieceTrie::walk(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char c : text)
    if ((node = step(node, c)) == kRoot) return kRoot;
  return node;
}

}  // namespace flare::frontend::tokenizer
