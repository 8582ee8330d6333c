// Unigram: the segmentation of a piece whose scores add up to most.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/piece_trie.h"
#include "frontend/tokenizer/unicode.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

// The best way to an end, in a Viterbi search.
struct UnigramNode {
  static constexpr uint32_t kUnreached = ~uint32_t{0};
  double score = 0;             // rounded to the type in which sums are kept
  uint32_t start = kUnreached;  // both from the begin of the stretch in work
  int32_t id = 0;
};

// Working memory of encoding; confined to one thread.
struct UnigramScratch {
  std::vector<UnigramNode> nodes;
  std::vector<uint32_t> ends;
};

// How far the score of an unknown character is below the lowest one.
inline constexpr double kUnknownPenalty = 10;

// Cuts `text` into what the pieces of `trie` and single unknown characters add up to most. Calls
// emit(id, begin, end) in order. candidate(so_far, length, id, begin) is the score at the end of a
// piece, or nullopt if it may not stand there; unknown(so_far) that behind an unknown character,
// unknown_id() its id. Where candidates are equal the one that was found first stays. Takes time
// in proportion to the text and the length of pieces, and memory for the longest stretch that
// overlapping pieces cover.
// Total is the type in which sums are kept: double as in HF tokenizers; float as in SentencePiece,
// which lets sums beyond 100,000 begin anew.
template <typename Total, typename Candidate, typename Unknown, typename UnknownId, typename Emit>
void best_segmentation(std::string_view text, const PieceTrie& trie, UnigramScratch& scratch,
                       Candidate&& candidate, Unknown&& unknown, UnknownId&& unknown_id,
                       Emit&& emit) {
  std::vector<UnigramNode>& nodes = scratch.nodes;
  nodes.assign(1, {});
  size_t base = 0, at = 0;
  const auto improve = [&](size_t end, Total score, auto&& id) {
    if (nodes.size() <= end - base) nodes.resize(end - base + 1);
    UnigramNode& node = nodes[end - base];
    if (node.start != UnigramNode::kUnreached && !(score > node.score)) return;
    node.id = id();
    node.score = score;
    node.start = static_cast<uint32_t>(at - base);
  };
  // Everything up to the last node is decided: no piece reaches over it.
  const auto settle = [&] {
    scratch.ends.clear();
    for (auto end = static_cast<uint32_t>(nodes.size() - 1); end > 0; end = nodes[end].start)
      scratch.ends.push_back(end);
    for (auto end = scratch.ends.rbegin(); end != scratch.ends.rend(); ++end)
      emit(nodes[*end].id, base + nodes[*end].start, base + *end);
    base += nodes.size() - 1;
    nodes.front() = {nodes.back().score, UnigramNode::kUnreached, 0};
    nodes.resize(1);
  };
  // Sums at `at` and behind it become those from `at` on.
  const auto begin_anew = [&] {
    const auto offset = static_cast<Total>(nodes[at - base].score);
    for (size_t i = at - base; i < nodes.size(); ++i)
      nodes[i].score = static_cast<Total>(nodes[i].score) - offset;
  };
  constexpr double kLargeSum = std::is_same_v<Total, float> ? 1e5 : INFINITY;
  while (at < text.size()) {
    if (at > base && at - base == nodes.size() - 1) settle();
    if (std::abs(nodes[at - base].score) > kLargeSum) begin_anew();
    const auto so_far = static_cast<Total>(nodes[at - base].score);
    const size_t character = utf8_length(text[at]);
    bool single = false;
    trie.prefixes(text, at, [&](size_t length, int32_t id) {
      const std::optional<Total> score = candidate(so_far, length, id, at);
      if (!score) return;
      improve(at + length, *score, [id] { return id; });
      single |= length == character;
    });
    if (!single) improve(at + character, unknown(so_far), unknown_id);
    at += character;
  }
  if (at > base) settle();
}

// Immutable.
class Unigram {
 public:
  explicit Unigram(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece of valid UTF-8. kInvalid if it needs an unknown token and there is
  // none.
  void encode(std::string_view piece, std::vector<int32_t>& out, UnigramScratch& scratch) const;

 private:
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const;
  int32_t unknown_id() const;

  std::vector<double> scores_;
  Vocabulary vocabulary_;
  PieceTrie trie_;
  std::array<int32_t, 256> byte_tokens_;
  std::optional<int32_t> unk_id_;
  double unk_score_ = 0;
  bool byte_fallback_;
};

}  // namespace flare::frontend::tokenizer
