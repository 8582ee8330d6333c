// Gemma 4: call:NAME{key:value} between tool-call tokens, a quote token around strings, a thought
// channel (chat_formats §15).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<|tool_call>",
                                    .close = "<tool_call|>",
                                    .call_open = "call:",
                                    .body = Body::kLiteral,
                                    .quote = "<|\"|>",
                                    .one_call = true}};
constexpr std::string_view kSilent[] = {"<turn|>", "<|tool_response>"};
constexpr std::string_view kTokens[] = {"<|tool_call>", "<tool_call|>", "<|\"|>",
                                        "<|tool_response>", "<turn|>"};
const Format kGemma = {
    .name = "gemma", .spellings = kSpellings, .silent = kSilent, .tokens = kTokens};
const ReasoningFormat kThinkGemma = {
    .name = "think_gemma", .open = "<|channel>thought", .close = "<channel|>", .silent = kSilent};

}  // namespace flare::frontend::output
