// A tokenizer.json or a SentencePiece model brought to life: text to ids, ids to text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/marked_text.h"

namespace flare::frontend {

struct EncodeOptions {
  bool add_special_tokens = false;  // the post-processor's prefix and suffix (BOS and the like)
  bool parse_special = true;        // added tokens match in the text
};

// Immutable after construction; every const function may run on any thread.
class Tokenizer {
 public:
  // Parses tokenizer.json. Errors: kInvalid, "where: field, value, expectation"; an unknown
  // component type is named.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view where);
  // The same with the texts that write and read markers, such as the sources of chat templates.
  // They tell which added tokens are structural (serving.md S4.13): special ones, those framed by
  // <| and |>, and those of which a text holds the content, if it is more than white space, or the
  // counterpart, as </x> is that of <x>. Without texts, as above, all are.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view where,
                             const std::vector<std::string_view>& marker_texts);
  // A SentencePiece .model file; `marker_texts` may be nullptr. Encoding is that of the library.
  // Control pieces are special tokens: they match in text that may have them, each part between
  // them is normalised by itself. User-defined pieces match by the model's own rules, but
  // structural ones only where the template wrote them, and not without `parse_special`.
  struct SentencePieceOptions {
    bool add_bos = true;  // add_special_tokens puts the bos piece in front, if there is one
    bool add_eos = false;
  };
  static Tokenizer from_sentencepiece(std::string_view bytes, std::string_view where,
                                      const std::vector<std::string_view>* marker_texts,
                                      SentencePieceOptions options);
  static Tokenizer from_sentencepiece(std::string_view bytes, std::string_view where) {
    return from_sentencepiece(bytes, where, nullptr, {});
  }
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids of one text. Text must be valid UTF-8; invalid parts are replaced by U+FFFD first, and
  // with a SentencePiece model each invalid byte, as its library does.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options) const;
  // Ids of a rendered prompt: a structural token matches only where the template wrote all of it,
  // any other added token anywhere. This never adds a boundary: without structural tokens in caller
  // text the ids equal encode(text, {false, true}).
  std::vector<int32_t> encode(const MarkedText& text) const;

  // Ids of two texts that belong together, and for each id its type: what models that compare
  // texts read. kInvalid if the file says nothing about pairs.
  struct Pair {
    std::vector<int32_t> ids, types;
  };
  Pair encode_pair(std::string_view first, std::string_view second) const;

  // Text of ids as the reference decodes them; ids out of range are skipped.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // Number of addressable ids: largest id + 1 (the model may have more rows).
  int32_t id_limit() const;
  // Exact content of one token as listed (vocabulary spelling); empty if the id is not used.
  std::string_view token_text(int32_t id) const;
  std::optional<int32_t> token_id(std::string_view content) const;
  // The raw bytes that the id contributes when decoded in the middle of a text, in which no broken
  // character is replaced: bytes of byte-level spellings and of <0xNN>, a space where a spelling
  // has a mark for one. Of added tokens their content; empty if the id is not used.
  std::string token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;  // added token with special = true
  bool is_added(int32_t id) const;
  bool is_structural(int32_t id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  static Tokenizer read(std::string_view tokenizer_json, std::string_view where,
                        const std::vector<std::string_view>* marker_texts);
  std::unique_ptr<Impl> impl_;
};

// Decodes one sequence token by token. Concatenated output equals Tokenizer::decode of all ids for
// every way of splitting; what it returns is always valid UTF-8, an unfinished character is held
// back. Confined to one thread; the tokenizer must outlive it.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  // New text that this token completes; may be empty.
  std::string push(int32_t id);
  // What is still held back; an unfinished character becomes U+FFFD as in one-shot decoding.
  std::string finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flare::frontend
