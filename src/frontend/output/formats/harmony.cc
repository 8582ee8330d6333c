// gpt-oss Harmony: messages with channels; a message to functions.NAME is a call (chat_formats
// §17).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {
namespace {

// analysis is reasoning, other channels are visible. A recipient makes a call of the message.
Route route(std::string_view header) {
  constexpr std::string_view kChannel = "<|channel|>", kFunctions = "functions.";
  std::string_view recipient = word_after(header, "to=");
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  if (!recipient.empty() && recipient != "user" && recipient != "all" && recipient != "self")
    return {Route::Kind::kCall, recipient};
  const bool reasons =
      word_after(header, kChannel) == "analysis" || word_after(header, "to=") == "self";
  return {reasons ? Route::Kind::kReasoning : Route::Kind::kContent, {}};
}

}  // namespace

constexpr std::string_view kEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
constexpr std::string_view kHeaderStarts[] = {"<|channel|>", "<|start|>", "<|message|>",
                                              "<|constrain|>", "to="};
constexpr std::string_view kReasoning[] = {"<|channel|>analysis<|message|>"};
constexpr std::string_view kPreamble[] = {"<|channel|>commentary<|message|>"};
constexpr std::string_view kAnswer[] = {"<|channel|>final<|message|>"};
constexpr std::pair<std::string_view, std::string_view> kCall[] = {
    {"<|channel|>commentary to=functions.", " <|constrain|>json<|message|>"},
    {"<|channel|>commentary to=functions.", "<|message|>"},
    {" to=functions.", "<|channel|>commentary <|constrain|>json<|message|>"},
    {" to=functions.", "<|channel|>commentary json<|message|>"}};
constexpr Channels kChannels = {.start = "<|start|>",
                                .body_open = "<|message|>",
                                .ends = kEnds,
                                .header_starts = kHeaderStarts,
                                .route = route,
                                .reasoning_headers = kReasoning,
                                .preamble_headers = kPreamble,
                                .answer_headers = kAnswer,
                                .call_headers = kCall};
constexpr Spelling kSpellings[] = {{.body = Body::kJson, .one_call = true}};
constexpr std::string_view kTokens[] = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>",
                                        "<|end|>",   "<|return|>",  "<|call|>"};
const Format kHarmony = {
    .name = "harmony", .spellings = kSpellings, .channels = &kChannels, .tokens = kTokens};
const ReasoningFormat kThinkHarmony = {.name = "think_harmony", .channels = &kChannels};

}  // namespace flare::frontend::output
