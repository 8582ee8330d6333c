// Cutting text into pieces, and the two pre-tokenizers that rewrite it.
#include "frontend/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and on.
struct ByteTable {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 0x144> byte{};

  constexpr ByteTable() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr ByteTable kBytes;

// Appends the parts of `piece` to a list according to what happens to the separators between them.
class PieceSplitter {
 public:
  PieceSplitter(std::vector<Piece>& out, SplitBehavior behavior) : out_(out), behavior_(behavior) {}

  void begin() {
    first_ = out_.size();
    previous_match_ = false;
  }
  // The next part, adjacent to the previous one. Parts may be empty.
  void add(uint32_t begin, uint32_t end, bool is_match) {
    bool extend = false;
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        if (is_match) return;
        break;
      case SplitBehavior::kContiguous:
        extend = is_match == previous_match_;
        break;
      case SplitBehavior::kMergedWithPrevious:
        extend = is_match && !previous_match_;
        break;
      case SplitBehavior::kMergedWithNext:
        // Read from the end, as the reference does, a match joins what follows unless that is
        // itself a match; so from the front a part joins the match before it if it is none.
        extend = !is_match && previous_match_;
        break;
    }
    previous_match_ = is_match;
    if (extend && out_.size() > first_)
      out_.back().end = end;
    else
      out_.push_back({begin, end});
  }
  // The reference drops empty pieces, but only after joining.
  void finish() {
    size_t kept = first_;
    for (size_t i = first_; i < out_.size(); ++i)
      if (out_[i].end > out_[i].begin) out_[kept++] = out_[i];
    out_.resize(kept);
  }

 private:
  std::vector<Piece>& out_;
  SplitBehavior behavior_;
  size_t first_ = 0;
  bool previous_match_ = false;
};

void split_by_pattern(PieceBuffer& buffer, const Pattern& pattern, SplitBehavior behavior,
                      bool invert, MatchScratch& scratch) {
  std::vector<Piece> out;
  out.reserve(buffer.pieces.size() + buffer.text.size() / 6);
  PieceSplitter splitter(out, behavior);
  for (const Piece& piece : buffer.pieces) {
    splitter.begin();
    uint32_t done = piece.begin;
    pattern.for_each(buffer.view(piece), scratch, [&](Match match) {
      const auto begin = static_cast<uint32_t>(piece.begin + match.begin);
      const auto end = static_cast<uint32_t>(piece.begin + match.end);
      if (begin > done) splitter.add(done, begin, invert);
      splitter.add(begin, end, !invert);
      done = end;
    });
    if (done < piece.end) splitter.add(done, piece.end, invert);
    splitter.finish();
  }
  buffer.pieces = std::move(out);
}

// Every character for which `matches` holds is a separator of its own.
template <typename F>
void split_by_character(PieceBuffer& buffer, SplitBehavior behavior, F&& matches) {
  std::vector<Piece> out;
  PieceSplitter splitter(out, behavior);
  for (const Piece& piece : buffer.pieces) {
    splitter.begin();
    uint32_t done = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end;) {
      const Decoded d = decode_at(buffer.text, at);
      if (matches(d.code_point)) {
        if (done < at) splitter.add(done, at, false);
        splitter.add(at, at + d.bytes, true);
        done = at + d.bytes;
      }
      at += d.bytes;
    }
    if (done < piece.end) splitter.add(done, piece.end, false);
    splitter.finish();
  }
  buffer.pieces = std::move(out);
}

// Rewrites every piece with f(piece, is the first of the input, out) into a new text.
template <typename F>
void rewrite(PieceBuffer& buffer, F&& f) {
  std::string out;
  out.reserve(buffer.text.size() + buffer.text.size() / 4 + 16);
  if (!buffer.pieces.empty() && buffer.pieces[0].begin > 0) buffer.starts_input = false;
  bool first = buffer.starts_input;
  for (Piece& piece : buffer.pieces) {
    const size_t begin = out.size();
    f(buffer.view(piece), first, out);
    first = false;
    if (out.size() > UINT32_MAX)
      throw Error(Code::kInvalid, "tokenizer: text over 4 GiB, expected less");
    piece = {static_cast<uint32_t>(begin), static_cast<uint32_t>(out.size())};
  }
  buffer.text = std::move(out);
}

