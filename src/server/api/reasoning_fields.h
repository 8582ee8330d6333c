// What requests say about reasoning, in the words of the model's template (serving.md S5.2–S5.4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/api/fields.h"
#include "server/service/service.h"

namespace flare::server {

// What one request asks for; the names are the fields that said so, for errors.
struct ReasoningWish {
  std::optional<bool> thinking;
  std::string thinking_param;
  std::optional<std::string> effort;  // none, minimal, …, max, or an integer's digits
  std::string effort_param;
  std::optional<uint32_t> budget;  // reasoning tokens
  std::string budget_param;
  // Any effort but none asks a model for reasoning that does without it by itself.
  bool effort_switches_on = true;
};

// The field `name` of `fields`: one of the levels, or an integer. Throws ApiError.
std::optional<std::string> read_effort(const Fields& fields, std::string_view name);
// A number of reasoning tokens. Throws ApiError.
std::optional<uint32_t> read_budget(const Fields& fields, std::string_view name);

// `enable_thinking`, `reasoning_effort` and `thinking_budget`, here and in chat_template_kwargs.
// Throws ApiError; conflicting_parameters where the places differ.
ReasoningWish read_reasoning_wish(const Fields& fields);

// Sets the variables of the template of `model` in `template_kwargs`, an object or null. A level
// that the model lacks becomes the nearest, the higher of two. Throws conflicting_parameters, and
// reasoning_level_unavailable for an integer that is no level of the model.
void set_reasoning_variables(const frontend::ReasoningTraits& traits, std::string_view model,
                             const ReasoningWish& wish, Json* template_kwargs);
// The same for a conversation with the service's model, and the budget.
void apply_reasoning(const Service& service, const ReasoningWish& wish, Conversation* conversation,
                     GenerateSettings* settings);

}  // namespace flare::server
