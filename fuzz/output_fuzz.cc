// Fuzz target of the output parsers: pieces give what the whole gives, text is valid UTF-8, and
// finished calls carry one JSON object.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/output/parser.h"
#include "require.h"

namespace {

using namespace flare;            // NOLINT
using namespace flare::frontend;  // NOLINT

const ToolSet& tools() {
  static const ToolSet set = ToolSet::from_json(parse_json(
      R"([{"name":"f","parameters":{"properties":{"s":{"type":"string"},"n":{"type":"number"},
          "o":{"type":"object","properties":{"a":{"type":"array","items":{"type":"boolean"}}}},
          "l":{"type":"array"},"m":{"type":["string","null"]},"r":{"$ref":"#"}}}},{"name":"g"}])",
      "tools"));
  return set;
}

Output parse(const OutputParserSettings& settings, std::string_view text, bool cut, uint32_t seed) {
  OutputParser parser(settings);
  std::vector<OutputEvent> events;
  while (!text.empty()) {
    size_t size = text.size();
    if (seed != 0) {  // xorshift
      seed ^= seed << 13;
      seed ^= seed >> 17;
      seed ^= seed << 5;
      size = std::min<size_t>(size, 1 + seed % 9);
    }
    parser.push(text.substr(0, size), false, &events);
    text.remove_prefix(size);
  }
  parser.finish(cut ? OutputEnd::kCut : OutputEnd::kNatural, &events);
  Output output;
  for (const OutputEvent& event : events) append_event(event, &output);
  return output;
}

void check_text(const std::string& text) {  // the JSON parser is strict about UTF-8
  parse_json(Json(text).to_text(), "text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view format = format_names()[data[0] % format_names().size()];
  const std::string_view implied = implied_reasoning_format(format);
  const ReasoningFormat* reasoning = find_reasoning_format(implied.empty() ? "think" : implied);
  std::string tail(data[1] & 1 ? reasoning->open : "");
  if (data[1] & 2 && reasoning->channels) tail = reasoning->channels->start;
  const bool cut = (data[1] & 4) != 0;
  const OutputParserSettings settings{.format = find_format(format),
                                      .reasoning = reasoning,
                                      .tools = data[1] & 8 ? nullptr : &tools(),
                                      .prompt_tail = tail};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Output whole = parse(settings, text, cut, 0);
  for (const uint32_t seed : {1u, 77u + data[1]}) {
    const Output pieces = parse(settings, text, cut, seed);
    require(pieces.reasoning == whole.reasoning);
    require(pieces.content == whole.content);
    require(pieces.calls == whole.calls);
  }
  check_text(whole.reasoning);
  check_text(whole.content);
  for (const OutputCall& call : whole.calls) {
    check_text(call.arguments);
    require(call.complete || cut);
    const std::string object = call.complete ? call.arguments : complete_members(call.arguments);
    require(parse_json(object, "arguments", {.max_depth = 256}).is_object());
  }
  return 0;
}
