// Published chat templates, byte for byte as jinja2 renders them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/file.h"
#include "frontend/template/template.h"

namespace flare::frontend {
namespace {

constexpr int64_t kClock = 1767323045;  // 2026-01-02 03:04:05 UTC, as the goldens were made

std::string shared_data() { return std::string(FLARE_SOURCE_DIR) + "/../shared/data"; }

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Json defaults() {
  return Json::object(
      {{"add_generation_prompt", true}, {"bos_token", "<s>"}, {"eos_token", "</s>"}});
}

// Empty if the rendering is what the golden says, otherwise what went wrong.
std::string difference(const std::string& source, const std::string& name, const Json& fixture,
                       const Json& golden) {
  Json variables = defaults();
  for (const auto& [key, value] : fixture.as_object()) variables.set(key, value);
  const Json* text = golden.find("text");
  try {
    const Template parsed = Template::parse(source, name);
    const std::string got = parsed.render(variables, {"bos_token", "eos_token"}, kClock).text();
    if (!text) return "rendered, but jinja2 fails: " + golden.at("error").as_string();
    if (got == text->as_string()) return "";
    size_t at = 0;
    while (at < got.size() && at < text->as_string().size() && got[at] == text->as_string()[at]) {
      ++at;
    }
    const size_t from = at < 40 ? 0 : at - 40;
    return fmt::format("differs at byte {}:\n got  {}\n want {}", at, quote(got.substr(from, 80)),
                       quote(text->as_string().substr(from, 80)));
  } catch (const Error& error) {
    if (text) return "fails: " + error.message();
    // The golden's message was cut at 160 characters, its class stands in front.
    const std::string& want = golden.at("error").as_string();
    const std::string message = want.substr(want.find(": ") + 2);
    // What the parser says is our own wording.
    if (want.starts_with("TemplateSyntaxError") || want.starts_with("TemplateAssertionError")) {
      return "";
    }
    return error.message().find(message) != std::string::npos
               ? ""
               : "fails with " + error.message() + "\n want " + want;
  }
}

TEST(TemplateGoldens, PublishedTemplatesRenderAsInJinja2) {
  const std::string goldens = shared_data() + "/goldens/templates";
  if (!std::filesystem::exists(goldens)) GTEST_SKIP() << goldens << " is absent";
  const Json fixtures = parse_json(slurp(goldens + "/fixtures.json"), "fixtures.json");
  std::ifstream lines(goldens + "/expected.jsonl");
  size_t n = 0;
  std::set<std::string> failures;
  for (std::string line; std::getline(lines, line);) {
    const Json entry = parse_json(line, "expected.jsonl");
    const std::string name = entry.at("template").as_string();
    const std::string source = slurp(shared_data() + "/templates/" + name);
    for (const auto& [fixture, golden] : entry.at("cases").as_object()) {
      ++n;
      const std::string what = difference(source, name, fixtures.at(fixture), golden);
      if (what.empty()) continue;
      failures.insert(name + " " + fixture);
      ADD_FAILURE() << name << " with fixture " << fixture << ": " << what;
    }
  }
  EXPECT_EQ(n, 104u * 16u);
  EXPECT_EQ(failures, std::set<std::string>{});  // a known difference would be named here
}

TEST(TemplateGoldens, NanoPromptsAreThoseOfTransformers) {
  const std::string nano = shared_data() + "/models/nano";
  if (!std::filesystem::exists(nano)) GTEST_SKIP() << nano << " is absent";
  const Template parsed =
      Template::parse(slurp(nano + "/chat_template.jinja"), "chat_template.jinja");
  const Json greedy = parse_json(slurp(nano + "/greedy.json"), "greedy.json");
  size_t n = 0;
  for (const Json& entry : greedy.at("cases").as_array()) {
    if (!entry.find("messages") || !entry.find("prompt")) continue;
    Json variables = defaults();
    variables.set("messages", entry.at("messages"));
    for (const char* name : {"tools", "enable_thinking"}) {
      const Json* value = entry.find(name);
      if (value && !value->is_null()) variables.set(name, *value);
    }
    EXPECT_EQ(parsed.render(variables, {}, kClock).text(), entry.at("prompt").as_string());
    ++n;
  }
  EXPECT_GT(n, 0u);
}

// Small templates with expectations that jinja2 3.1.2 rendered (tools/jinja_oracle.py).
TEST(TemplateGoldens, OwnCasesRenderAsInJinja2) {
  const std::string path = std::string(FLARE_SOURCE_DIR) + "/tests/data/templates/cases.json";
  const Json cases = parse_json(slurp(path), path);
  EXPECT_GT(cases.at("cases").as_array().size(), 100u);
  for (const Json& entry : cases.at("cases").as_array()) {
    const std::string& source = entry.at("source").as_string();
    const std::string what = difference(source, "case", cases.at("variables"), entry);
    EXPECT_EQ(what, "") << source;
  }
}

}  // namespace
}  // namespace flare::frontend
