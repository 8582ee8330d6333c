// The detector: markers in the source, and what probe conversations render to.
#include "frontend/template/traits.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "frontend/output/formats/recognise.h"
#include "frontend/template/unknown_formats.h"

namespace flare::frontend {
namespace {

constexpr std::string_view kAsk = "flare-ask";
constexpr std::string_view kMark = "flare-mark";
constexpr std::string_view kTool = "flare_probe";
constexpr std::string_view kArgument = "city";
constexpr std::string_view kResult = "flare-result";
constexpr std::string_view kThought = "flare-thought";
constexpr std::string_view kAnswer = "flare-answer";
constexpr int64_t kClock = 1'767'323'045;  // any: 2026-01-02

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Json message(std::string_view role, std::string_view content) {
  return Json::object({{"role", role}, {"content", content}});
}

// The source without its comments, which mention what the template does not do.
std::string without_comments(std::string_view source) {
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t begin = source.find("{#", at);
    const size_t end = begin == std::string_view::npos ? begin : source.find("#}", begin);
    out += source.substr(at, std::min(begin, source.size()) - at);
    if (end == std::string_view::npos) return out;
    at = end + 2;
  }
}

// ---- probes ----

using output::ReasoningMarks;

class Prober {
 public:
  Prober(const TemplateSource& chat, const TemplateSource& with_tools, std::string_view bos,
         std::string_view eos)
      : chat_(chat),
        tools_(with_tools.parsed ? with_tools : chat),
        source_(without_comments(chat.source)),
        tool_source_(without_comments(tools_.source)),
        bos_(bos),
        eos_(eos) {}

  TemplateTraits run() {
    TemplateTraits traits;
    traits.rules.late_system = shows_mark({message("user", "a"), message("assistant", "b"),
                                           message("system", kMark), message("user", "c")});
    traits.rules.adjacent_users = shows_mark({message("user", kMark), message("user", "a")});
    traits.rules.continues = shows_mark({message("user", "a"), message("assistant", kMark)}, false);
    traits.rules.short_call_ids = takes_call(call_turns("abc123XYZ", true)) &&
                                  !(takes_call(call_turns("call_1", true)) &&
                                    takes_call(call_turns("call_0123456789-abcdef", true)));
    traits.tool_format = tool_format();
    find_reasoning(traits);
    return traits;
  }

  UnknownFormats unknown() const {
    UnknownFormats out;
    if (const auto call = call_text(); call && tool_format().empty()) out.call = *call;
    if (output::reasoning_marks_of(source_) == nullptr) out.thinking = thought_text();
    return out;
  }

 private:
  using Extra = std::vector<std::pair<std::string, Json>>;

