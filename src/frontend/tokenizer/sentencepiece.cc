// Normalisation and the models, each as the SentencePiece library computes it.
#include "frontend/tokenizer/sentencepiece.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "frontend/tokenizer/normalizer.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
constexpr int32_t kUnknownSymbol = -2;  // merges with nothing

std::vector<std::string_view> texts_of(const SentencePieceFile& file) {
  std::vector<std::string_view> out;
  out.reserve(file.pieces.size());
  for (const auto& piece : file.pieces) out.push_back(piece.text);
  return out;
}

bool any_caller(std::string_view caller, size_t begin, size_t end) {
  return !caller.empty() && caller.substr(begin, end - begin).find('\1') != std::string_view::npos;
}

}  // namespace

// Where ids go: a run of unknown pieces is one of them, unless bytes spell it.
struct SentencePiece::Output {
  const SentencePiece& model;
  std::string_view text;
  std::vector<int32_t>& ids;
  bool unknown_before = false;

  void add(int32_t id, size_t begin, size_t end) {
    const bool unknown = id == model.unk_id_;
    if (unknown && model.byte_fallback_) {
      for (const char c : text.substr(begin, end - begin))
        ids.push_back(model.byte_tokens_[static_cast<uint8_t>(c)]);
    } else if (!unknown || !unknown_before) {
      ids.push_back(id);
    }
    unknown_before = unknown;
  }
};

SentencePiece::SentencePiece(const SentencePieceFile& file, std::string_view where)
    : kind_(file.kind),
      rules_(file.rules),
      space_as_suffix_(file.space_as_suffix),
      byte_fallback_(file.byte_fallback),
      vocabulary_(texts_of(file), where),
      characters_(std::vector<std::string_view>{}, where) {
  if (!rules_.charsmap.empty())
    charsmap_ = Charsmap::read(rules_.charsmap,
                               fmt::format("{}: normalizer_spec.precompiled_charsmap", where));
  rules_.charsmap.clear();
  read_pieces(file, where);
  if (kind_ == SentencePieceFile::Kind::kBpe) read_merges(where);
}

void SentencePiece::read_pieces(const SentencePieceFile& file, std::string_view where) {
  const size_t count = file.pieces.size();
  types_.resize(count);
  scores_.resize(count);
  structural_.assign(count, false);
  reserved_.assign(count, false);
  least_ = std::numeric_limits<float>::max();
  std::vector<std::pair<std::string_view, int32_t>> user, segments;
  for (size_t i = 0; i < count; ++i) {
    const SentencePieceFile::Piece& piece = file.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (vocabulary_.find(piece.text) != id)
      throw Error(Code::kInvalid, "{}: piece {}: {} is there twice", where, i, quote(piece.text));
    // Converters that know nothing of bytes write a piece for zero: the library passes over it.
    const bool zero = byte_fallback_ && piece.text == std::string_view("\0", 1);
    types_[i] = zero ? PieceType::kUnused : piece.type;
    scores_[i] = piece.score;
    if (types_[i] == PieceType::kNormal) least_ = std::min(least_, piece.score);
    if (types_[i] == PieceType::kUnknown) {
      if (unk_id_ != Vocabulary::kNone)
        throw Error(Code::kInvalid, "{}: pieces {} and {} are unknown pieces, one expected", where,
                    unk_id_, i);
      unk_id_ = id;
    }
    reserved_[i] = types_[i] == PieceType::kUnknown || types_[i] == PieceType::kControl ||
                   types_[i] == PieceType::kByte;
    if (types_[i] == PieceType::kUserDefined) user.emplace_back(piece.text, id);
    if (!reserved_[i]) segments.emplace_back(piece.text, id);
  }
  if (unk_id_ == Vocabulary::kNone && !byte_fallback_)
    throw Error(Code::kInvalid, "{}: no unknown piece, one expected", where);
  user_defined_ = PieceTrie(std::move(user));
  if (kind_ == SentencePieceFile::Kind::kUnigram) pieces_ = PieceTrie(std::move(segments));
  for (int b = 0; b < 256 && byte_fallback_; ++b) {
    const std::string name = fmt::format("<0x{:02X}>", b);
    const int32_t id = vocabulary_.find(name);
    if (id == Vocabulary::kNone || types_[id] != PieceType::kByte)
      throw Error(Code::kInvalid, "{}: byte_fallback, but {} is no byte piece", where, name);
    byte_tokens_[b] = id;
  }
}

