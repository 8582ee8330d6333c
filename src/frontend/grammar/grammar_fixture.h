// Test support: small vocabularies, JSON written in the white space of S7.2, masks byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json/json.h"
#include "frontend/grammar/compiled_grammar.h"
#include "frontend/grammar/decimal.h"

namespace flare::frontend::grammar::test {

inline std::filesystem::path shared_data() {
  return std::filesystem::path(FLARE_SOURCE_DIR) / "../shared/data";
}

inline constexpr int32_t kEnd = 256;

// All single bytes, an end of turn (id 256), then `more`.
inline std::shared_ptr<const Vocabulary> vocabulary(std::vector<Token> more = {}) {
  std::vector<Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, char(byte))});
  tokens.push_back({"<end>", Token::Kind::kEnd});
  for (Token& token : more) tokens.push_back(std::move(token));
  return std::make_shared<Vocabulary>(std::move(tokens));
}
inline std::shared_ptr<const Vocabulary> bytes_vocabulary() {
  static const std::shared_ptr<const Vocabulary> made = vocabulary();
  return made;
}

inline CompileLimits cold() {
  CompileLimits limits;
  limits.warm_ms = 0;
  return limits;
}

inline std::shared_ptr<CompiledGrammar> compile_for_bytes(const Grammar& grammar) {
  return compile(grammar, bytes_vocabulary(), cold());
}
inline std::shared_ptr<CompiledGrammar> schema(std::string_view text, bool strict = false) {
  return compile_for_bytes(json_schema_grammar(parse_json(text, "schema"), {.strict = strict}));
}

// Whether the text is legal so far; whether it is legal as a whole.
inline bool begins(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.advance_text(text);
}
inline bool accepts(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.advance_text(text) && matcher.can_end();
}

// The wire code and pointer of the error that making or compiling throws; "" if none.
template <typename Make>
std::string error_of(Make make) {
  try {
    compile_for_bytes(make());
    return "";
  } catch (const ConstraintError& e) {
    return std::string(e.wire_code()) + (e.pointer().empty() ? "" : " " + e.pointer());
  }
}
inline std::string schema_error(std::string_view text, bool strict = false) {
  return error_of(
      [&] { return json_schema_grammar(parse_json(text, "schema"), {.strict = strict}); });
}

enum class Layout { kCompact, kSpaced, kIndented };

// JSON as S7.2 and S7.3 have it: integers without fraction, numbers without exponent.
inline void write_json(const Json& json, Layout layout, int depth, std::string& out) {
  const auto line = [&](int d) {
    if (layout != Layout::kIndented) return;
    out += '\n';
    out.append(static_cast<size_t>(std::min(16, 2 * d)), ' ');
  };
  const auto separate = [&](bool& first) {
    if (!first) out += layout == Layout::kSpaced ? ", " : ",";
    first = false;
    line(depth + 1);
  };
  bool first = true;
  if (json.is_number()) {
    const auto decimal = Decimal::of(json);
    out += decimal ? decimal->text() : json.to_text();
  } else if (json.is_array()) {
    out += '[';
    for (const Json& item : json.as_array()) {
      separate(first);
      write_json(item, layout, depth + 1, out);
    }
    if (!first) line(depth);
    out += ']';
  } else if (json.is_object()) {
    out += '{';
    for (const auto& [name, value] : json.as_object()) {
      separate(first);
      out += quote_json(name) + (layout == Layout::kCompact ? ":" : ": ");
      write_json(value, layout, depth + 1, out);
    }
    if (!first) line(depth);
    out += '}';
  } else {
    out += json.to_text();
  }
}
inline std::string json_text(const Json& json, Layout layout) {
  std::string out;
  write_json(json, layout, 0, out);
  return out;
}

// Holds the mask against every token tried alone. `text` tells where in case of a failure.
inline void expect_exact_mask(Matcher& matcher, const Vocabulary& v, const std::string& text) {
  std::vector<uint32_t> mask(v.mask_words() + 1, 0);
  mask.back() = 0xDEADBEEF;
  const bool any = matcher.fill_mask(std::span(mask).first(v.mask_words()));
  EXPECT_EQ(mask.back(), 0xDEADBEEF);
  bool expected_any = false;
  for (int32_t id = 0; id < v.size(); ++id) {
    const bool expected = matcher.allows(id);
    expected_any |= expected;
    const bool is = mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1;
    ASSERT_EQ(is, expected) << "token " << id << " " << quote(v.token(id).bytes) << " behind "
                            << quote(text);
  }
  EXPECT_EQ(any, expected_any) << "behind " << quote(text);
}

}  // namespace flare::frontend::grammar::test
