// Added tokens: whole strings that are cut out of the text before the model sees the rest, and
// which of them structure a prompt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/normalizer.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string decoded;  // what the token decodes to: content, normalised if `normalized`
  bool special = false;
  bool structural = true;    // matches only where the template wrote all of it
  bool normalized = false;   // matches in normalised text
  bool lstrip = false;       // takes white space in front along
  bool rstrip = false;       // takes white space behind along
  bool single_word = false;  // neither neighbour may be a word character
};

// Bytes of a text that the template wrote, as far as they hang together.
struct Interval {
  size_t begin, end;
};

// A stretch of text: an added token, or text between tokens (token == nullptr).
struct Section {
  size_t begin, end;
  const AddedToken* token;
};

// Immutable after construction.
class AddedTokens {
 public:
  AddedTokens() = default;
  // `list` is the array "added_tokens"; the normalizer may be nullptr. For `marker_texts` see
  // Tokenizer::from_json; without them every token is structural.
  AddedTokens(const Json& list, const std::string& path, const Vocabulary& vocabulary,
              const Normalizer* normalizer, const std::vector<std::string_view>* marker_texts);

  // Tokens of a SentencePiece model, none of them normalised. Those that are not special belong to
  // its model: split() does not know them.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string_view>* marker_texts);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int32_t id) const;
  bool any_normalized() const { return !normalized_.empty(); }

  // Cuts text into sections in order. Matches are leftmost, then longest. Structural tokens match
  // within one of the ascending intervals; one that lies outside of them all is plain text as a
  // whole. Of the two sets of tokens `normalized` names one.
  std::vector<Section> split(std::string_view text, bool normalized,
                             const std::vector<Interval>& by_template) const;

 private:
  // A trie over bytes.
  class Trie {
   public:
    Trie() : nodes_(1) { first_bytes_.assign(256, 0); }
    bool empty() const { return nodes_.size() == 1; }
    // The last of equal patterns stays.
    void add(std::string_view pattern, uint32_t token);
    // Calls hit(length, token) for every pattern at text[at], shorter ones first.
    template <typename Hit>
    void matches(std::string_view text, size_t at, Hit&& hit) const;
    // First byte at or behind `at` that begins a pattern, or the size of the text.
    size_t skip(std::string_view text, size_t at) const {
      while (at < text.size() && !first_bytes_[static_cast<uint8_t>(text[at])]) ++at;
      return at;
    }

   private:
    static constexpr uint32_t kNoToken = ~uint32_t{0};
    struct Node {
      uint32_t token = kNoToken;
      std::vector<std::pair<uint8_t, uint32_t>> children;  // ascending by byte
    };
    std::vector<Node> nodes_;
    std::vector<uint8_t> first_bytes_;
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, uint32_t> by_id_;
  std::unordered_map<std::string, uint32_t> by_content_;
  Trie raw_, normalized_;
};

}  // namespace flare::frontend::tokenizer
