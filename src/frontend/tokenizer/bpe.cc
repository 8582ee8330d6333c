// Reading a BPE model, and from characters to its first symbols.
#include "frontend/tokenizer/bpe.h"

#include <algorithm>

#include "frontend/tokenizer/pre_tokenizer.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

Bpe::Bpe(const Component& component)
    : vocabulary_(component.at("vocab"), component.path_of("vocab")),
      prefix_(component.text_or("continuing_subword_prefix", "")),
      suffix_(component.text_or("end_of_word_suffix", "")),
      fuse_unk_(component.flag_or("fuse_unk", false)),
      byte_fallback_(component.flag_or("byte_fallback", false)),
      ignore_merges_(component.flag_or("ignore_merges", false)) {
  if (component.find("unk_token") != nullptr) unk_token_ = component.text("unk_token");
  for (char32_t c = 0; c < small_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    small_[c] = vocabulary_.find(text);
  }
  for (int b = 0; b < 256; ++b) byte_tokens_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  // Words of byte-level vocabularies are rarely longer, and need no cutting if they are not runs.
  constexpr size_t kLongWord = 128;
  long_piece_ = vocabulary_.find("\u2581") != Vocabulary::kNone ? PieceCache::kMaxBytes : kLongWord;
  if (symbols_are_characters()) joints_.emplace();
  read_merges(component);
  if (prefix_.empty() && suffix_.empty()) {
    byte_symbols_.emplace();
    bool all = true;
    for (int b = 0; b < 256; ++b) {
      (*byte_symbols_)[b] = small_[character_of_byte(static_cast<uint8_t>(b))];
      all &= (*byte_symbols_)[b] != Vocabulary::kNone;
    }
    if (!all) byte_symbols_.reset();
  }
}

void Bpe::read_merges(const Component& component) {
  const Json::Array& list = component.array("merges");
  if (list.size() > kMaxIds)
    throw Error(Code::kInvalid, "{}: {} entries, at most {} expected", component.path_of("merges"),
                list.size(), kMaxIds);
  merges_ = MergeTable(list.size());
  const std::string where = component.path_of("merges");
  uint32_t rank = 0;
  int32_t id = Vocabulary::kNone - 1;  // of the last merge: ids mostly follow the merges' order
  for (const Json& item : list) {
    if (item.is_string()) {
      const std::string_view text = item.as_string();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos)
        throw Error(Code::kInvalid, "{}: {} found, two parts and one space expected", where,
                    quote(text));
      id = add_merge(text.substr(0, space), text.substr(space + 1), rank++, id + 1, where);
    } else if (item.is_array() && item.as_array().size() == 2 && item.as_array()[0].is_string() &&
               item.as_array()[1].is_string()) {
      id = add_merge(item.as_array()[0].as_string(), item.as_array()[1].as_string(), rank++, id + 1,
                     where);
    } else {
      throw Error(Code::kInvalid, "{}[{}]: neither a string nor two strings", where, rank);
    }
  }
}

int32_t Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank, int32_t guess,
                       std::string_view where) {
  const auto id = [&](std::string_view spelling, int32_t likely) {
    const int32_t found = vocabulary_.find_near(spelling, likely);
    if (found == Vocabulary::kNone)
      throw Error(Code::kInvalid, "{}[{}]: token {} is not in the vocabulary", where, rank,
                  quote(spelling));
    return found;
  };
  if (right.size() < prefix_.size())
    throw Error(Code::kInvalid, "{}[{}]: {} found, a token behind prefix {} expected", where, rank,
                quote(right), quote(prefix_));
  std::string joined(left);
  joined += right.substr(prefix_.size());
  const int32_t left_id = id(left, Vocabulary::kNone), right_id = id(right, Vocabulary::kNone);
  const int32_t joined_id = id(joined, guess);
  merges_.add(left_id, right_id, rank, joined_id);
  if (joints_) add_joint(left, right);
  return joined_id;
}

int32_t Bpe::unknown_id() const {
  const int32_t id = vocabulary_.find(*unk_token_);
  if (id == Vocabulary::kNone)
    throw Error(Code::kInvalid, "tokenizer: unk_token {} is needed but not in the vocabulary",
                quote(*unk_token_));
  return id;
}

bool Bpe::append_bytes(std::string_view text, std::vector<int32_t>& symbols) const {
  for (const char c : text)
    if (byte_tokens_[static_cast<uint8_t>(c)] == Vocabulary::kNone) return false;
  for (const char c : text) symbols.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
  return true;
}

int32_t Bpe::character_id(std::string_view character, bool first, bool last,
                          BpeScratch& scratch) const {
  const bool decorated = (!first && !prefix_.empty()) || (last && !suffix_.empty());
  if (!decorated) {
    const int32_t id = character.size() <= 2 ? small_[decode_at(character, 0).code_point]
                                             : vocabulary_.find(character);
    if (id == Vocabulary::kNone) scratch.spelling = character;
    return id;
  }
  scratch.spelling.clear();
  if (!first) scratch.spelling += prefix_;
  scratch.spelling += character;
  if (last) scratch.spelling += suffix_;
  return vocabulary_.find(scratch.spelling);
}

