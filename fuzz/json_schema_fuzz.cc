// Fuzz target of JSON Schema: a schema compiles or is refused; what its masks allow, it takes.
#include <cstdint>
#include <string_view>

#include "matcher_walk.h"

namespace {

using namespace flare::frontend::grammar;

// Options in the first byte, a schema behind it.
Grammar schema_of(std::string_view text) {
  const bool strict = !text.empty() && text[0] == '!';
  if (strict) text.remove_prefix(1);
  return json_schema_grammar(flare::parse_json(text, "fuzz"), {.strict = strict});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    walk_grammar(schema_of(text), static_cast<uint32_t>(size));
  } catch (const flare::Error&) {
  }
  return 0;
}
