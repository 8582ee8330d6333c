// Each normalizer on text, with or without the record of who wrote it.
#include "frontend/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "frontend/tokenizer/unicode.h"

namespace flare::frontend::tokenizer {

namespace {

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

class FormPass {
 public:
  FormPass(UnicodeForm form)
      : form_(form),
        opaque_(form.compatibility ? compatibility_opaque() : canonical_opaque()),
        // Where origins are kept, one table serves all forms: what is stable under NFKC begins a
        // cluster under each.
        unstable_(form.compatibility ? nfkc_unstable() : nfc_unstable()) {}

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
    const CodePointRanges table = fine ? nfkc_unstable() : unstable_;
    const auto stable = [&](size_t i) {
      const char32_t c = decode_at(in, i).code_point;
      return c < 0x80 || !contains(table, c);
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
      if (contains(unstable_, decode_at(part, i).code_point)) return false;
    }
    return true;
  }

  UnicodeForm form_;
  CodePointRanges opaque_, unstable_;
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

void apply_kind(const Lowercase&, NormalizedText& text, MatchScratch&) {
  std::string out, caller;
  out.reserve(text.text.size());
  for (size_t i = 0; i < text.text.size();) {
    const Decoded d = decode_at(text.text, i);
    const size_t before = out.size();
    append_lowercase(out, d.code_point);
    if (!text.caller.empty()) {
      const bool mark = any_caller(text, i, i + d.bytes);
      caller.append(out.size() - before, mark ? '\1' : '\0');
    }
    i += d.bytes;
  }
  text.text = std::move(out);
  text.caller = std::move(caller);
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
