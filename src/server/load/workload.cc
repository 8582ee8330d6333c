// Word lists rather than random letters: real vocabularies have a token for most of these words.
#include "server/load/workload.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace flare::server::load {
namespace {

constexpr std::string_view kWords[] = {
    "time",     "year",    "people",   "way",     "day",      "man",       "thing",    "woman",
    "life",     "child",   "world",    "school",  "state",    "family",    "student",  "group",
    "country",  "problem", "hand",     "part",    "place",    "case",      "week",     "company",
    "system",   "program", "question", "work",    "number",   "night",     "point",    "home",
    "water",    "room",    "mother",   "area",    "money",    "story",     "fact",     "month",
    "lot",      "right",   "study",    "book",    "eye",      "job",       "word",     "business",
    "issue",    "side",    "kind",     "head",    "house",    "service",   "friend",   "father",
    "power",    "hour",    "game",     "line",    "end",      "member",    "law",      "car",
    "city",     "name",    "team",     "minute",  "idea",     "body",      "back",     "parent",
    "face",     "level",   "office",   "door",    "health",   "person",    "art",      "war",
    "history",  "party",   "result",   "change",  "morning",  "reason",    "research", "girl",
    "guy",      "moment",  "air",      "teacher", "force",    "education", "foot",     "boy",
    "age",      "policy",  "music",    "market",  "sense",    "nation",    "plan",     "college",
    "interest", "death",   "use",      "class",   "control",  "field",     "figure",   "effort",
    "rate",     "heart",   "drug",     "show",    "leader",   "light",     "voice",    "wife",
    "police",   "mind",    "price",    "report",  "decision", "son",       "view",     "town",
    "road",     "arm",     "value",    "action",  "season",   "model",     "space",    "film",
    "ground",   "form",    "event",    "matter"};

constexpr double kShared = 7.0 / 8;  // of the prompt, where there is a system text in common
constexpr double kTurn = 1.0 / 8;    // of the prompt: a later question

Json message(std::string_view role, const std::string& text) {
  return Json::object({{"role", role}, {"content", text}});
}

}  // namespace

std::string_view scenario_name(Scenario scenario) {
  switch (scenario) {
    case Scenario::kUniform:
      return "uniform";
    case Scenario::kSharedPrefix:
      return "shared-prefix";
    case Scenario::kAgent:
      return "agent";
  }
  return "";
}

uint32_t TokenScale::words(double tokens) const {
  return static_cast<uint32_t>(std::max(1.0, std::round((tokens - base) / per_word)));
}

TokenScale TokenScale::through(uint32_t words_a, uint64_t tokens_a, uint32_t words_b,
                               uint64_t tokens_b) {
  TokenScale scale;
  if (words_b > words_a && tokens_b > tokens_a)
    scale.per_word = static_cast<double>(tokens_b - tokens_a) / (words_b - words_a);
  scale.base = std::max(0.0, static_cast<double>(tokens_a) - scale.per_word * words_a);
  return scale;
}

std::string text_of_words(std::mt19937_64& random, uint32_t n) {
  std::string text;
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0) text += ' ';
    text += kWords[random() % std::size(kWords)];
  }
  return text;
}

Conversations::Conversations(Scenario scenario, uint32_t prompt_tokens, const TokenScale& scale,
                             uint64_t seed)
    : scenario_(scenario), prompt_tokens_(prompt_tokens), scale_(scale), random_(seed) {
  if (scenario_ != Scenario::kUniform) system_ = own_text("Rules", prompt_tokens_ * kShared);
}

// The words begin with a number that no other text has, so that no prefix is shared by chance.
std::string Conversations::own_text(std::string_view opening, double tokens) {
  const uint64_t number = random_() % 1000000;
  return fmt::format("{} {}: {}", opening, number, text_of_words(random_, scale_.words(tokens)));
}

Json Conversations::begin(uint32_t session) {
  Json messages = Json::array();
  if (!system_.empty()) messages.push_back(message("system", system_));
  const double own = scenario_ == Scenario::kUniform ? 1 : 1 - kShared;
  messages.push_back(
      message("user", own_text(fmt::format("Question {}", session),
                               prompt_tokens_ * own + (system_.empty() ? 0 : scale_.base))));
  return messages;
}

void Conversations::go_on(Json* messages, const std::string& answer) {
  messages->push_back(message("assistant", answer));
  messages->push_back(message("user", own_text("Result", prompt_tokens_ * kTurn + scale_.base)));
}

Json Conversations::shared() const {
  if (scenario_ != Scenario::kSharedPrefix) return {};
  return Json::array({message("system", system_), message("user", "Ready?")});
}

}  // namespace flare::server::load
