// Each normalizer on text, with or without the record of who wrote it.
#include "frontend/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "frontend/tokenizer/pre_tokenizer.h"
#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

// Standard base64 with padding.
std::string decode_base64(std::string_view text, std::string_view where) {
  std::string out;
  if (text.size() % 4 != 0)
    throw Error(Code::kInvalid, "{}: {} characters, a multiple of 4 expected", where, text.size());
  out.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t bits = 0;
    int padding = 0;
    for (size_t i = at; i < at + 4; ++i) {
      const char c = text[i];
      int digit = 0;
      if (c >= 'A' && c <= 'Z')
        digit = c - 'A';
      else if (c >= 'a' && c <= 'z')
        digit = c - 'a' + 26;
      else if (c >= '0' && c <= '9')
        digit = c - '0' + 52;
      else if (c == '+')
        digit = 62;
      else if (c == '/')
        digit = 63;
      else if (c == '=' && at + 4 == text.size() && i >= at + 2)
        ++padding;
      else
        digit = -1;
      if (digit < 0 || (padding > 0 && c != '='))
        throw Error(Code::kInvalid, "{}: character {} is not base64", where, i);
      bits = bits << 6 | static_cast<uint32_t>(digit);
    }
    for (int i = 0; i < 3 - padding; ++i) out += static_cast<char>(bits >> (16 - 8 * i) & 0xFF);
  }
  return out;
}

// True if the caller wrote any byte of [begin, end).
bool any_caller(const NormalizedText& text, size_t begin, size_t end) {
  return std::string_view(text.caller).substr(begin, end - begin).find('\1') !=
         std::string_view::npos;
}

// Canonical order of a decomposition. The library's own sorting is quadratic in a run of marks.
void order_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto combining = [](utf8proc_int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
  };
  for (size_t begin = 0; begin < characters.size(); ++begin) {
    if (combining(characters[begin]) == 0) continue;
    size_t end = begin + 1;
    while (end < characters.size() && combining(characters[end]) != 0) ++end;
    std::stable_sort(characters.begin() + begin, characters.begin() + end,
                     [&](auto x, auto y) { return combining(x) < combining(y); });
    begin = end;
  }
}

// Appends the form of `text`, which holds no opaque code point.
void append_normalized(std::string& out, std::string_view text, UnicodeForm form) {
  if (text.empty()) return;
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (form.compatibility) options |= UTF8PROC_COMPAT;
  std::vector<utf8proc_int32_t> characters;
  int boundary = 0;
  for (size_t at = 0; at < text.size();) {
    const Decoded d = decode_at(text, at);
    at += d.bytes;
    utf8proc_int32_t parts[32];  // the longest decomposition has 18 characters
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(d.code_point), parts, 32,
                                static_cast<utf8proc_option_t>(options), &boundary);
    FLARE_ASSERT(count >= 0 && count <= 32);
    characters.insert(characters.end(), parts, parts + count);
  }
  order_marks(characters);
  size_t count = characters.size();
  if (form.compose) {
    const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(count),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    FLARE_ASSERT(composed >= 0);
    count = static_cast<size_t>(composed);
  }
  for (size_t i = 0; i < count; ++i) append_utf8(out, static_cast<char32_t>(characters[i]));
}

// A set of code points, with a bit for each of the plane that nearly all text is in.
class QuickSet {
 public:
  explicit QuickSet(CodePointRanges ranges) : ranges_(ranges) {
    for (const CodePointRange& range : ranges)
      for (char32_t c = range.first; c <= range.last && c < kPlane; ++c)
        bits_[c / 64] |= uint64_t{1} << c % 64;
  }
  bool has(char32_t c) const {
    return c < kPlane ? bits_[c / 64] >> c % 64 & 1 : contains(ranges_, c);
  }

 private:
  static constexpr char32_t kPlane = 0x10000;
  CodePointRanges ranges_;
  std::array<uint64_t, kPlane / 64> bits_{};
};

const QuickSet& unstable(bool compatibility) {
  static const QuickSet canonical(nfc_unstable()), compatible(nfkc_unstable());
  return compatibility ? compatible : canonical;
}

