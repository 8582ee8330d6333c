// DeepSeek V4 and V4.1: DSML tags, which V4.1 writes with a space (deepseek_v4 §14).
#include "frontend/output/formats/formats.h"

namespace flare::frontend::output {

constexpr Spelling kSpellings[] = {{.open = "<｜DSML｜tool_calls>",
                                    .close = "</｜DSML｜tool_calls>",
                                    .call_open = "<｜DSML｜invoke ",
                                    .call_open_end = ">",
                                    .name_attribute = "name",
                                    .call_close = "</｜DSML｜invoke>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<｜DSML｜parameter ",
                                                  .open_end = ">",
                                                  .key_attribute = "name",
                                                  .type_attribute = "string",
                                                  .close = "</｜DSML｜parameter>",
                                                  .typing = Typing::kStringAttribute},
                                    .head_before = "name=\"",
                                    .head_after = "\"",
                                    .gap = "\n"},
                                   {.open = "<｜DSML｜ calls>",
                                    .close = "</｜DSML｜ calls>",
                                    .call_open = "<｜DSML｜ invoke ",
                                    .call_open_end = ">",
                                    .name_attribute = "name",
                                    .call_close = "</｜DSML｜ invoke>",
                                    .body = Body::kParameters,
                                    .parameter = {.open = "<｜DSML｜ parameter ",
                                                  .open_end = ">",
                                                  .key_attribute = "name",
                                                  .type_attribute = "string",
                                                  .close = "</｜DSML｜ parameter>",
                                                  .typing = Typing::kStringAttribute},
                                    .head_before = "name=\"",
                                    .head_after = "\"",
                                    .gap = "\n"}};
constexpr std::string_view kTokens[] = {"｜DSML｜"};
const Format kDsml = {.name = "dsml", .spellings = kSpellings, .tokens = kTokens};

}  // namespace flare::frontend::output
