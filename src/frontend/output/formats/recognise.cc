// Markers by which formats are recognised in templates and in what they render.
#include "frontend/output/formats/recognise.h"

#include <array>
#include <string>

namespace flare::frontend::output {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Narrow ones first: the last one's marker is part of nothing above, but common.
constexpr std::array<ReasoningMarks, 8> kReasoning = {{
    {"think_harmony",
     "<|channel|>analysis",
     "<|channel|>analysis",
     "",
     "",
     {"low", "medium", "high", ""}},
    {"think_atem",
     " to=self<|message|>",
     "assistant to=self",
     "",
     "",
     {"low", "medium", "high", "xhigh"}},
    {"think_gemma",
     "<|channel>thought",
     "<|channel>thought",
     "<|channel>thought",
     "<channel|>",
     {}},
    {"think_minimax", "<mm:think>", "</mm:think>", "<mm:think>", "</mm:think>", {}},
    {"think_seed", "<seed:think>", "</seed:think>", "<seed:think>", "</seed:think>", {}},
    {"think_mistral", "[THINK]", "[/THINK]", "[THINK]", "[/THINK]", {}},
    {"think_xtml",
     "open_tag('think'",
     "<|open|>think<|sep|>",
     "<|open|>think<|sep|>",
     "<|close|>think<|sep|>",
     {}},
    {"think", "<think>", "</think>", "<think>", "</think>", {}},
}};

std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') out += c;
  return out;
}

}  // namespace

std::string_view tool_format_of_call(std::string_view text, std::string_view tool,
                                     std::string_view argument) {
  const std::string s = squeeze(text);
  const auto named = [&](std::string_view before) {
    return has(s, std::string(before) + std::string(tool));
  };
  const auto has_argument = [&](std::string_view before, std::string_view after) {
    return has(s, std::string(before) + std::string(argument) + std::string(after));
  };
  if (named("<|open|>calltool=\"")) return "xtml";
  if (named("｜DSML｜invokename=\"")) return "dsml";
  if (named("]<]minimax[>[<invokename=\"")) return "minimax";
  if (named("<atem:invokename=\"")) return "atem";
  if (named("<|tool_call>call:")) return "gemma";
  if (named("to=functions.")) return "harmony";
  if (has(s, "<|tool_call_begin|>") && has(s, "<|tool_call_argument_begin|>")) return "kimi";
  if (named("[TOOL_CALLS]") || named("[TOOL_CALLS][{\"name\":\"")) return "mistral";
  if (named("<tool_call><function=") && has_argument("<parameter=", ">")) return "qwen_xml";
  if (named("<tool_call>") && has_argument("<arg_key>", "</arg_key>")) return "glm";
  if (named("<tool_call>{\"name\":\"") && has(s, "\"arguments\":")) return "hermes";
  const bool object = named("{\"name\":\"") && !named("[{\"name\":\"");
  if (object && has_argument("\"parameters\":{\"", "\"")) return "llama3";
  return {};
}

std::string_view tool_format_of_source(std::string_view source) {
  const std::string s = squeeze(source);
  if (!has(s, "tools")) return {};
  if (has(s, "<|tool_call_begin|>") && has(s, "<|tool_call_argument_begin|>")) return "kimi";
  if (has(s, "｜DSML｜")) return "dsml";
  if (has(s, "]<]minimax[>[")) return "minimax";
  if (has(s, "<atem:invoke")) return "atem";
  if (has(s, "<|tool_call>call:")) return "gemma";
  if (has(s, "to=functions.")) return "harmony";
  if (has(s, "[TOOL_CALLS]")) return "mistral";
  if (has(s, "<tool_call><function=")) return "qwen_xml";
  if (has(s, "<tool_call>") && has(s, "<arg_key>")) return "glm";
  if (has(s, "<tool_call>\\n{\"name\"") || has(s, "<tool_call>{\"name\"") ||
      has(s, "<tool_call>\\n{\\\"name\\\"")) {
    return "hermes";
  }
  return {};
}

const ReasoningMarks* reasoning_marks_of(std::string_view source) {
  for (const ReasoningMarks& marks : kReasoning)
    if (has(source, marks.in_source) || has(source, marks.or_in_source)) return &marks;
  return nullptr;
}

}  // namespace flare::frontend::output
