// Which formats a chat template speaks of; template/traits.h asks and makes the probes.
#pragma once

#include <array>
#include <string_view>

namespace flare::frontend::output {

// The tool format of a rendered call of `tool` with the string `argument`; empty: none that is
// known.
std::string_view tool_format_of_call(std::string_view text, std::string_view tool,
                                     std::string_view argument);
// The tool format that a template speaks of whose calls cannot be rendered; empty: none.
std::string_view tool_format_of_source(std::string_view source);

struct ReasoningMarks {
  std::string_view format;
  std::string_view in_source;  // tells the format; one of two spellings
  std::string_view or_in_source;
  std::string_view open, close;            // in a prompt; empty where blocks are messages
  std::array<std::string_view, 4> levels;  // of templates that print any level they are given
};

// Of a template without its comments; nullptr if it has no reasoning that is known.
const ReasoningMarks* reasoning_marks_of(std::string_view source);

}  // namespace flare::frontend::output