// The id of a piece that may take part in merges, the number of a character that may, or
// kUnknownSymbol.
int32_t SentencePiece::symbol_of(std::string_view text) const {
  const int32_t id = vocabulary_.find(text);
  if (id != Vocabulary::kNone && !reserved_[id]) return id;
  const int32_t character = characters_.find(text);
  return character == Vocabulary::kNone ? kUnknownSymbol : vocabulary_.id_limit() + character;
}

// Characters that are no pieces, but parts of some.
void SentencePiece::read_characters(std::string_view where) {
  std::vector<std::string_view> characters;
  std::unordered_set<std::string_view> seen;
  const auto note = [&](std::string_view character) {
    const int32_t id = vocabulary_.find(character);
    if ((id == Vocabulary::kNone || reserved_[id]) && seen.insert(character).second)
      characters.push_back(character);
  };
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id) {
    if (reserved_[id]) continue;
    const std::string_view text = vocabulary_.spelling(id);
    constexpr size_t kLongest = 4096;  // cutting a piece in two is quadratic
    if (text.size() > kLongest)
      throw Error(Code::kInvalid, "{}: piece {} has {} bytes, at most {} expected", where, id,
                  text.size(), kLongest);
    note(text.substr(0, utf8_length(text[0])));
    note(text.substr(previous_start(text, text.size())));
  }
  characters_ = Vocabulary(characters, "characters");
}

// Two symbols merge if what they spell is a piece; the best score goes first.
std::vector<SentencePiece::Join> SentencePiece::joins() const {
  std::vector<int32_t> order;
  for (int32_t id = 0; id < vocabulary_.id_limit(); ++id)
    if (!reserved_[id]) order.push_back(id);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores_[a] > scores_[b]; });
  std::vector<Join> out;
  uint32_t rank = 1;  // 0: a character
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t id = order[i];
    if (i > 0 && scores_[id] != scores_[order[i - 1]]) ++rank;
    const std::string_view text = vocabulary_.spelling(id);
    for (size_t at = utf8_length(text[0]); at < text.size(); at += utf8_length(text[at])) {
      const int32_t left = symbol_of(text.substr(0, at)), right = symbol_of(text.substr(at));
      if (left >= 0 && right >= 0) out.push_back({left, right, id, rank});
    }
  }
  return out;
}

void SentencePiece::read_merges(std::string_view where) {
  read_characters(where);
  const std::vector<Join> found = joins();
  merges_ = MergeTable(found.size());
  merges_.use_joints();
  std::vector<uint32_t> ranks(vocabulary_.id_limit() + characters_.id_limit());
  for (const Join& join : found) ranks[join.id] = join.rank;
  halves_.assign(vocabulary_.id_limit(), {kUnknownSymbol, kUnknownSymbol});
  const auto spelling = [&](int32_t symbol) {
    return symbol < vocabulary_.id_limit() ? vocabulary_.spelling(symbol)
                                           : characters_.spelling(symbol - vocabulary_.id_limit());
  };
  // The halves of a piece are those that are there first. Where neighbours kept these from joining
  // the library knows others; which ones depends on the whole text.
  const auto ready = [&](const std::pair<int32_t, int32_t>& halves) {
    return std::max(ranks[halves.first], ranks[halves.second]);
  };
  for (const Join& join : found) {
    merges_.add(join.left, join.right, join.rank, join.id);
    const std::string_view left = spelling(join.left), right = spelling(join.right);
    merges_.add_joint(symbol_of(left.substr(previous_start(left, left.size()))),
                      symbol_of(right.substr(0, utf8_length(right[0]))));
    std::pair<int32_t, int32_t>& halves = halves_[join.id];
    if (halves.first == kUnknownSymbol || ready({join.left, join.right}) < ready(halves))
      halves = {join.left, join.right};
  }
}

