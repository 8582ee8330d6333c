// Looking words up, whole and in parts.
#include "frontend/tokenizer/word_models.h"

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

int32_t unknown_id(const Vocabulary& vocabulary, const std::string& token) {
  const int32_t id = vocabulary.find(token);
  if (id == Vocabulary::kNone)
    throw Error(Code::kInvalid, "tokenizer: unk_token {} is needed but not in the vocabulary",
                quote(token));
  return id;
}

bool longer_than(std::string_view text, size_t characters) {
  if (text.size() <= characters) return false;
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    if (++count > characters) return true;
  return false;
}

}  // namespace

WordPiece::WordPiece(const Component& component)
    : vocabulary_(component.at("vocab"), component.path_of("vocab")),
      unk_token_(component.text("unk_token")),
      max_characters_(component.number("max_input_chars_per_word", UINT32_MAX)) {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id)
    if (vocabulary_.used(id)) pieces.emplace_back(vocabulary_.spelling(id), id);
  trie_ = PieceTrie(std::move(pieces));
  const std::string& prefix = component.text("continuing_subword_prefix");
  inside_ = trie_.walk(prefix);
  has_inside_ = inside_ != PieceTrie::kRoot || prefix.empty();
}

bool WordPiece::append_parts(std::string_view piece, std::vector<int32_t>& out) const {
  for (size_t at = 0; at < piece.size();) {
    if (at > 0 && !has_inside_) return false;
    size_t length = 0;
    int32_t id = PieceTrie::kNone;
    trie_.prefixes(
        piece, at,
        [&](size_t found_length, int32_t found) {
          length = found_length;
          id = found;
        },
        at == 0 ? PieceTrie::kRoot : inside_);
    if (id == PieceTrie::kNone) return false;
    out.push_back(id);
    at += length;
  }
  return true;
}

void WordPiece::encode(std::string_view piece, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  if (!longer_than(piece, max_characters_) && append_parts(piece, out)) return;
  out.resize(before);
  out.push_back(unknown_id(vocabulary_, unk_token_));
}

WordLevel::WordLevel(const Component& component)
    : vocabulary_(component.at("vocab"), component.path_of("vocab")),
      unk_token_(component.text("unk_token")) {}

void WordLevel::encode(std::string_view piece, std::vector<int32_t>& out) const {
  const int32_t id = vocabulary_.find(piece);
  out.push_back(id != Vocabulary::kNone ? id : unknown_id(vocabulary_, unk_token_));
}

}  // namespace flare::frontend::tokenizer
