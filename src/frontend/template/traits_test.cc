// The detector against a table that a reader of the published templates wrote.
#include "frontend/template/traits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "frontend/output/format.h"
#include "frontend/template/unknown_formats.h"

namespace flare::frontend {
namespace {

std::string dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string yes(bool b) { return b ? "yes" : "no"; }

TemplateTraits traits_of(const std::string& source) {
  const Template parsed = Template::parse(source, "t");
  return detect_traits({source, &parsed}, {}, "<s>", "</s>");
}

std::string row_of(const TemplateTraits& t) {
  constexpr std::string_view kPrompts[] = {"silent", "opens", "closes"};
  const ReasoningTraits& r = t.reasoning;
  std::string levels;
  for (const std::string& level : r.levels) levels += (levels.empty() ? "" : ",") + level;
  return fmt::format(
      "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", dash(t.tool_format), dash(t.reasoning_format),
      t.reasoning_format.empty() ? "-" : kPrompts[static_cast<size_t>(r.prompt)],
      dash(r.switch_name),
      r.switch_name.empty() ? "-"
      : r.default_on        ? "on"
                            : "off",
      dash(r.effort_name), dash(levels), yes(t.rules.late_system), yes(t.rules.adjacent_users),
      yes(t.rules.continues), yes(t.rules.short_call_ids));
}

TEST(TemplateTraits, ArePublishedTemplatesAsAReaderSaysTheyAre) {
  const std::string folder = std::string(FLARE_SOURCE_DIR) + "/../shared/data/templates/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  std::ifstream table(std::string(FLARE_SOURCE_DIR) + "/tests/data/templates/traits.tsv");
  size_t n = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    const size_t tab = line.find('\t');
    ++n;
    EXPECT_EQ(row_of(traits_of(read_text_file(folder + line.substr(0, tab)))), line.substr(tab + 1))
        << line.substr(0, tab);
  }
  EXPECT_EQ(n, 104u);
}

struct TableRow {
  std::string name, tool, reasoning;
};
std::vector<TableRow> table_rows() {
  std::ifstream table(std::string(FLARE_SOURCE_DIR) + "/tests/data/templates/traits.tsv");
  std::vector<TableRow> rows;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream columns(line);
    TableRow& row = rows.emplace_back();
    columns >> row.name >> row.tool >> row.reasoning;
  }
  return rows;
}

TEST(TemplateTraits, FormatsAreThoseThatTheOutputParserKnows) {
  for (const auto& [name, tool, reasoning] : table_rows()) {
    EXPECT_TRUE(tool == "-" || find_format(tool) != nullptr) << tool;
    EXPECT_TRUE(reasoning == "-" || find_reasoning_format(reasoning) != nullptr) << reasoning;
  }
}

UnknownFormats unknown_of(const std::string& source) {
  const Template parsed = Template::parse(source, "t");
  return find_unknown_formats({source, &parsed}, {}, "<s>", "</s>");
}

TEST(TemplateTraits, CallsAndThoughtsOfUnknownFormatsAreShown) {
  const std::string source =
      "{% for m in messages %}{% if m.tool_calls %}@run {{ m.tool_calls[0].function.name }}("
      "{{ m.tool_calls[0].function.arguments.city }})@{% else %}"
      "{% if m.reasoning_content %}%%{{ m.reasoning_content }}%%{% endif %}{{ m.content }}\n"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(traits_of(source).tool_format, "");
  EXPECT_EQ(traits_of(source).reasoning_format, "");
  EXPECT_EQ(unknown_of(source).call, "\n@run flare_probe(Paris)@");
  EXPECT_EQ(unknown_of(source).thinking, "\n%%flare-thought%%");
  const std::string silent = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(unknown_of(silent).call, "");
  EXPECT_EQ(unknown_of(silent).thinking, "");
}

TEST(TemplateTraits, WhatAFormatReadsIsNotUnknown) {
  const std::string folder = std::string(FLARE_SOURCE_DIR) + "/../shared/data/templates/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  for (const auto& [name, tool, reasoning] : table_rows()) {
    const UnknownFormats unknown = unknown_of(read_text_file(folder + name));
    EXPECT_TRUE(tool == "-" || unknown.call.empty()) << name << ": " << unknown.call;
    EXPECT_TRUE(reasoning == "-" || unknown.thinking.empty()) << name << ": " << unknown.thinking;
  }
}

TEST(TemplateTraits, TheTextAroundABlockIsAsTheTemplateWritesIt) {
  const TemplateTraits t = traits_of(
      "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>\n"
      "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}</>{% endfor %}");
  EXPECT_EQ(t.reasoning_format, "think");
  EXPECT_EQ(t.reasoning.open, "<think>\n");
  EXPECT_EQ(t.reasoning.close, "\n</think>\n\n");
  EXPECT_EQ(t.reasoning.prompt, ReasoningPrompt::kSilent);
}

TEST(TemplateTraits, CommentsSayNothing) {
  EXPECT_EQ(traits_of("{# <think> [TOOL_CALLS] tools #}{{ messages[0].content }}").tool_format, "");
  EXPECT_EQ(traits_of("{# <think> #}{{ messages[0].content }}").reasoning_format, "");
}

TEST(TemplateTraits, HarmonyIsToldByItsChannels) {
  const TemplateTraits t = traits_of(
      "Reasoning: {{ reasoning_effort|default('medium') }}"
      "{% for m in messages %}{% if m.tool_calls %}<|start|>assistant to=functions."
      "{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
      "{{ m.tool_calls[0].function.arguments|tojson }}<|call|>{% else %}<|start|>{{ m.role }}"
      "<|channel|>analysis<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}");
  EXPECT_EQ(t.tool_format, "harmony");
  EXPECT_EQ(t.reasoning_format, "think_harmony");
  EXPECT_EQ(t.reasoning.effort_name, "reasoning_effort");
  EXPECT_EQ(t.reasoning.levels, (std::vector<std::string>{"low", "medium", "high"}));
}

TEST(TemplateTraits, TheToolTemplateTellsTheToolFormat) {
  const std::string chat = "{{ messages[-1].content }}";
  const std::string tools =
      "{% for m in messages %}{% if m.tool_calls %}<tool_call>\n{\"name\": "
      "\"{{ m.tool_calls[0].function.name }}\", \"arguments\": "
      "{{ m.tool_calls[0].function.arguments|tojson }}}\n</tool_call>{% else %}{{ m.content }}"
      "{% endif %}{% endfor %}";
  const Template a = Template::parse(chat, "a"), b = Template::parse(tools, "b");
  EXPECT_EQ(detect_traits({chat, &a}, {tools, &b}, "", "").tool_format, "hermes");
  EXPECT_EQ(detect_traits({chat, &a}, {}, "", "").tool_format, "");
}

}  // namespace
}  // namespace flare::frontend