  // Nothing if the template refuses.
  std::optional<std::string> render(const TemplateSource& which, Json::Array messages, Extra extra,
                                    bool generation) const {
    Json variables = Json::object({{"messages", Json(std::move(messages))},
                                   {"add_generation_prompt", generation},
                                   {"bos_token", bos_},
                                   {"eos_token", eos_}});
    for (auto& [name, value] : extra) variables.set(name, std::move(value));
    try {
      return which.parsed->render(variables, {"bos_token", "eos_token"}, kClock).text();
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool shows_mark(Json::Array messages, bool generation = true) const {
    const auto text = render(chat_, std::move(messages), {}, generation);
    return text && has(*text, kMark);
  }

  // The prompt behind the last user text; nothing if the template refuses.
  std::optional<std::string> prompt(Extra extra) const {
    auto text = render(chat_, {message("user", kAsk)}, std::move(extra), true);
    if (!text) return std::nullopt;
    const size_t at = text->rfind(kAsk);
    return at == std::string::npos ? *text : text->substr(at + kAsk.size());
  }
  std::optional<std::string> whole_prompt(Extra extra) const {
    return render(chat_, {message("user", kAsk)}, std::move(extra), true);
  }

  // ---- tools ----

  static Json tool_list() {
    const Json city = Json::object({{"type", "string"}, {"description", "A city."}});
    const Json parameters =
        Json::object({{"type", "object"},
                      {"properties", Json::object({{std::string(kArgument), city}})},
                      {"required", Json::array({kArgument})}});
    return Json::array({Json::object({{"type", "function"},
                                      {"function", Json::object({{"name", kTool},
                                                                 {"description", "A probe."},
                                                                 {"parameters", parameters}})}})});
  }

  static Json::Array call_turns(std::string_view id, bool as_object) {
    const Json arguments = as_object ? Json::object({{std::string(kArgument), "Paris"}})
                                     : Json("{\"city\": \"Paris\"}");
    const Json function = Json::object({{"name", kTool}, {"arguments", arguments}});
    Json call = message("assistant", "");
    call.set(
        "tool_calls",
        Json::array({Json::object({{"id", id}, {"type", "function"}, {"function", function}})}));
    Json result = message("tool", kResult);
    result.set("tool_call_id", id);
    result.set("name", kTool);
    return {message("user", kAsk), std::move(call), std::move(result)};
  }

  bool takes_call(Json::Array turns) const {
    return render(tools_, std::move(turns), {{"tools", tool_list()}}, true).has_value();
  }

  // What the template writes for a call between the question and its result; nothing if it takes
  // no calls or shows none.
  std::optional<std::string> call_text() const {
    for (const bool as_object : {true, false}) {
      for (const bool with_result : {true, false}) {
        Json::Array turns = call_turns("abc123XYZ", as_object);
        if (!with_result) turns.pop_back();
        const auto text = render(tools_, std::move(turns), {{"tools", tool_list()}}, with_result);
        if (!text) continue;
        const size_t asked = text->rfind(kAsk);
        if (asked == std::string::npos) continue;
        const size_t behind = asked + kAsk.size();
        const std::string call = text->substr(behind, text->find(kResult, behind) - behind);
        if (has(call, kTool)) return call;
      }
    }
    return std::nullopt;
  }

  std::string tool_format() const {
    if (const auto call = call_text())
      return std::string(output::tool_format_of_call(*call, kTool, kArgument));
    return std::string(output::tool_format_of_source(tool_source_));
  }

  // ---- reasoning ----

  void find_reasoning(TemplateTraits& traits) const {
    const ReasoningMarks* marks = output::reasoning_marks_of(source_);
    if (!marks) return;
    traits.reasoning_format = marks->format;
    ReasoningTraits& out = traits.reasoning;
    out.open = marks->open;
    out.close = marks->close;
    const auto plain = prompt({});
    if (plain) out.prompt = prompt_state(*plain, *marks);
    find_spelling(out, *marks);
    find_switch(out, *marks);
    find_levels(out, *marks);
  }

  static ReasoningPrompt prompt_state(std::string_view tail, const ReasoningMarks& marks) {
    if (marks.open.empty()) return ReasoningPrompt::kSilent;
    const size_t open = tail.rfind(marks.open), close = tail.rfind(marks.close);
    if (close != std::string_view::npos && (open == std::string_view::npos || close > open)) {
      return ReasoningPrompt::kCloses;
    }
    return open == std::string_view::npos ? ReasoningPrompt::kSilent : ReasoningPrompt::kOpens;
  }

  // A conversation whose answer has a thought; nothing if the template refuses.
  std::optional<std::string> with_thought() const {
    Json last = message("assistant", kAnswer);
    for (const char* name : {"reasoning_content", "reasoning", "thinking"})
      last.set(name, kThought);
    return render(chat_, {message("user", kAsk), std::move(last)}, {}, false);
  }

  // The thought as it is shown between question and answer; empty if it is not.
  std::string thought_text() const {
    const auto text = with_thought();
    if (!text) return {};
    const size_t thought = text->rfind(kThought), asked = text->rfind(kAsk, thought);
    if (thought == std::string::npos || asked == std::string::npos) return {};
    const size_t begin = asked + kAsk.size();
    return text->substr(begin, text->find(kAnswer, thought) - begin);
  }

  // The white space that the template writes beside the markers.
  void find_spelling(ReasoningTraits& out, const ReasoningMarks& marks) const {
    if (marks.open.empty()) return;
    const auto text = with_thought();
    if (!text) return;
    const size_t thought = text->rfind(kThought);
    if (thought == std::string::npos) return;
    const size_t open = text->rfind(marks.open, thought);
    const size_t answer = text->find(kAnswer, thought);
    if (open != std::string::npos) out.open = text->substr(open, thought - open);
    if (answer == std::string::npos) return;
    const size_t end = thought + kThought.size();
    const std::string between = text->substr(end, answer - end);
    if (has(between, marks.close)) out.close = between;
  }

  bool mentions(std::string_view name) const {
    const auto word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    for (size_t at = 0; (at = source_.find(name, at)) != std::string::npos; at += name.size()) {
      const bool before = at > 0 && (word(source_[at - 1]) || source_[at - 1] == '.');
      const bool after = at + name.size() < source_.size() && word(source_[at + name.size()]);
      if (!before && !after) return true;
    }
    return false;
  }

  void find_switch(ReasoningTraits& out, const ReasoningMarks& marks) const {
    struct Candidate {
      std::string_view name;
      Json on, off;
    };
    const Candidate candidates[] = {{"enable_thinking", true, false},
                                    {"thinking", true, false},
                                    {"thinking_mode", "enabled", "disabled"},
                                    {"thinking_budget", -1, 0}};
    for (const Candidate& c : candidates) {
      if (!mentions(c.name)) continue;
      const std::string name(c.name);
      const auto on = whole_prompt({{name, c.on}}), off = whole_prompt({{name, c.off}});
      if (!on || !off || *on == *off) continue;
      out.switch_name = name;
      out.on = c.on;
      out.off = c.off;
      const auto plain = whole_prompt({});
      out.default_on = !(plain && (*plain == *off ||
                                   prompt_state(*prompt({}), marks) == ReasoningPrompt::kCloses));
      return;
    }
  }

  void find_levels(ReasoningTraits& out, const ReasoningMarks& marks) const {
    constexpr std::string_view kNames[] = {"reasoning_effort", "thinking_effort",
                                           "reasoning_strength"};
    constexpr std::string_view kLevels[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
    constexpr std::string_view kNoLevel = "flare-level";
    for (const std::string_view name : kNames) {
      if (!mentions(name)) continue;
      const auto with = [&](std::string_view level) {
        Extra extra{{std::string(name), Json(level)}};
        if (!out.switch_name.empty()) extra.emplace_back(out.switch_name, out.on);
        return whole_prompt(std::move(extra));
      };
      std::vector<std::string> levels;
      std::vector<std::string> texts;
      const auto unknown = with(kNoLevel);
      const bool prints_any = unknown && has(*unknown, kNoLevel);
      for (const std::string_view level : kLevels) {
        const bool known = prints_any ? std::find(marks.levels.begin(), marks.levels.end(),
                                                  level) != marks.levels.end()
                                      : has(source_, "'" + std::string(level) + "'") ||
                                            has(source_, "\"" + std::string(level) + "\"");
        const auto text = known ? with(level) : std::nullopt;
        if (!text || std::find(texts.begin(), texts.end(), *text) != texts.end()) continue;
        levels.emplace_back(level);
        texts.push_back(*text);
      }
      Extra none;
      if (!out.switch_name.empty()) none.emplace_back(out.switch_name, out.on);
      const auto plain = whole_prompt(std::move(none));
      const bool matters = texts.size() > 1 || (texts.size() == 1 && plain && texts[0] != *plain);
      if (!matters) continue;
      out.effort_name = name;
      out.levels = std::move(levels);
      return;
    }
  }

  TemplateSource chat_;
  TemplateSource tools_;
  std::string source_;
  std::string tool_source_;
  std::string bos_;
  std::string eos_;
};

}  // namespace

TemplateTraits detect_traits(const TemplateSource& chat, const TemplateSource& with_tools,
                             std::string_view bos_token, std::string_view eos_token) {
  return Prober(chat, with_tools, bos_token, eos_token).run();
}

UnknownFormats find_unknown_formats(const TemplateSource& chat, const TemplateSource& with_tools,
                                    std::string_view bos_token, std::string_view eos_token) {
  return Prober(chat, with_tools, bos_token, eos_token).unknown();
}

}  // namespace flare::frontend