void apply_kind(const ByteLevel& level, PieceBuffer& buffer, MatchScratch& scratch) {
  if (level.add_prefix_space) {
    rewrite(buffer, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
  }
  if (level.words) split_by_pattern(buffer, *level.words, SplitBehavior::kIsolated, false, scratch);
  if (!level.rewrites) return;
  rewrite(buffer, [](std::string_view piece, bool, std::string& out) {
    append_characters_of_bytes(piece, out);
  });
}

void apply_kind(const Split& split, PieceBuffer& buffer, MatchScratch& scratch) {
  split_by_pattern(buffer, split.pattern, split.behavior, split.invert, scratch);
}

void apply_kind(const Digits& digits, PieceBuffer& buffer, MatchScratch&) {
  split_by_character(buffer,
                     digits.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                     is_numeric);
}

void apply_kind(const WhitespaceSplit&, PieceBuffer& buffer, MatchScratch&) {
  split_by_character(buffer, SplitBehavior::kRemoved, is_white_space);
}

void apply_kind(const Whitespace&, PieceBuffer& buffer, MatchScratch&) {
  enum class Class { kSpace, kWord, kOther };
  std::vector<Piece> out;
  for (const Piece& piece : buffer.pieces) {
    Class previous = Class::kSpace;
    for (uint32_t at = piece.begin; at < piece.end;) {
      const Decoded d = decode_at(buffer.text, at);
      const Class now = is_word(d.code_point)          ? Class::kWord
                        : is_white_space(d.code_point) ? Class::kSpace
                                                       : Class::kOther;
      if (now != Class::kSpace && now != previous) out.push_back({at, at});
      if (now != Class::kSpace) out.back().end = at + d.bytes;
      previous = now;
      at += d.bytes;
    }
  }
  buffer.pieces = std::move(out);
}

bool is_punctuation(char32_t c) { return contains(punctuation(), c); }

void apply_kind(const BertWords&, PieceBuffer& buffer, MatchScratch&) {
  split_by_character(buffer, SplitBehavior::kRemoved, is_white_space);
  split_by_character(buffer, SplitBehavior::kIsolated, is_punctuation);
}

void apply_kind(const Punctuation& kind, PieceBuffer& buffer, MatchScratch&) {
  split_by_character(buffer, kind.behavior, is_punctuation);
}

void apply_kind(const DelimiterSplit& kind, PieceBuffer& buffer, MatchScratch&) {
  split_by_character(buffer, SplitBehavior::kRemoved,
                     [&](char32_t c) { return c == kind.delimiter; });
}

void apply_kind(const FixedLength& kind, PieceBuffer& buffer, MatchScratch&) {
  std::vector<Piece> out;
  for (const Piece& piece : buffer.pieces) {
    for (uint32_t at = piece.begin; at < piece.end;) {
      Piece part{at, at};
      for (uint32_t i = 0; i < kind.length && at < piece.end; ++i)
        at += utf8_length(buffer.text[at]);
      part.end = at;
      out.push_back(part);
    }
  }
  buffer.pieces = std::move(out);
}

constexpr int kAnyScript = 0;

int script_of(char32_t c) {
  const auto all = scripts();
  const auto it = std::upper_bound(
      all.begin(), all.end(), c,
      [](char32_t value, const ScriptRange& range) { return value < range.first; });
  if (it == all.begin() || c > std::prev(it)->last) return kAnyScript;
  return std::prev(it)->script;
}

// A piece begins where the script changes; what stands in front of the first script is dropped.
void apply_kind(const UnicodeScripts&, PieceBuffer& buffer, MatchScratch&) {
  std::vector<Piece> out;
  for (const Piece& piece : buffer.pieces) {
    int previous = kAnyScript;
    for (uint32_t at = piece.begin; at < piece.end;) {
      const Decoded d = decode_at(buffer.text, at);
      const int script = script_of(d.code_point);
      if (script != kAnyScript && script != previous) out.push_back({at, at});
      if (script != kAnyScript) previous = script;
      at += d.bytes;
      if (previous != kAnyScript) out.back().end = at;
    }
  }
  buffer.pieces = std::move(out);
}

void apply_kind(const Metaspace& meta, PieceBuffer& buffer, MatchScratch&) {
  rewrite(buffer, [&](std::string_view piece, bool first, std::string& out) {
    const bool wanted =
        meta.scheme == PrependScheme::kAlways || (meta.scheme == PrependScheme::kFirst && first);
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(meta.replacement))
      out += meta.replacement;
    for (const char c : piece) {
      if (c == ' ')
        out += meta.replacement;
      else
        out += c;
    }
  });
  if (!meta.split) return;
  const char32_t mark = decode_at(meta.replacement, 0).code_point;
  split_by_character(buffer, SplitBehavior::kMergedWithNext, [&](char32_t c) { return c == mark; });
}

