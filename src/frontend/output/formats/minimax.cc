// MiniMax M3: invoke elements with one nested element per argument, a namespace token before every
// tag (chat_formats §12).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "]<]minimax[>[<tool_call>",
                                    .close = "]<]minimax[>[</tool_call>",
                                    .call_open = "]<]minimax[>[<invoke ",
                                    .call_open_end = ">",
                                    .name_attribute = "name",
                                    .call_close = "]<]minimax[>[</invoke>",
                                    .body = Body::kElements,
                                    .element_mark = "]<]minimax[>[",
                                    .head_before = "name=\"",
                                    .head_after = "\"",
                                    .gap = "\n"}};
constexpr std::string_view kTokens[] = {"]<]minimax[>["};
const Format kMinimax = {.name = "minimax", .spellings = kSpellings, .tokens = kTokens};
const ReasoningFormat kThinkMinimax = {
    .name = "think_minimax", .open = "<mm:think>", .close = "</mm:think>"};

}  // namespace flare::frontend::output
