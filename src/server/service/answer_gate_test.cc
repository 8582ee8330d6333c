// Stop strings, reasoning and calls together, with the bundled tokenizer.
#include "server/service/answer_gate.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace flare::server {
namespace {

using frontend::Output;
using frontend::OutputEnd;

const frontend::Tokenizer& nano() {
  static const frontend::Tokenizer tokenizer = [] {
    const std::string path = FLARE_SOURCE_DIR "/models/nano/tokenizer.json";
    return frontend::Tokenizer::from_json(read_text_file(path), path);
  }();
  return tokenizer;
}

const frontend::ToolSet& tools() {
  static const frontend::ToolSet set = frontend::ToolSet::from_json(
      parse_json(R"([{"name":"f","parameters":{"properties":{"s":{"type":"string"}}}}])", "tools"));
  return set;
}

struct Answer {
  Output output;
  std::string matched;
  bool stopped = false;
  bool has_call = false;
};

// `batch` tokens in each step, as drafts make them.
Answer feed(std::string_view text, std::vector<std::string> stops, size_t batch = 1,
            std::string_view tail = {}) {
  AnswerGate gate(nano(), std::move(stops),
                  {.format = frontend::find_format("qwen_xml"),
                   .reasoning = frontend::find_reasoning_format("think"),
                   .tools = &tools(),
                   .prompt_tail = tail});
  Answer answer;
  const auto ids = nano().encode(text, {false, true});
  const auto collect = [&](const std::vector<frontend::OutputEvent>& events) {
    for (const auto& event : events) append_event(event, &answer.output);
  };
  for (size_t at = 0; at < ids.size() && !answer.stopped; at += batch) {
    const auto offered = std::span(ids).subspan(at, std::min(batch, ids.size() - at));
    const auto verdict = gate.preview(offered);
    gate.commit(verdict.kept);
    answer.stopped = verdict.stop;
    collect(gate.take());
  }
  collect(gate.finish(answer.stopped ? OutputEnd::kCut : OutputEnd::kNatural));
  answer.matched = gate.matched();
  answer.has_call = gate.has_complete_call();
  return answer;
}

constexpr std::string_view kCall =
    "<tool_call>\n<function=f>\n<parameter=s>\nSTOP here\n</parameter>\n</function>\n</tool_call>";

TEST(AnswerGate, ReasoningTextAndCallsComeApart) {
  for (const size_t batch : {1, 3, 1000}) {
    const Answer got =
        feed("plan\n</think>\n\nText.\n\n" + std::string(kCall), {}, batch, "<think>\n");
    EXPECT_EQ(got.output.reasoning, "plan");
    EXPECT_EQ(got.output.content, "Text.");
    ASSERT_EQ(got.output.calls.size(), 1u);
    EXPECT_EQ(got.output.calls[0].arguments, R"({"s":"STOP here"})");
    EXPECT_TRUE(got.has_call);
  }
}

TEST(PublicCase, B010_StopStringsThatSpanTokensCutTheText) {
  for (const size_t batch : {1, 2, 7}) {
    const Answer got = feed("The quick brown fox jumps", {"own fox"}, batch);
    EXPECT_TRUE(got.stopped);
    EXPECT_EQ(got.output.content, "The quick br");
    EXPECT_EQ(got.matched, "own fox");
    EXPECT_EQ(feed("The quick brown fan", {"own fox"}, batch).output.content,
              "The quick brown fan");
    EXPECT_EQ(feed("a bcd e", {"cd e", "bc"}, batch).matched, "bc");
  }
}

TEST(AnswerGate, StopStringsMatchContentAlone) {
  const Answer got = feed("STOP in thought</think>" + std::string(kCall), {"STOP"}, 1, "<think>");
  EXPECT_FALSE(got.stopped);
  EXPECT_EQ(got.output.reasoning, "STOP in thought");
  EXPECT_EQ(got.output.calls.size(), 1u);
  const Answer cut = feed("thought</think>a STOP b", {"STOP"}, 1, "<think>");
  EXPECT_TRUE(cut.stopped);
  EXPECT_EQ(cut.output.content, "a ");
}

TEST(PublicCase, B093_HeldTextPassesTheParsers) {
  const Answer call = feed("I call XYZ" + std::string(kCall), {"XYZXYZ"});
  EXPECT_FALSE(call.stopped);
  EXPECT_EQ(call.output.content, "I call XYZ");
  EXPECT_EQ(call.output.calls.size(), 1u);
  const Answer marker = feed("thought XYZ</think>text XYZ", {"XYZXYZ"}, 1, "<think>");
  EXPECT_EQ(marker.output.reasoning, "thought XYZ");
  EXPECT_EQ(marker.output.content, "text XYZ");
}

}  // namespace
}  // namespace flare::server
