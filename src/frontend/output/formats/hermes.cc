// Hermes and Qwen3: <tool_call> one JSON object {"name", "arguments"} </tool_call>.
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<tool_call>",
                                    .close = "</tool_call>",
                                    .body = Body::kJsonCall,
                                    .one_call = true,
                                    .arguments_key = "arguments",
                                    .gap = "\n"}};
constexpr std::string_view kTokens[] = {"<tool_call>", "</tool_call>"};
const Format kHermes = {.name = "hermes", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
