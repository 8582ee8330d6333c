// Checks that no protocol does differently.
#include "server/api/tool_fields.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

#include "base/error.h"

namespace flare::server {

using ToolMode = frontend::ToolChoice::Mode;

std::string read_tool_name(const Fields& fields, std::string_view name, const std::string& path) {
  const auto given = fields.text(name, kMaxToolName);
  if (!given)
    throw ApiError{400, "missing_field", fmt::format("'{}.{}' is missing", path, name),
                   fmt::format("{}.{}", path, name)};
  const auto is_legal = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_.:-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (given->empty() || !std::ranges::all_of(*given, is_legal))
    fields.wrong_value(name, quote(*given), "letters, digits and _.:-");
  return *given;
}

void check_chat_tool(const Json& tool, const std::string& path) {
  if (!tool.is_object())
    throw ApiError{400, "invalid_type",
                   fmt::format("'{}' is {}, object expected", path, a_kind(tool)), path};
  const Json* type = tool.find("type");
  if (type && (!type->is_string() || type->as_string() != "function"))
    throw ApiError{
        400, "invalid_value",
        fmt::format("'{}.type' is {}, \"function\" expected", path, quote(type->to_text())),
        path + ".type"};
  const Json* function = tool.find("function");
  if (!function || !function->is_object())
    throw ApiError{400, "missing_field", fmt::format("'{}.function' is missing", path),
                   path + ".function"};
  const Fields fields(*function, path + ".function.");
  read_tool_name(fields, "name", path + ".function");
  fields.object("parameters");
  fields.boolean("strict");
  fields.text("description", std::numeric_limits<size_t>::max());
}

Json function_tool(const std::string& name, const Json* description, const Json* parameters,
                   bool strict) {
  Json function = Json::object({{"name", name}});
  if (description) function.set("description", *description);
  if (parameters) function.set("parameters", *parameters);
  if (strict) function.set("strict", true);
  return Json::object({{"type", "function"}, {"function", std::move(function)}});
}

namespace {

// A call says which tool it means by its name alone.
void check_names(const Json& tools) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < tools.as_array().size(); ++i) {
    const std::string& name = tools.as_array()[i].at("function").at("name").as_string();
    if (!names.insert(name).second)
      throw ApiError{
          400, "invalid_value",
          fmt::format("'tools' declares {} twice, names that differ expected", quote(name)),
          "tools"};
  }
}

}  // namespace

bool declares_tool(const Json& tools, std::string_view name) {
  return tools.is_array() && std::ranges::any_of(tools.as_array(), [&](const Json& tool) {
           return tool.at("function").at("name") == Json(name);
         });
}

void apply_tools(const Service& service, Json tools, std::optional<frontend::ToolChoice> choice,
                 Conversation* conversation, AnswerRules* rules) {
  const bool any = tools.is_array() && !tools.as_array().empty();
  if (any) check_names(tools);
  const bool asks = choice && choice->mode != ToolMode::kAuto;
  if (asks && !any)
    throw ApiError{400, "invalid_tool_choice",
                   "'tool_choice' asks for a call, but 'tools' declares none", "tool_choice"};
  if (choice)
    for (const std::string& name : choice->names)
      if (!declares_tool(tools, name))
        throw ApiError{
            400, "invalid_tool_choice",
            fmt::format("'tool_choice' names {}, which 'tools' does not declare", quote(name)),
            "tool_choice"};
  if (asks && !service.has_tool_format())
    throw ApiError{
        400, "capability_unavailable",
        fmt::format("model '{}' has no known format of tool calls, so it cannot be made to call",
                    service.model_name()),
        "tool_choice"};
  conversation->tools = std::move(tools);
  conversation->may_call = choice.has_value();
  if (any) rules->tool_choice = std::move(choice);
}

}  // namespace flare::server
