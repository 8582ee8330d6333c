// GLM: the name, then arg_key and arg_value pairs (chat_formats §8).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<tool_call>",
                                    .close = "</tool_call>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<arg_key>",
                                                  .open_end = "</arg_key>",
                                                  .value_open = "<arg_value>",
                                                  .close = "</arg_value>",
                                                  .typing = Typing::kSchema},
                                    .one_call = true}};
constexpr std::string_view kTokens[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                        "</arg_key>",  "<arg_value>",  "</arg_value>"};
const Format kGlm = {.name = "glm", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
