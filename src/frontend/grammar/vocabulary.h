// The tokens of a model as bytes, in the orders that masks are computed in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::grammar {

struct Token {
  enum class Kind : uint8_t {
    kText,    // contributes bytes
    kMarker,  // a structural token: legal only where a grammar has this marker
    kEnd,     // ends the turn: legal where the answer may end
    kUnused   // never legal
  };
  std::string bytes;  // of a marker its content; empty text is never legal
  Kind kind = Kind::kText;
};

// Immutable; any thread. Made once per model: some 100 ms for 250 000 tokens.
class Vocabulary {
 public:
  // tokens[id].
  explicit Vocabulary(std::vector<Token> tokens);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  size_t mask_words() const { return (tokens_.size() + 31) / 32; }
  const Token& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  std::span<const int32_t> end_tokens() const { return end_tokens_; }
  // Number of the marker with this text (0, 1, …), the same for all ids that share it.
  std::optional<int32_t> marker(std::string_view text) const;

  struct Trie;
  const Trie& trie() const { return *trie_; }

 private:
  std::vector<Token> tokens_;
  std::vector<int32_t> end_tokens_;
  std::vector<std::string> markers_;  // ascending
  std::unique_ptr<Trie> trie_;
};

}  // namespace flare::frontend::grammar