void apply_kind(const PreTokenizerSequence& sequence, PieceBuffer& buffer, MatchScratch& scratch) {
  for (const PreTokenizer& step : sequence.steps) step.apply(buffer, scratch);
}

SplitBehavior behavior_from_json(const Component& component) {
  const std::string& name = component.text("behavior");
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error(Code::kInvalid, "{}: {} found, a split behavior expected",
              component.path_of("behavior"), quote(name));
}

}  // namespace

Metaspace Metaspace::from_json(const Component& component) {
  Metaspace out;
  append_utf8(out.replacement, component.character("replacement"));
  out.split = component.flag_or("split", true);
  const bool has_scheme = component.find("prepend_scheme") != nullptr;
  const std::string scheme = component.text_or("prepend_scheme", "always");
  if (scheme == "always")
    out.scheme = PrependScheme::kAlways;
  else if (scheme == "first")
    out.scheme = PrependScheme::kFirst;
  else if (scheme == "never")
    out.scheme = PrependScheme::kNever;
  else
    throw Error(Code::kInvalid, "{}: {} found, always, first or never expected",
                component.path_of("prepend_scheme"), quote(scheme));
  // Older files have this flag instead; the reference takes false only beside "never".
  if (!component.flag_or("add_prefix_space", true) &&
      (!has_scheme || out.scheme != PrependScheme::kNever))
    throw Error(Code::kInvalid, "{}: false, but prepend_scheme is '{}', never expected",
                component.path_of("add_prefix_space"), scheme);
  return out;
}

PreTokenizer PreTokenizer::from_json(const Component& component) {
  const std::string& type = component.type();
  if (type == "ByteLevel") {
    ByteLevel level{component.flag_or("add_prefix_space", true), {}, true};
    if (component.flag_or("use_regex", true))
      level.words = Pattern::regex(kGpt2Words, component.path());
    return {std::move(level)};
  }
  if (type == "Split")
    return {Split{Pattern::from_json(component.object("pattern")), behavior_from_json(component),
                  component.flag_or("invert", false)}};
  if (type == "Digits") return {Digits{component.flag_or("individual_digits", false)}};
  if (type == "WhitespaceSplit") return {WhitespaceSplit{}};
  if (type == "Whitespace") return {Whitespace{}};
  if (type == "BertPreTokenizer") return {BertWords{}};
  if (type == "Punctuation")
    return {Punctuation{component.find("behavior") == nullptr ? SplitBehavior::kIsolated
                                                              : behavior_from_json(component)}};
  if (type == "CharDelimiterSplit") return {DelimiterSplit{component.character("delimiter")}};
  if (type == "FixedLength") {
    constexpr uint32_t kDefault = 5;
    const uint32_t length =
        component.find("length") == nullptr ? kDefault : component.number("length", UINT32_MAX);
    if (length == 0)
      throw Error(Code::kInvalid, "{}: 0 found, 1 or more expected", component.path_of("length"));
    return {FixedLength{length}};
  }
  if (type == "UnicodeScripts") return {UnicodeScripts{}};
  if (type == "Metaspace") return {Metaspace::from_json(component)};
  if (type == "Sequence") {
    PreTokenizerSequence sequence;
    const Json::Array& items = component.array("pretokenizers");
    for (size_t i = 0; i < items.size(); ++i)
      sequence.steps.push_back(from_json({items[i], component.path_of("pretokenizers", i)}));
    return {std::move(sequence)};
  }
  component.refuse_type();
}

void PreTokenizer::apply(PieceBuffer& buffer, MatchScratch& scratch) const {
  std::visit([&](const auto& step) { apply_kind(step, buffer, scratch); }, kind);
}

bool PreTokenizer::leave_bytes() {
  if (auto* sequence = std::get_if<PreTokenizerSequence>(&kind))
    return !sequence->steps.empty() && sequence->steps.back().leave_bytes();
  auto* level = std::get_if<ByteLevel>(&kind);
  if (level != nullptr) level->rewrites = false;
  return level != nullptr;
}

void append_characters_of_bytes(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const char32_t character = kBytes.character[static_cast<uint8_t>(c)];
    if (character < 0x80)
      out += static_cast<char>(character);
    else
      append_utf8(out, character);
  }
}

char32_t character_of_byte(uint8_t byte) { return kBytes.character[byte]; }

int byte_of_character(char32_t code_point) {
  return code_point < kBytes.byte.size() ? kBytes.byte[code_point] : -1;
}

}  // namespace flare::frontend::tokenizer
