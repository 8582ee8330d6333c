// Every format against its corpus, for every way of cutting the output.
#include <gtest/gtest.h>

#include <numeric>

#include "base/case_sample_fixture.h"
#include "frontend/output/output_corpus_fixture.h"

namespace flare::frontend {
namespace {

class OutputCorpus : public testing::TestWithParam<std::string> {};

std::vector<size_t> every_byte(size_t size) {
  std::vector<size_t> cuts(size ? size - 1 : 0);
  std::iota(cuts.begin(), cuts.end(), size_t{1});
  return cuts;
}

// As tokenizers cut: words with the space before them, punctuation in small runs.
std::vector<size_t> like_tokens(const std::string& text) {
  std::vector<size_t> cuts;
  const auto kind = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ? 0 : c == ' ' ? 1 : 2;
  };
  for (size_t i = 1; i < text.size(); ++i)
    if (kind(text[i]) != kind(text[i - 1]) && kind(text[i - 1]) != 1) cuts.push_back(i);
  return cuts;
}

TEST_P(OutputCorpus, GivesWhatTheSpecificationSays) {
  const auto cases = read_cases(GetParam());
  EXPECT_GE(cases.size(), 25u);
  for (const OutputCase& c : cases) expect_output(parse_in_pieces(c, {}), c.want, c.name);
}

TEST_P(OutputCorpus, EveryCutGivesTheSame) {
  SampledCases cuts(4);
  for (const OutputCase& c : read_cases(GetParam())) {
    EXPECT_TRUE(same_output(parse_in_pieces(c, every_byte(c.output.size())), c.want)) << c.name;
    EXPECT_TRUE(same_output(parse_in_pieces(c, like_tokens(c.output)), c.want)) << c.name;
    const size_t step = std::max<size_t>(1, c.output.size() / 2000);
    for (size_t cut = 1; cut < c.output.size(); cut += step) {
      if (!cuts.next()) continue;
      ASSERT_TRUE(same_output(parse_in_pieces(c, {cut}), c.want)) << c.name << " cut at " << cut;
    }
  }
}

TEST_P(OutputCorpus, RandomCutsGiveTheSame) {
  std::mt19937 random(20261);
  for (const OutputCase& c : read_cases(GetParam()))
    for (int round = 0; round < 12; ++round) {
      std::vector<size_t> cuts;
      for (size_t at = 0; (at += 1 + random() % (round + 2)) < c.output.size();) cuts.push_back(at);
      ASSERT_TRUE(same_output(parse_in_pieces(c, cuts), c.want)) << c.name << " round " << round;
    }
}

TEST_P(OutputCorpus, CompleteCallsCarryOneObject) {
  for (const OutputCase& c : read_cases(GetParam()))
    for (const OutputCall& call : parse_in_pieces(c, {}).calls) {
      if (!call.complete) continue;
      EXPECT_TRUE(parse_json(call.arguments, c.name, {.max_depth = 256}).is_object()) << c.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, OutputCorpus,
                         testing::Values("hermes", "qwen_xml", "dsml", "xtml", "kimi", "llama3",
                                         "mistral", "harmony", "gemma", "glm", "minimax", "atem",
                                         "none"),
                         [](const auto& info) { return info.param; });

std::string with_markers(std::string text, const ReasoningFormat& markers) {
  for (const auto& [from, to] :
       {std::pair<std::string_view, std::string_view>{"</think>", markers.close},
        {"<think>", markers.open}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}

// The cases of `think` with the markers of other formats that are two markers and no more.
TEST(ReasoningMarkers, MeanTheSameInWhicheverSpelling) {
  for (const char* name : {"think_seed", "think_minimax", "think_mistral"}) {
    const ReasoningFormat& markers = *find_reasoning_format(name);
    size_t n_seen = 0;
    for (OutputCase c : read_cases("none")) {
      if (c.reasoning != "think") continue;
      n_seen += c.output.find("</think>") != std::string::npos ? 1 : 0;
      c.reasoning = name;
      for (std::string* text : {&c.tail, &c.output, &c.want.reasoning, &c.want.content})
        *text = with_markers(std::move(*text), markers);
      const std::string what = std::string(name) + ": " + c.name;
      expect_output(parse_in_pieces(c, {}), c.want, what);
      EXPECT_TRUE(same_output(parse_in_pieces(c, every_byte(c.output.size())), c.want)) << what;
    }
    EXPECT_GE(n_seen, 10u);
  }
}

}  // namespace
}  // namespace flare::frontend