SentencePiece::UserDefined SentencePiece::user_defined(std::string_view text,
                                                       std::string_view caller, size_t at) const {
  UserDefined out{0, Vocabulary::kNone};
  user_defined_.prefixes(text, at, [&](size_t length, int32_t id) {
    if (!structural_[id] || !any_caller(caller, at, at + length)) out = {length, id};
  });
  return out;
}

SentencePiece::Text SentencePiece::normalized(std::string_view text,
                                              std::string_view caller) const {
  // What stands at text[at..) after the rules, and how much of the text it stands for.
  struct Part {
    std::string_view text;
    size_t bytes;
  };
  const auto part_at = [&](size_t at) -> Part {
    if (!user_defined_.empty())
      if (const UserDefined user = user_defined(text, caller, at); user.length > 0)
        return {text.substr(at, user.length), user.length};
    if (const auto rule = charsmap_.longest(text, at)) return {rule->target, rule->length};
    const Utf8Part part = utf8_part(text, at);
    if (part.kind != Utf8Part::kCharacter) return {kReplacementCharacter, 1};
    return {text.substr(at, part.bytes), part.bytes};
  };
  Text out;
  size_t at = 0;
  while (rules_.remove_extra_spaces && at < text.size()) {
    const Part part = part_at(at);
    if (part.text != " ") break;
    at += part.bytes;
  }
  if (at == text.size()) return out;
  const std::string_view space = rules_.escape_spaces ? kSpaceMark : std::string_view(" ");
  const auto append = [&](std::string_view added, bool mark) {
    out.text += added;
    if (!caller.empty()) out.caller.append(added.size(), mark ? '\1' : '\0');
    if (out.text.size() > kMaxTextBytes)
      throw Error(Code::kInvalid,
                  "tokenizer: normalised text over {} bytes, at most those expected",
                  kMaxTextBytes);
  };
  if (rules_.add_dummy_prefix && !space_as_suffix_) append(space, false);
  bool after_space = rules_.remove_extra_spaces;
  while (at < text.size()) {
    Part part = part_at(at);
    const bool mark = any_caller(caller, at, at + part.bytes);
    while (after_space && part.text.starts_with(' ')) part.text.remove_prefix(1);
    if (!part.text.empty()) {
      for (const char c : part.text) append(c == ' ' ? space : std::string_view(&c, 1), mark);
      after_space = part.text.ends_with(' ');
    }
    at += part.bytes;
    after_space &= rules_.remove_extra_spaces;
  }
  while (rules_.remove_extra_spaces && out.text.ends_with(space)) {
    out.text.resize(out.text.size() - space.size());
    if (!caller.empty()) out.caller.resize(out.text.size());
  }
  if (rules_.add_dummy_prefix && space_as_suffix_) append(space, false);
  return out;
}

int32_t SentencePiece::id_of_piece(std::string_view text) const {
  const int32_t id = vocabulary_.find(text);
  const bool usable = id != Vocabulary::kNone && !reserved_[id] && types_[id] != PieceType::kUnused;
  return usable ? id : unk_id_;
}

void SentencePiece::encode_unigram(const Text& text, Output& out,
                                   SentencePieceScratch& scratch) const {
  // In single precision, as in the library.
  const float unknown_score = least_ - static_cast<float>(kUnknownPenalty);
  best_segmentation<float>(
      text.text, pieces_, scratch.unigram,
      [&](float so_far, size_t length, int32_t id, size_t at) -> std::optional<float> {
        if (types_[id] == PieceType::kUnused) return std::nullopt;
        float score = scores_[id];
        if (types_[id] == PieceType::kUserDefined) {
          if (structural_[id] && any_caller(text.caller, at, at + length)) return std::nullopt;
          constexpr double kBonus = 0.1;  // for each byte behind the first
          score = static_cast<float>(kBonus * static_cast<double>(length - 1));
        }
        return score + so_far;
      },
      [&](float so_far) { return unknown_score + so_far; }, [&] { return unk_id_; },
      [&](int32_t id, size_t begin, size_t end) { out.add(id, begin, end); });
}

