// Qwen3-Coder, Qwen3.5 and later, MiMo, Step, Nemotron: function and parameter tags, values on
// lines of their own (chat_formats §3).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<tool_call>",
                                    .close = "</tool_call>",
                                    .call_open = "<function=",
                                    .call_open_end = ">",
                                    .call_close = "</function>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<parameter=",
                                                  .open_end = ">",
                                                  .close = "</parameter>",
                                                  .typing = Typing::kSchema,
                                                  .line_borders = true},
                                    .gap = "\n"}};
constexpr std::string_view kTokens[] = {"<tool_call>", "</tool_call>"};
const Format kQwenXml = {.name = "qwen_xml", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