class FormPass {
 public:
  FormPass(UnicodeForm form)
      : form_(form),
        opaque_(form.compatibility ? compatibility_opaque() : canonical_opaque()),
        // Where origins are kept, one table serves all forms: what is stable under NFKC begins a
        // cluster under each.
        unstable_(unstable(form.compatibility)) {}

  // Replaces text by its form; `text` has a character beyond ASCII.
  void run(NormalizedText& text) {
    std::string_view in = text.text;
    std::string out, caller;
    out.reserve(in.size() + in.size() / 8);
    size_t at = 0;
    while (at < in.size()) {
      const size_t end = cluster_end(in, at, !text.caller.empty());
      const size_t before = out.size();
      convert(out, in.substr(at, end - at));
      if (!text.caller.empty()) {
        const bool mark = any_caller(text, at, end);
        caller.append(out.size() - before, mark ? '\1' : '\0');
      }
      at = end;
    }
    text.text = std::move(out);
    text.caller = std::move(caller);
  }

 private:
  // End of a part that normalises on its own. Parts that change nothing are taken whole, unless
  // `fine` asks for the smallest.
  size_t cluster_end(std::string_view in, size_t at, bool fine) const {
    const QuickSet& table = fine ? unstable(true) : unstable_;
    const auto stable = [&](size_t i) {
      const char32_t c = decode_at(in, i).code_point;
      return c < 0x80 || !table.has(c);
    };
    size_t last = at;  // start of the last character that may compose with what follows
    if (!fine && form_.compose) {
      size_t i = at;
      while (i < in.size()) {
        const size_t ascii = ascii_run(in, i);
        if (ascii > 0) {
          last = i + ascii - 1;
          i += ascii;
        } else if (stable(i)) {
          last = i;
          i += utf8_length(in[i]);
        } else {
          break;
        }
      }
      if (i == in.size()) return i;
      if (last > at) return last;
    }
    size_t end = at + utf8_length(in[at]);
    if (!form_.compose && !fine) return in.size();
    while (end < in.size() && !stable(end)) end += utf8_length(in[end]);
    return end;
  }

  void convert(std::string& out, std::string_view part) const {
    if (form_.compose && all_stable(part)) {
      out += part;
      return;
    }
    size_t begin = 0;
    for (size_t i = 0; i < part.size(); i += utf8_length(part[i])) {
      const Decoded d = decode_at(part, i);
      if (d.code_point < 0x300 || !contains(opaque_, d.code_point)) continue;
      append_normalized(out, part.substr(begin, i - begin), form_);
      out += part.substr(i, d.bytes);
      begin = i + d.bytes;
    }
    append_normalized(out, part.substr(begin), form_);
  }

  bool all_stable(std::string_view part) const {
    for (size_t i = 0; i < part.size(); i += utf8_length(part[i])) {
      i += ascii_run(part, i);
      if (i >= part.size()) break;
      if (unstable_.has(decode_at(part, i).code_point)) return false;
    }
    return true;
  }

  UnicodeForm form_;
  CodePointRanges opaque_;
  const QuickSet& unstable_;
};

void apply_kind(const UnicodeForm& form, NormalizedText& text, MatchScratch&) {
  if (ascii_run(text.text, 0) < text.text.size()) FormPass(form).run(text);
}

void apply_kind(const Prepend& prepend, NormalizedText& text, MatchScratch&) {
  if (text.text.empty()) return;
  text.text.insert(0, prepend.text);
  if (!text.caller.empty()) text.caller.insert(0, prepend.text.size(), '\0');
}

void apply_kind(const Replace& replace, NormalizedText& text, MatchScratch& scratch) {
  if (text.text.empty()) return;
  std::string out, caller;
  size_t done = 0;
  const bool marked = !text.caller.empty();
  replace.pattern.for_each(text.text, scratch, [&](Match match) {
    out.append(text.text, done, match.begin - done);
    out += replace.content;
    if (out.size() > kMaxTextBytes)
      throw Error(Code::kInvalid, "tokenizer: replaced text over {} bytes, at most those expected",
                  kMaxTextBytes);
    if (marked) {
      caller.append(text.caller, done, match.begin - done);
      const bool mark = any_caller(text, match.begin, match.end);
      caller.append(replace.content.size(), mark ? '\1' : '\0');
    }
    if (match.begin == 0 && match.end > 0 && replace.content.empty()) text.front_kept = false;
    done = match.end;
  });
  if (done == 0 && out.empty()) return;
  out.append(text.text, done);
  if (marked) caller.append(text.caller, done);
  text.text = std::move(out);
  text.caller = std::move(caller);
}

