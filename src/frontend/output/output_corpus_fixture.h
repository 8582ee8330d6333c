// Cases of model output with the answers that the specification gives, and ways to cut them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "frontend/output/parser.h"

namespace flare::frontend {

struct OutputCase {
  std::string name, format, reasoning, tail, output;
  bool cut = false;
  ToolSet tools;
  Output want;
};

inline std::string read_testdata(const std::string& name) {
  const std::string path = std::string(FLARE_SOURCE_DIR "/src/frontend/output/testdata/") + name;
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const Json& corpus_tools() {
  static const Json tools = parse_json(read_testdata("tools.json"), "tools.json");
  return tools;
}

// The cases of testdata/FORMAT.jsonl.
inline std::vector<OutputCase> read_cases(const std::string& format) {
  const std::string text = read_testdata(format + ".jsonl");
  std::vector<OutputCase> cases;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const Json line = parse_json(std::string_view(text).substr(begin, end - begin), format);
    begin = end + 1;
    OutputCase c{.name = line.at("name").as_string(),
                 .format = format,
                 .reasoning = line.at("reasoning").as_string(),
                 .tail = line.at("tail").as_string(),
                 .output = line.at("output").as_string()};
    c.cut = line.at("end") == Json("cut");
    c.tools = ToolSet::from_json(line.find("tools") ? *line.find("tools") : corpus_tools());
    const Json& want = line.at("want");
    c.want.reasoning = want.at("reasoning").as_string();
    c.want.content = want.at("content").as_string();
    for (const Json& call : want.at("calls").as_array())
      c.want.calls.push_back({.name = call.at("name").as_string(),
                              .arguments = call.at("arguments").as_string(),
                              .complete = call.at("complete").as_bool()});
    cases.push_back(std::move(c));
  }
  return cases;
}

inline OutputParserSettings settings_of(const OutputCase& c) {
  return {.format = find_format(c.format),
          .reasoning = find_reasoning_format(c.reasoning),
          .tools = &c.tools,
          .prompt_tail = c.tail};
}

// Parses the output in pieces that end at `cuts` (ascending) and its end.
inline Output parse_in_pieces(const OutputCase& c, const std::vector<size_t>& cuts) {
  OutputParser parser(settings_of(c));
  std::vector<OutputEvent> events;
  size_t begin = 0;
  for (const size_t end : cuts) {
    parser.push(std::string_view(c.output).substr(begin, end - begin), false, &events);
    begin = end;
  }
  parser.push(std::string_view(c.output).substr(begin), false, &events);
  parser.finish(c.cut ? OutputEnd::kCut : OutputEnd::kNatural, &events);
  Output output;
  for (const OutputEvent& event : events) append_event(event, &output);
  return output;
}

inline void expect_output(const Output& got, const Output& want, const std::string& what) {
  EXPECT_EQ(got.reasoning, want.reasoning) << what;
  EXPECT_EQ(got.content, want.content) << what;
  ASSERT_EQ(got.calls.size(), want.calls.size()) << what;
  for (size_t i = 0; i < got.calls.size(); ++i) {
    EXPECT_EQ(got.calls[i].name, want.calls[i].name) << what;
    EXPECT_EQ(got.calls[i].arguments, want.calls[i].arguments) << what;
    EXPECT_EQ(got.calls[i].complete, want.calls[i].complete) << what;
  }
}

inline bool same_output(const Output& a, const Output& b) {
  return a.reasoning == b.reasoning && a.content == b.content && a.calls == b.calls;
}

}  // namespace flare::frontend
