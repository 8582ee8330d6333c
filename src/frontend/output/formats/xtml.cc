// Kimi K3: XTML elements between open, sep and close tokens (glm_kimi §12).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<|open|>tools<|sep|>",
                                    .close = "<|close|>tools<|sep|>",
                                    .call_open = "<|open|>call ",
                                    .call_open_end = "<|sep|>",
                                    .name_attribute = "tool",
                                    .call_close = "<|close|>call<|sep|>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<|open|>argument ",
                                                  .open_end = "<|sep|>",
                                                  .key_attribute = "key",
                                                  .type_attribute = "type",
                                                  .close = "<|close|>argument<|sep|>",
                                                  .typing = Typing::kTypeAttribute,
                                                  .escapes = true},
                                    .json_open = "<|open|>json",
                                    .json_close = "<|close|>json<|sep|>",
                                    .head_before = "tool=\"",
                                    .head_after = "\" index=\"[1-9][0-9]{0,5}\""}};
constexpr std::string_view kSilent[] = {"<|open|>response<|sep|>", "<|close|>response<|sep|>",
                                        "<|close|>message<|sep|>", "<|end_of_msg|>"};
constexpr std::string_view kTokens[] = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"};
const Format kXtml = {
    .name = "xtml", .spellings = kSpellings, .silent = kSilent, .tokens = kTokens};
const ReasoningFormat kThinkXtml = {.name = "think_xtml",
                                    .open = "<|open|>think<|sep|>",
                                    .close = "<|close|>think<|sep|>",
                                    .silent = kSilent};

}  // namespace flare::frontend::output
