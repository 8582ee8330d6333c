// The model of a tokenizer.json: from a piece of text to ids, whichever kind it is.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "frontend/tokenizer/bpe.h"
#include "frontend/tokenizer/piece_cache.h"
#include "frontend/tokenizer/unigram.h"
#include "frontend/tokenizer/word_models.h"

namespace flare::frontend::tokenizer {

// Working memory of every kind; confined to one thread.
struct ModelScratch {
  PieceCache cache;
  BpeScratch bpe;
  UnigramScratch unigram;
  std::string characters;
};

// Immutable but for what the kinds say of themselves.
class Model {
 public:
  explicit Model(const Component& component);

  const Vocabulary& vocabulary() const {
    return std::visit([](const auto& kind) -> const Vocabulary& { return kind.vocabulary(); },
                      kind_);
  }
  // Appends the ids of a piece of valid UTF-8.
  void encode(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const;
  // The same for a piece of which each byte stands for a character, as ByteLevel says.
  void encode_bytes(std::string_view piece, std::vector<int32_t>& out, ModelScratch& scratch) const;

 private:
  using Kind = std::variant<Bpe, Unigram, WordPiece, WordLevel>;
  static Kind read(const Component& component);
  Kind kind_;
};

}  // namespace flare::frontend::tokenizer
