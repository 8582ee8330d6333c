// The bytes of all text tokens as one tree in preorder, and the tokens of whole plain characters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "frontend/grammar/code_points.h"
#include "frontend/grammar/vocabulary.h"

namespace flare::frontend::grammar {

// Tokens of more bytes are kept out of the trie and tried one by one.
inline constexpr size_t kLongestInTrie = 48;
// Of tokens of more letters than this no slice is made.
inline constexpr uint32_t kSliceLetters = 32;

struct Vocabulary::Trie {
  // Nodes in preorder: node i, then what is below it up to skip[i]. Of a part of the trie, `node`
  // names the node of the whole.
  struct View {
    std::vector<uint8_t> byte, depth;
    std::vector<uint32_t> skip, node;
    size_t size() const { return byte.size(); }
    void push(uint8_t b, uint8_t d, uint32_t n) {
      byte.push_back(b);
      depth.push_back(d);
      skip.push_back(0);
      node.push_back(n);
    }
    void close();  // fills skip from depth
  };
  View all;  // node 0 is the root
  // The tokens that end at node i are tokens[first_token[i] .. first_token[i + 1]); those at or
  // below it end at first_token[skip[i]].
  std::vector<uint32_t> first_token;
  std::vector<int32_t> tokens;
  struct LongToken {
    int32_t id;
    uint32_t letters;  // if it is whole characters of the first slice, else 0
  };
  std::vector<LongToken> long_tokens;
  std::vector<std::vector<int32_t>> markers;  // ids by number of marker

  // Tokens that are whole characters of `letters` only, at most kSliceLetters of them.
  struct Slice {
    CodePointSet letters;
    std::vector<std::vector<uint32_t>> up_to;  // [n]: mask of those of at most n letters
    View rest;                                 // all other tokens
  };
  std::vector<Slice> slices;  // larger ones first

  // What may follow where a JSON string of any content begins ([0]: before its quote) or goes on
  // ([1]): the tokens that stay inside, those that end it, the nodes where others leave it. Each
  // with its letters, as far as the closing quote; one under way counts.
  struct AnyString {
    struct Counted {
      uint32_t letters;
      uint32_t what;  // token, or node
    };
    std::vector<std::vector<uint32_t>> inside_up_to;  // [n]: mask of those of at most n letters
    std::vector<uint32_t> closing;  // mask of tokens whose last byte is the closing quote
    std::vector<Counted> closings;  // the same, one by one
    std::vector<uint32_t> exits;    // nodes of that quote that have children
    std::vector<Counted> counted_exits;
    std::vector<int32_t> rewritten;  // of the tokens through the quote, those that hold escapes
    View through;                    // the nodes on the way to that quote
    const std::vector<uint32_t>& inside() const { return inside_up_to.back(); }
  };
  std::array<AnyString, 2> any_string;

  bool has_children(uint32_t node) const { return all.skip[node] > node + 1; }
};

}  // namespace flare::frontend::grammar
