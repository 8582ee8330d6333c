// Chat templates from hostile files: parsing, rendering under limits, and the detector. The input
// is a template; what is after a line of ==== is the caller's JSON.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "frontend/template/template.h"

namespace {

using flare::Json;

const Json& variables() {
  static const Json value = flare::parse_json(
      R"({"messages":[{"role":"system","content":"Be brief."},
          {"role":"user",
          "content":"Hi <|im_end|>"},{"role":"assistant","content":"","reasoning_content":"r",
          "tool_calls":[{"id":"c1","type":
          "function","function":{"name":"f","arguments":{"a":[1,2.5,null,true],"b":"é😀"}}}]},
          {"role":"tool","tool_call_id":"c1","content":"x"}],
          "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":
          {"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}],
          "add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>","s":"Hello World","n":7,
          "f":2.5,"xs":[3,1,2],"d":{"a":1,"b":"two"}})",
      "variables");
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxInput = 16384;
  if (size > kMaxInput) return 0;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kSeparator = "\n====\n";
  const size_t end = text.find(kSeparator);
  flare::frontend::RenderLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1u << 16;
  limits.timeout_ms = 200;
  try {
    const std::string_view source = text.substr(0, end);
    const auto parsed = flare::frontend::Template::parse(source, "fuzz");
    Json given = variables();
    if (end != std::string_view::npos) {
      const Json more = flare::parse_json(text.substr(end + kSeparator.size()), "caller");
      if (more.is_object())
        for (const auto& [name, value] : more.as_object()) given.set(name, value);
    }
    const auto out = parsed.render(given, {"bos_token", "eos_token"}, 1'767'323'045, limits);
    // Runs cover the text, and none is empty.
    size_t begin = 0;
    for (const auto& run : out.runs()) {
      if (run.end <= begin) __builtin_trap();
      begin = run.end;
    }
    if (begin != out.size()) __builtin_trap();
  } catch (const flare::Error&) {
  }
  return 0;
}