void Bpe::split_into_symbols(std::string_view piece, BpeScratch& scratch) const {
  std::vector<int32_t>& symbols = scratch.symbols;
  symbols.clear();
  int32_t pending = Vocabulary::kNone;  // an unknown symbol that may still grow
  for (size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, utf8_length(piece[at]));
    const bool last = at + character.size() == piece.size();
    const int32_t id = character_id(character, at == 0, last, scratch);
    at += character.size();
    if (id != Vocabulary::kNone) {
      if (pending != Vocabulary::kNone) symbols.push_back(pending);
      pending = Vocabulary::kNone;
      symbols.push_back(id);
      continue;
    }
    // As in the reference, byte tokens do not end a run of unknown characters: it comes behind.
    if (byte_fallback_ && append_bytes(scratch.spelling, symbols)) continue;
    if (!unk_token_) continue;
    if (pending != Vocabulary::kNone && !fuse_unk_) symbols.push_back(pending);
    pending = unknown_id();
  }
  if (pending != Vocabulary::kNone) symbols.push_back(pending);
}

bool Bpe::symbols_are_characters() const {
  if (!prefix_.empty() || !suffix_.empty()) return false;
  // Unknown characters must leave nothing behind that a later part could see.
  const bool all_bytes = byte_fallback_ && std::find(byte_tokens_.begin(), byte_tokens_.end(),
                                                     Vocabulary::kNone) == byte_tokens_.end();
  return !unk_token_ || all_bytes;
}

// By induction a merged token spells its characters, so that the ends of both sides tell over
// which pair of characters a merge reaches. Byte tokens spell something else.
void Bpe::add_joint(std::string_view left, std::string_view right) {
  const auto odd = [&](std::string_view part) {
    return part.empty() || (byte_fallback_ && part.starts_with("<0x") &&
                            std::find(byte_tokens_.begin(), byte_tokens_.end(),
                                      vocabulary_.find(part)) != byte_tokens_.end());
  };
  if (odd(left) || odd(right)) return joints_.reset();
  joints_->add(decode_at(left, previous_start(left, left.size())).code_point,
               decode_at(right, 0).code_point);
}

template <typename EndOfPart, typename Split>
void Bpe::encode_parts(std::string_view piece, EndOfPart&& end_of_part, Split&& split,
                       std::vector<int32_t>& out, BpeScratch& scratch) const {
  if (piece.size() <= long_piece_ || !joints_) {
    split(piece);
    merges_.append_merged(scratch.symbols, out, scratch.merging);
    return;
  }
  for (size_t begin = 0; begin < piece.size();) {
    const size_t end = end_of_part(begin);
    const std::string_view part = piece.substr(begin, end - begin);
    begin = end;
    const bool is_short = part.size() <= PieceCache::kMaxBytes;
    const uint64_t hash = is_short ? hash_of(part) : 0;
    if (is_short && scratch.parts.append(part, hash, out)) continue;
    const size_t first = out.size();
    split(part);
    merges_.append_merged(scratch.symbols, out, scratch.merging);
    if (is_short) scratch.parts.put(part, hash, std::span(out).subspan(first));
  }
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& out, BpeScratch& scratch) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    const int32_t whole = vocabulary_.find(piece);
    if (whole != Vocabulary::kNone) return out.push_back(whole);
  }
  encode_parts(
      piece, [&](size_t begin) { return joints_->end_of_part(piece, begin); },
      [&](std::string_view part) { split_into_symbols(part, scratch); }, out, scratch);
}

void Bpe::encode_bytes(std::string_view piece, std::vector<int32_t>& out,
                       BpeScratch& scratch) const {
  if (piece.empty()) return;
  if (!byte_symbols_ || ignore_merges_) {
    scratch.characters.clear();
    append_characters_of_bytes(piece, scratch.characters);
    if (!byte_symbols_) return encode(scratch.characters, out, scratch);
    const int32_t whole = vocabulary_.find(scratch.characters);
    if (whole != Vocabulary::kNone) return out.push_back(whole);
  }
  const auto character = [&](size_t at) {
    return character_of_byte(static_cast<uint8_t>(piece[at]));
  };
  encode_parts(
      piece,
      [&](size_t begin) {
        size_t end = begin + 1;
        while (end < piece.size() && joints_->joined(character(end - 1), character(end))) ++end;
        return end;
      },
      [&](std::string_view part) {
        scratch.symbols.resize(part.size());
        for (size_t i = 0; i < part.size(); ++i)
          scratch.symbols[i] = (*byte_symbols_)[static_cast<uint8_t>(part[i])];
      },
      out, scratch);
}

}  // namespace flare::frontend::tokenizer