// Rewrites a text part by part, with the record of who wrote it.
class Rewriting {
 public:
  explicit Rewriting(NormalizedText& text) : text_(text) { out_.reserve(text.text.size()); }

  // Whatever append(out) appends stands for text[begin, end), the next part.
  template <typename F>
  void part(size_t begin, size_t end, F&& append) {
    const size_t before = out_.size();
    append(out_);
    if (out_.size() > kMaxTextBytes)
      throw Error(Code::kInvalid,
                  "tokenizer: normalised text over {} bytes, at most those expected",
                  kMaxTextBytes);
    if (!text_.caller.empty()) {
      const bool mark = any_caller(text_, begin, end);
      caller_.append(out_.size() - before, mark ? '\1' : '\0');
    }
    if (before == 0 && out_.empty()) text_.front_kept = false;
  }
  void finish() {
    text_.text = std::move(out_);
    text_.caller = std::move(caller_);
  }

 private:
  NormalizedText& text_;
  std::string out_, caller_;
};

// Rewrites every character by append(out, code point).
template <typename F>
void for_characters(NormalizedText& text, F&& append) {
  Rewriting out(text);
  for (size_t i = 0; i < text.text.size();) {
    const Decoded d = decode_at(text.text, i);
    out.part(i, i + d.bytes, [&](std::string& to) { append(to, d.code_point); });
    i += d.bytes;
  }
  out.finish();
}

void remove_characters(NormalizedText& text, CodePointRanges set) {
  for_characters(text, [&](std::string& out, char32_t c) {
    if (!contains(set, c)) append_utf8(out, c);
  });
}

void apply_kind(const Lowercase&, NormalizedText& text, MatchScratch&) {
  for_characters(text, append_lowercase);
}

void apply_kind(const StripAccents&, NormalizedText& text, MatchScratch&) {
  if (ascii_run(text.text, 0) < text.text.size()) remove_characters(text, accents());
}

void apply_kind(const Nmt&, NormalizedText& text, MatchScratch&) {
  for_characters(text, [](std::string& out, char32_t c) {
    if (contains(nmt_deleted(), c)) return;
    append_utf8(out, contains(nmt_spaces(), c) ? U' ' : c);
  });
}

void apply_kind(const Bert& bert, NormalizedText& text, MatchScratch& scratch) {
  if (bert.clean_text) {
    for_characters(text, [](std::string& out, char32_t c) {
      if (c >= 0x20 && c < 0x7F)
        out += static_cast<char>(c);
      else if (!contains(bert_deleted(), c))
        append_utf8(out, contains(bert_spaces(), c) ? U' ' : c);
    });
  }
  const bool ascii = ascii_run(text.text, 0) == text.text.size();
  if (bert.handle_chinese_chars && !ascii) {
    for_characters(text, [](std::string& out, char32_t c) {
      const bool is_chinese = c >= 0x3400 && contains(chinese(), c);
      if (is_chinese) out += ' ';
      append_utf8(out, c);
      if (is_chinese) out += ' ';
    });
  }
  if (bert.strip_accents && !ascii) {
    apply_kind(UnicodeForm{false, false}, text, scratch);
    remove_characters(text, bert_accents());
  }
  if (bert.lowercase) apply_kind(Lowercase{}, text, scratch);
}

void apply_kind(const ByteCharacters&, NormalizedText& text, MatchScratch&) {
  Rewriting out(text);
  for (size_t i = 0; i < text.text.size(); ++i)
    out.part(i, i + 1, [&](std::string& to) {
      append_utf8(to, character_of_byte(static_cast<uint8_t>(text.text[i])));
    });
  out.finish();
}

