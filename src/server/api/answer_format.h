// Structured output: what the text of an answer may be, as requests say it (serving.md S7).
#pragma once

#include <optional>
#include <string>

#include "frontend/grammar/grammar.h"
#include "server/api/fields.h"

namespace flare::server {

// A grammar of the answer's text, and the field it came from.
struct AnswerFormat {
  std::optional<frontend::grammar::Grammar> grammar;  // none: any text
  std::string param;                                  // "response_format" and the like
  bool is_regex = false;
};

// `response_format`, `structured_outputs`, its aliases guided_*, `grammar` and `json_schema`
// (native). At most one of them may restrict the answer (conflicting_parameters). Throws ApiError.
AnswerFormat read_answer_format(const Fields& fields);

// {"type": "text" | "json_object" | "json_schema", …}: the value of `response_format`, of
// `text.format` (Responses) and `output_config.format` (Messages). The members of a json_schema
// stand in the member of this name, or (flat) beside the type. `param` names the field in errors.
std::optional<frontend::grammar::Grammar> read_format_object(const Json& format,
                                                             const std::string& param);

}  // namespace flare::server
