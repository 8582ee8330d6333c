// Fuzz target of ECMA-262 patterns: as a whole answer and as a search in a JSON string.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "frontend/grammar/compiled_grammar.h"

namespace {

using namespace flare::frontend::grammar;

std::shared_ptr<const Vocabulary> vocabulary() {
  static const std::shared_ptr<const Vocabulary> made = [] {
    std::vector<Token> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, char(byte))});
    for (const char* text : {"ab", "\":", "\"}", "12", "\xE4\xBA", ", \""})
      tokens.push_back({text});
    tokens.push_back({"<end>", Token::Kind::kEnd});
    tokens.push_back({"<m>", Token::Kind::kMarker});
    return std::make_shared<Vocabulary>(std::move(tokens));
  }();
  return made;
}

// A pattern behind '/' is searched in strings.
Grammar grammar_of(std::string_view text) {
  if (!text.starts_with('/')) return regex_grammar(text);
  return json_schema_grammar(
      flare::Json::object({{"type", "string"}, {"pattern", text.substr(1)}, {"maxLength", 40}}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    CompileLimits limits;
    limits.warm_ms = 0;
    limits.max_bytes = size_t{16} << 20;
    limits.max_cache_bytes = size_t{4} << 20;
    Matcher matcher(compile(grammar_of(text), vocabulary(), limits));
    uint32_t draw = static_cast<uint32_t>(size) * 2654435761u;
    for (int step = 0; step < 20; ++step) {
      std::vector<uint32_t> mask(vocabulary()->mask_words(), 0);
      if (!matcher.fill_mask(mask)) break;
      draw = draw * 1664525u + 1013904223u;
      const auto n = static_cast<uint32_t>(vocabulary()->size());
      uint32_t id = (draw >> 8) % n;
      while (!(mask[id / 32] >> (id % 32) & 1)) id = (id + 1) % n;
      if (!matcher.advance(static_cast<int32_t>(id))) std::abort();
    }
    matcher.rollback(matcher.advances() / 2);
    matcher.forced_bytes();
  } catch (const ConstraintError&) {
  }
  return 0;
}
