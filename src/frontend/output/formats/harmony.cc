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
constexpr Channels kChannels = {.start = "<|start|>",
                                .body_open = "<|message|>",
                                .ends = kEnds,
                                .header_starts = kHeaderStarts,
                                .route = route};
constexpr Spelling kSpellings[] = {{.body = Body::kJson, .one_call = true}};
const Format kHarmony = {.name = "harmony", .spellings = kSpellings, .channels = &kChannels};
const ReasoningFormat kThinkHarmony = {.name = "think_harmony", .channels = &kChannels};

}  // namespace flare::frontend::output