void SentencePiece::append_symbol(int32_t symbol, size_t begin, size_t end, Output& out) const {
  if (symbol < 0 || symbol >= vocabulary_.id_limit())
    return out.add(id_of_piece(out.text.substr(begin, end - begin)), begin, end);
  // Unused pieces are taken apart; every part is shorter, so that this ends.
  std::vector<std::pair<int32_t, size_t>> rest = {{symbol, begin}};
  while (!rest.empty()) {
    const auto [id, at] = rest.back();
    rest.pop_back();
    const bool known = id >= 0 && id < vocabulary_.id_limit();
    const size_t bytes = known ? vocabulary_.spelling(id).size() : utf8_length(out.text[at]);
    if (!known || types_[id] != PieceType::kUnused || halves_[id].first == kUnknownSymbol) {
      out.add(id_of_piece(out.text.substr(at, bytes)), at, at + bytes);
      continue;
    }
    const auto [left, right] = halves_[id];
    const size_t left_bytes = left < vocabulary_.id_limit() ? vocabulary_.spelling(left).size()
                                                            : utf8_length(out.text[at]);
    rest.emplace_back(right, at + left_bytes);
    rest.emplace_back(left, at);
  }
}

void SentencePiece::encode_bpe(const Text& text, Output& out, SentencePieceScratch& scratch) const {
  const std::string_view in = text.text;
  scratch.symbols.clear();
  size_t at = 0;       // of the next character
  size_t written = 0;  // of the next merged symbol
  const auto flush = [&] {
    scratch.merged.clear();
    merges_.append_merged(scratch.symbols, scratch.merged, scratch.merging);
    scratch.symbols.clear();
    for (const int32_t symbol : scratch.merged) {
      size_t bytes = utf8_length(in[written]);
      if (symbol >= 0 && symbol < vocabulary_.id_limit())
        bytes = vocabulary_.spelling(symbol).size();
      append_symbol(symbol, written, written + bytes, out);
      written += bytes;
    }
  };
  while (at < in.size()) {
    if (!user_defined_.empty()) {
      if (const UserDefined user = user_defined(in, text.caller, at); user.length > 0) {
        flush();
        out.add(user.id, at, at + user.length);
        written = at += user.length;
        continue;
      }
    }
    const size_t bytes = utf8_length(in[at]);
    scratch.symbols.push_back(symbol_of(in.substr(at, bytes)));
    at += bytes;
  }
  flush();
}

// Every mark of a space begins a word, also where the model writes spaces as suffixes.
void SentencePiece::encode_words(const Text& text, Output& out) const {
  const std::string_view in = text.text;
  size_t begin = 0;
  const auto emit = [&](size_t end) {
    if (end > begin) out.add(id_of_piece(in.substr(begin, end - begin)), begin, end);
    begin = end;
  };
  for (size_t at = 0; at < in.size();) {
    const size_t bytes = utf8_length(in[at]);
    const bool space = in.substr(at, bytes) == kSpaceMark;
    if (space) emit(at);
    at += bytes;
  }
  emit(in.size());
}

void SentencePiece::encode_characters(const Text& text, Output& out) const {
  const std::string_view in = text.text;
  for (size_t at = 0; at < in.size();) {
    size_t bytes = user_defined(in, text.caller, at).length;
    if (bytes == 0) bytes = utf8_length(in[at]);
    out.add(id_of_piece(in.substr(at, bytes)), at, at + bytes);
    at += bytes;
  }
}

void SentencePiece::encode(std::string_view text, std::string_view caller,
                           std::vector<int32_t>& out, SentencePieceScratch& scratch) const {
  const Text ready = normalized(text, caller);
  Output output{*this, ready.text, out};
  switch (kind_) {
    case SentencePieceFile::Kind::kUnigram:
      return encode_unigram(ready, output, scratch);
    case SentencePieceFile::Kind::kBpe:
      return encode_bpe(ready, output, scratch);
    case SentencePieceFile::Kind::kWord:
      return encode_words(ready, output);
    case SentencePieceFile::Kind::kChar:
      return encode_characters(ready, output);
  }
}

}  // namespace flare::frontend::tokenizer
