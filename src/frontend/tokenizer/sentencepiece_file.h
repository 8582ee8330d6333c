// A SentencePiece .model file: pieces, and the settings that encoding and decoding depend on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flare::frontend::tokenizer {

enum class PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct SentencePieceFile {
  enum class Kind { kUnigram = 1, kBpe, kWord, kChar };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  struct Rules {
    std::string charsmap;  // precompiled; empty: none
    bool add_dummy_prefix = true;
    bool remove_extra_spaces = true;
    bool escape_spaces = true;  // as U+2581
  };

  std::vector<Piece> pieces;
  Kind kind = Kind::kUnigram;
  bool space_as_suffix = false;
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string unknown_surface = " \xE2\x81\x87 ";
  Rules rules;
  bool has_denormalizer = false;

  // Reads the protocol buffer sentencepiece.ModelProto. kInvalid "where: field, value,
  // expectation"; unknown fields are passed over.
  static SentencePieceFile read(std::string_view bytes, std::string_view where);
};

}  // namespace flare::frontend::tokenizer