// End of the grapheme cluster that begins at text[at).
size_t cluster_behind(std::string_view text, size_t at) {
  utf8proc_int32_t state = 0;
  Decoded left = decode_at(text, at);
  at += left.bytes;
  while (at < text.size()) {
    const Decoded right = decode_at(text, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left.code_point),
                                         static_cast<utf8proc_int32_t>(right.code_point), &state))
      break;
    left = right;
    at += right.bytes;
  }
  return at;
}

// The first rule that begins a short cluster stands for all of it; of others every character has
// its own. So does the reference, unlike SentencePiece.
void apply_kind(const Precompiled& precompiled, NormalizedText& text, MatchScratch&) {
  constexpr size_t kWholeBelow = 6;  // bytes
  const std::string_view in = text.text;
  Rewriting out(text);
  for (size_t at = 0; at < in.size();) {
    const size_t end = cluster_behind(in, at);
    if (end - at < kWholeBelow) {
      if (const auto rule = precompiled.rules.shortest(in.substr(0, end), at)) {
        out.part(at, end, [&](std::string& to) { to += rule->target; });
        at = end;
        continue;
      }
    }
    while (at < end) {
      const size_t behind = at + utf8_length(in[at]);
      const auto rule = precompiled.rules.shortest(in.substr(0, behind), at);
      out.part(at, behind,
               [&](std::string& to) { to += rule ? rule->target : in.substr(at, behind - at); });
      at = behind;
    }
  }
  out.finish();
}

void apply_kind(const StripSpace& strip, NormalizedText& text, MatchScratch&) {
  size_t begin = 0, end = text.text.size();
  while (strip.left && begin < end) {
    const Decoded d = decode_at(text.text, begin);
    if (!is_white_space(d.code_point)) break;
    begin += d.bytes;
  }
  while (strip.right && end > begin) {
    const size_t start = previous_start(text.text, end);
    if (!is_white_space(decode_at(text.text, start).code_point)) break;
    end = start;
  }
  if (begin > 0) text.front_kept = false;
  text.text = text.text.substr(begin, end - begin);
  if (!text.caller.empty()) text.caller = text.caller.substr(begin, end - begin);
}

void apply_kind(const NormalizerSequence& sequence, NormalizedText& text, MatchScratch& scratch) {
  for (const Normalizer& step : sequence.steps) step.apply(text, scratch);
}

}  // namespace

Normalizer Normalizer::from_json(const Component& component) {
  const std::string& type = component.type();
  if (type == "NFC") return {UnicodeForm{true, false}};
  if (type == "NFD") return {UnicodeForm{false, false}};
  if (type == "NFKC") return {UnicodeForm{true, true}};
  if (type == "NFKD") return {UnicodeForm{false, true}};
  if (type == "Prepend") return {Prepend{component.text("prepend")}};
  if (type == "Replace")
    return {Replace{Pattern::from_json(component.object("pattern")), component.text("content")}};
  if (type == "Lowercase") return {Lowercase{}};
  if (type == "Strip")
    return {StripSpace{component.flag("strip_left"), component.flag("strip_right")}};
  if (type == "StripAccents") return {StripAccents{}};
  if (type == "Nmt") return {Nmt{}};
  if (type == "BertNormalizer") {
    const bool lowercase = component.flag("lowercase");
    return {Bert{component.flag("clean_text"), component.flag("handle_chinese_chars"),
                 component.flag_or("strip_accents", lowercase), lowercase}};
  }
  if (type == "ByteLevel") return {ByteCharacters{}};
  if (type == "Precompiled") {
    const std::string where = component.path_of("precompiled_charsmap");
    const std::string blob = decode_base64(component.text("precompiled_charsmap"), where);
    return {Precompiled{Charsmap::read(blob, where)}};
  }
  if (type == "Sequence") {
    NormalizerSequence sequence;
    const Json::Array& items = component.array("normalizers");
    for (size_t i = 0; i < items.size(); ++i)
      sequence.steps.push_back(from_json({items[i], component.path_of("normalizers", i)}));
    return {std::move(sequence)};
  }
  component.refuse_type();
}

void Normalizer::apply(NormalizedText& text, MatchScratch& scratch) const {
  std::visit([&](const auto& step) { apply_kind(step, text, scratch); }, kind);
}

}  // namespace flare::frontend::tokenizer
