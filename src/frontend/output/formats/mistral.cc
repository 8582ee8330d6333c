// Mistral: [TOOL_CALLS] and an array of calls, or per call NAME[ARGS] and an object.
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {
namespace {

// NAME or NAME[CALL_ID]ID.
std::string_view name_of(std::string_view head) { return head.substr(0, head.find("[CALL_ID]")); }

}  // namespace

constexpr Spelling kSpellings[] = {{.open = "[TOOL_CALLS]",
                                    .call_open_end = "[ARGS]",
                                    .body = Body::kJson,
                                    .array = true,
                                    .one_call = true,
                                    .name_of = name_of,
                                    .arguments_key = "arguments"}};
constexpr std::string_view kTokens[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
const Format kMistral = {.name = "mistral", .spellings = kSpellings, .tokens = kTokens};
const ReasoningFormat kThinkMistral = {
    .name = "think_mistral", .open = "[THINK]", .close = "[/THINK]"};

}  // namespace flare::frontend::output
