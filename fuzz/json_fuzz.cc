// Fuzz target of both JSON parsers: they agree, and what they wrote they read again.
// fuzz links: flare_base
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/json/json.h"
#include "require.h"

namespace {

using Parser = flare::Json (*)(std::string_view, std::string_view, flare::JsonLimits);

std::optional<flare::Json> parse(Parser parser, std::string_view text) {
  try {
    return parser(text, "fuzz", {});
  } catch (const flare::Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto small = parse(flare::parse_json, text);
  const auto large = parse(flare::parse_large_json, text);
  require(small == large);
  if (small) {
    require(parse(flare::parse_json, small->to_text()) == small);
    require(parse(flare::parse_large_json, small->to_pretty_text()) == small);
  }
  return 0;
}
