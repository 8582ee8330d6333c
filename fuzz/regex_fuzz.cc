// Fuzz target of ECMA-262 patterns: as a whole answer and as a search in a JSON string.
#include <cstdint>
#include <string_view>

#include "matcher_walk.h"

namespace {

using namespace flare::frontend::grammar;

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
    walk_grammar(grammar_of(text), static_cast<uint32_t>(size));
  } catch (const ConstraintError&) {
  }
  return 0;
}
