// A read-only trie over the bytes of a vocabulary's pieces: all pieces that begin a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace flare::frontend::tokenizer {

// Immutable after construction.
class PieceTrie {
 public:
  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kRoot = 0;

  PieceTrie() : nodes_(1) {}
  // The last of equal pieces stays; empty ones are left out.
  explicit PieceTrie(std::vector<std::pair<std::string_view, int32_t>> pieces);

  bool empty() const { return nodes_.size() == 1; }
  // The node that `byte` leads to, or kRoot if there is none.
  uint32_t step(uint32_t node, char byte) const {
    const auto label = static_cast<uint8_t>(byte);
    if (node == kRoot) return from_root_[label];
    const Node& from = nodes_[node];
    for (uint32_t i = from.first; i < from.first + from.count; ++i)
      if (nodes_[i].label >= label) return nodes_[i].label == label ? i : kRoot;
    return kRoot;
  }
  // The node behind `text`, or kRoot.
  uint32_t walk(std::string_view text) const;
  // The value of the piece that ends at a node, or kNone.
  int32_t value(uint32_t node) const { return nodes_[node].value; }
  // Calls hit(length, value) for every piece that begins text[at..), shorter ones first; `from` is
  // the node to begin at.
  template <typename Hit>
  void prefixes(std::string_view text, size_t at, Hit&& hit, uint32_t from = kRoot) const {
    uint32_t node = from;
    for (size_t i = at; i < text.size(); ++i) {
      node = step(node, text[i]);
      if (node == kRoot) return;
      if (nodes_[node].value != kNone) hit(i + 1 - at, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;  // children stand together, ascending by label
    uint16_t count = 0;
    uint8_t label = 0;
    int32_t value = kNone;
  };
  std::vector<Node> nodes_;
  uint32_t from_root_[256] = {};
};

}  // namespace flare::frontend::tokenizer
