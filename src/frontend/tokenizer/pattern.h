// Patterns of Split and Replace: a literal or a regular expression with the reference's semantics.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "frontend/tokenizer/component.h"

namespace flare::frontend::tokenizer {

// Working memory of matching; confined to one thread, made once for many searches.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Pattern;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct Match {
  size_t begin, end;
};

// Immutable; search may run on any thread.
class Pattern {
 public:
  static Pattern literal(std::string text);
  // Oniguruma's syntax (Ruby flavour) as far as PCRE2 shares it; the rest is kInvalid.
  // Well-known ones (word_matcher.h) do without the engine, unless it is asked for.
  static Pattern regex(std::string_view expression, std::string_view where, bool by_engine = false);
  // {"String": …} or {"Regex": …}
  static Pattern from_json(const Component& component);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Calls f(Match) for every match, left to right, without overlap. An empty match right behind
  // the previous match does not count. kInvalid if the expression exhausts its match limits.
  template <typename F>
  void for_each(std::string_view text, MatchScratch& scratch, F&& f) const {
    Cursor cursor;
    Match match{};
    while (next(text, cursor, match, scratch)) f(match);
  }
  // `text` with `content` in place of every match.
  std::string replace_all(std::string_view text, std::string_view content,
                          MatchScratch& scratch) const;

 private:
  struct Impl;
  struct Cursor {
    size_t from = 0;
    size_t last_end = std::string_view::npos;
  };
  explicit Pattern(std::unique_ptr<Impl> impl);
  bool next(std::string_view text, Cursor& cursor, Match& match, MatchScratch& scratch) const;
  bool search(std::string_view text, size_t from, Match& match, MatchScratch& scratch) const;
  std::unique_ptr<Impl> impl_;
};

// The PCRE2 expression that means what `expression` means to the reference: its \s, \w, \d and
// \p{…} of Unicode 16, its hexadecimal escapes and class intersections.
std::string translate_regex(std::string_view expression, std::string_view where);

}  // namespace flare::frontend::tokenizer
