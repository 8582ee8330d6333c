// Llama 3: the answer is {"name", "parameters"}, after a python tag or without.
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<|python_tag|>",
                                    .body = Body::kJsonCall,
                                    .bare_object = true,
                                    .arguments_key = "parameters"}};
constexpr std::string_view kTokens[] = {"<|python_tag|>"};
const Format kLlama3 = {.name = "llama3", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
