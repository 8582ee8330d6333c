// Declared tools and the choice among them, as every protocol checks them (serving.md S1, S6).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/api/fields.h"
#include "server/api/prompting.h"

namespace flare::server {

inline constexpr size_t kMaxTools = 512;
inline constexpr size_t kMaxToolName = 128;

// The member `name` of a tool: 1..128 of letters, digits and _.:- . Throws missing_field,
// invalid_type, invalid_value.
std::string read_tool_name(const Fields& fields, std::string_view name, const std::string& path);

// That a tool of a chat request is {"type": "function", "function": {…}} with a legal name and
// members of the right kinds; `path` is its place, "tools[0]". Throws missing_field, invalid_type,
// invalid_value.
void check_chat_tool(const Json& tool, const std::string& path);

// {"type": "function", "function": {…}} as templates see it; absent parts stay away.
Json function_tool(const std::string& name, const Json* description, const Json* parameters,
                   bool strict);

// Whether `tools` (of that shape, or null) declares `name`.
bool declares_tool(const Json& tools, std::string_view name);

// Hands tools and choice to conversation and rules. `choice` nullopt: none is to be called. Throws
// invalid_tool_choice (a call is asked for and there is no tool, or not that one) and
// capability_unavailable (the model has no format of calls).
void apply_tools(const Service& service, Json tools, std::optional<frontend::ToolChoice> choice,
                 Conversation* conversation, AnswerRules* rules);

}  // namespace flare::server
