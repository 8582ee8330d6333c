// WordPiece and WordLevel: pieces as the longest parts that the vocabulary has, or as a whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/tokenizer/component.h"
#include "frontend/tokenizer/piece_trie.h"
#include "frontend/tokenizer/vocabulary.h"

namespace flare::frontend::tokenizer {

// Immutable. A word that cannot be cut completely, or has too many characters, is one unknown.
class WordPiece {
 public:
  explicit WordPiece(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece of valid UTF-8. kInvalid if it needs the unknown token and the
  // vocabulary does not have it.
  void encode(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  // Appends the parts of `piece`; false if they do not cover it.
  bool append_parts(std::string_view piece, std::vector<int32_t>& out) const;

  Vocabulary vocabulary_;
  PieceTrie trie_;
  uint32_t inside_ = PieceTrie::kRoot;  // where pieces behind the prefix begin
  bool has_inside_ = true;              // some piece begins with the prefix
  std::string unk_token_;
  size_t max_characters_;
};

// Immutable.
class WordLevel {
 public:
  explicit WordLevel(const Component& component);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  void encode(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  Vocabulary vocabulary_;
  std::string unk_token_;
};

}  // namespace flare::frontend::tokenizer
