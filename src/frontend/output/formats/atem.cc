// Muse ATEM: messages with recipients; one to a tool holds invoke tags (chat_formats §13).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {
namespace {

// self is reasoning, user and commentary are visible, any other recipient is a tool.
Route route(std::string_view header) {
  const std::string_view recipient = word_after(header, "to=");
  if (recipient == "self") return {Route::Kind::kReasoning, {}};
  if (recipient.empty() || recipient == "user" || recipient == "commentary")
    return {Route::Kind::kContent, {}};
  return {Route::Kind::kCall, {}};
}

}  // namespace

constexpr std::string_view kEnds[] = {"<|eom|>", "<|eot|>"};
constexpr std::string_view kHeaderStarts[] = {"to=", "<|start|>", "<|message|>"};
constexpr std::string_view kReasoning[] = {" to=self<|message|>"};
constexpr std::string_view kPreamble[] = {" to=commentary<|message|>", " to=user<|message|>"};
constexpr std::string_view kAnswer[] = {" to=user<|message|>"};
constexpr std::pair<std::string_view, std::string_view> kCall[] = {{" to=", "<|message|>"}};
constexpr Channels kChannels = {.start = "<|start|>",
                                .body_open = "<|message|>",
                                .ends = kEnds,
                                .header_starts = kHeaderStarts,
                                .route = route,
                                .reasoning_headers = kReasoning,
                                .preamble_headers = kPreamble,
                                .answer_headers = kAnswer,
                                .call_headers = kCall};
constexpr Spelling kSpellings[] = {{.open = "<atem:function_calls>",
                                    .close = "</atem:function_calls>",
                                    .call_open = "<atem:invoke ",
                                    .call_open_end = ">",
                                    .name_attribute = "name",
                                    .call_close = "</atem:invoke>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<atem:parameter ",
                                                  .open_end = ">",
                                                  .key_attribute = "name",
                                                  .close = "</atem:parameter>",
                                                  .typing = Typing::kJsonElseText},
                                    .head_before = "name=\"",
                                    .head_after = "\"",
                                    .gap = "\n"}};
constexpr std::string_view kTokens[] = {"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"};
const Format kAtem = {
    .name = "atem", .spellings = kSpellings, .channels = &kChannels, .tokens = kTokens};
const ReasoningFormat kThinkAtem = {.name = "think_atem", .channels = &kChannels};

}  // namespace flare::frontend::output
