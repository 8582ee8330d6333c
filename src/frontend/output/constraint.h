// Tool calls as a constraint on what a model may write, from the same descriptions as the parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/grammar/grammar.h"
#include "frontend/output/format.h"
#include "frontend/output/tools.h"

namespace flare::frontend {

// Code of ConstraintError for a strict tool whose schema cannot be enforced (serving.md S6.8).
inline constexpr std::string_view kInvalidToolSchema = "invalid_tool_schema";

struct ToolChoice {
  enum class Mode : uint8_t { kAuto, kRequired, kNamed } mode = Mode::kAuto;
  // The tools that may be called, one for kNamed; empty: all.
  std::vector<std::string> names;
  bool parallel = true;  // false: at most one call
};

struct ToolConstraint {
  grammar::Grammar::Expr answer = -1;
  std::vector<std::string> loosened;  // "tool 'x': what is not enforced", for the log
};

inline constexpr grammar::Grammar::Expr kFreeText = -1;

// The answer behind the reasoning block; of channel forms every message, reasoning included, from
// behind the start marker and role that the prompt ends with. kAuto: text (`text_answer` if given,
// else any), and once a call starts, its framing and the name of a declared tool; what stands in
// the arguments is free but for tools that are strict. kRequired, kNamed: calls alone, kNamed one,
// their arguments as the schemas say, in the order of `properties`. What this accepts is parsed
// into exactly the calls that were written, except where JSON within tags spells the closing tag.
// Errors: ConstraintError kInvalidToolSchema, with the tool, and the path of its schema and the
// pointer within as the pointer: "tools[3].function.parameters/properties/a/not".
ToolConstraint tool_constraint(grammar::Grammar& grammar, const Format& format,
                               const ToolSet& tools, const ToolChoice& choice,
                               grammar::Grammar::Expr text_answer = kFreeText);

}  // namespace flare::frontend
