// Switch, effort and budget: contradictions, and the nearest level.
#include "server/api/reasoning_fields.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"

namespace flare::server {
namespace {

constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};
constexpr size_t kMaxEffortBytes = 256;

[[noreturn]] void conflict(const std::string& param, const std::string& message) {
  throw ApiError{400, "conflicting_parameters", message, param};
}

// Takes one more saying of the same thing; two that differ exclude each other.
template <typename Value>
void take(const std::optional<Value>& value, const std::string& param, std::optional<Value>* taken,
          std::string* taken_param) {
  if (!value) return;
  if (*taken && **taken != *value)
    conflict(param, fmt::format("'{}' and '{}' differ", *taken_param, param));
  *taken = value;
  *taken_param = param;
}

std::optional<size_t> rank_of(std::string_view level) {
  const auto found = std::ranges::find(kEfforts, level);
  if (found == kEfforts.end()) return std::nullopt;
  return static_cast<size_t>(found - kEfforts.begin());
}

// The level of `levels` (ascending) that is nearest to `effort`.
std::string nearest_level(const std::vector<std::string>& levels, const std::string& effort) {
  if (std::ranges::find(levels, effort) != levels.end()) return effort;
  const auto wanted = rank_of(effort);
  std::string best;
  size_t best_distance = kEfforts.size();
  for (const std::string& level : levels) {
    const auto rank = rank_of(level);
    if (!rank || !wanted || level == "none") continue;
    const size_t distance = *rank > *wanted ? *rank - *wanted : *wanted - *rank;
    if (distance > best_distance) continue;
    best = level;
    best_distance = distance;
  }
  return best;
}

bool is_integer_level(const std::string& effort) { return !rank_of(effort).has_value(); }

// A template may know other values of these variables: those are its own.
bool is_wish(std::string_view name, const Json& value) {
  if (name == "enable_thinking") return value.is_bool();
  if (name == "thinking_budget") return value.is_number();
  return value.is_number() || (value.is_string() && rank_of(value.as_string()));
}

void read_from(const Fields& fields, const std::string& prefix, ReasoningWish* wish) {
  const auto meant = [&](std::string_view name) {
    const Json* value = fields.find(name);
    return value && (prefix.empty() || is_wish(name, *value));
  };
  if (meant("enable_thinking"))
    take(fields.boolean("enable_thinking"), prefix + "enable_thinking", &wish->thinking,
         &wish->thinking_param);
  if (meant("reasoning_effort"))
    take(read_effort(fields, "reasoning_effort"), prefix + "reasoning_effort", &wish->effort,
         &wish->effort_param);
  if (meant("thinking_budget"))
    take(read_budget(fields, "thinking_budget"), prefix + "thinking_budget", &wish->budget,
         &wish->budget_param);
}

}  // namespace

std::optional<std::string> read_effort(const Fields& fields, std::string_view name) {
  const Json* given = fields.find(name);
  if (!given) return std::nullopt;
  if (given->is_number()) return fmt::format("{}", *fields.integer(name, INT32_MIN, INT32_MAX));
  const std::string effort = *fields.text(name, kMaxEffortBytes);
  if (!rank_of(effort))
    fields.wrong_value(name, quote(effort),
                       "none, minimal, low, medium, high, xhigh, max or an integer");
  return effort;
}

std::optional<uint32_t> read_budget(const Fields& fields, std::string_view name) {
  const auto n = fields.integer(name, 0, INT64_MAX);
  if (!n) return std::nullopt;
  return static_cast<uint32_t>(std::min<int64_t>(*n, UINT32_MAX));
}

ReasoningWish read_reasoning_wish(const Fields& fields) {
  ReasoningWish wish;
  read_from(fields, "", &wish);
  if (const Json* kwargs = fields.object("chat_template_kwargs"))
    read_from(Fields(*kwargs, "chat_template_kwargs."), "chat_template_kwargs.", &wish);
  return wish;
}

void set_reasoning_variables(const frontend::ReasoningTraits& traits, std::string_view model,
                             const ReasoningWish& wish, Json* template_kwargs) {
  std::optional<bool> thinking = wish.thinking;
  const bool no_effort = wish.effort == "none";
  if (thinking.value_or(false) && no_effort)
    conflict(wish.effort_param, fmt::format("'{}' is \"none\", but '{}' asks for reasoning",
                                            wish.effort_param, wish.thinking_param));
  if (thinking.value_or(false) && wish.budget == 0U)
    conflict(wish.budget_param, fmt::format("'{}' is 0, but '{}' asks for reasoning",
                                            wish.budget_param, wish.thinking_param));
  if (!thinking && (no_effort || wish.budget == 0U)) thinking = false;
  if (!thinking && wish.effort && wish.effort_switches_on) thinking = true;
  Json kwargs = template_kwargs->is_object() ? *template_kwargs : Json::object();
  if (wish.effort && !no_effort) {
    const std::string level = nearest_level(traits.levels, *wish.effort);
    if (level.empty() && is_integer_level(*wish.effort))
      throw ApiError{400, "reasoning_level_unavailable",
                     fmt::format("'{}' is {}, which is no reasoning level of model '{}'",
                                 wish.effort_param, *wish.effort, model),
                     wish.effort_param};
    if (!level.empty() && !traits.effort_name.empty()) kwargs.set(traits.effort_name, level);
  }
  if (thinking && !traits.switch_name.empty())
    kwargs.set(traits.switch_name, *thinking ? traits.on : traits.off);
  *template_kwargs = std::move(kwargs);
}

void apply_reasoning(const Service& service, const ReasoningWish& wish, Conversation* conversation,
                     GenerateSettings* settings) {
  set_reasoning_variables(service.reasoning_traits(), service.model_name(), wish,
                          &conversation->template_kwargs);
  settings->reasoning_budget = wish.budget;
}

}  // namespace flare::server
