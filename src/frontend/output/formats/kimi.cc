// Kimi K2: a section of calls between tokens, named functions.NAME:INDEX.
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {
namespace {

std::string_view name_of(std::string_view head) {
  constexpr std::string_view kPrefix = "functions.";
  const size_t colon = head.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == head.size() ||
      head.find_first_not_of("0123456789", colon + 1) != std::string_view::npos)
    return {};
  head = head.substr(0, colon);
  if (head.starts_with(kPrefix)) head.remove_prefix(kPrefix.size());
  return head;
}

}  // namespace

constexpr Spelling kSpellings[] = {{.open = "<|tool_calls_section_begin|>",
                                    .close = "<|tool_calls_section_end|>",
                                    .call_open = "<|tool_call_begin|>",
                                    .call_open_end = "<|tool_call_argument_begin|>",
                                    .call_close = "<|tool_call_end|>",
                                    .body = Body::kJson,
                                    .name_of = name_of,
                                    .head_before = "functions.",
                                    .head_after = ":[0-9]{1,6}"}};
constexpr std::string_view kTokens[] = {"<|tool_calls_section_begin|>",
                                        "<|tool_calls_section_end|>", "<|tool_call_begin|>",
                                        "<|tool_call_argument_begin|>", "<|tool_call_end|>"};
const Format kKimi = {.name = "kimi", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
