// Every field of the endpoint: read, without effect, or refused.
#include "server/api/openai/responses_request.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "server/api/fields.h"
#include "server/api/openai/messages.h"
#include "server/api/openai/response_items.h"
#include "server/api/prompting.h"
#include "server/api/reasoning_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/tool_fields.h"

namespace flare::server {
namespace {

using ToolMode = frontend::ToolChoice::Mode;

constexpr size_t kMaxText = 256;
constexpr size_t kMaxMetadata = 16;
constexpr int kMaxTopLogprobs = 20;

[[noreturn]] void fail(std::string code, const std::string& param, const std::string& message) {
  throw ApiError{400, std::move(code), message, param};
}

// A custom tool as a function with one text; its grammar is advice to the model.
Json custom_tool(const Fields& tool, const std::string& name) {
  std::string description = tool.text("description", SIZE_MAX).value_or("");
  if (const Json* format = tool.object("format")) {
    const Fields grammar(*format, "format.");
    if (const auto definition = grammar.text("definition", SIZE_MAX))
      description += fmt::format("{}The input follows this grammar ({}):\n{}",
                                 description.empty() ? "" : "\n\n",
                                 grammar.text("syntax", kMaxText).value_or("text"), *definition);
  }
  const Json text(std::move(description));
  const Json parameters =
      Json::object({{"type", "object"},
                    {"properties", Json::object({{"input", Json::object({{"type", "string"}})}})},
                    {"required", Json::array({"input"})},
                    {"additionalProperties", false}});
  return function_tool(name, &text, &parameters, false);
}

Json read_tools(const Fields& fields, std::set<std::string>* custom_tools) {
  const Json* given = fields.array("tools", 0, kMaxTools);
  if (!given) return {};
  Json tools = Json::array();
  for (size_t i = 0; i < given->as_array().size(); ++i) {
    const Json& one = given->as_array()[i];
    const std::string path = fmt::format("tools[{}]", i);
    if (!one.is_object())
      fail("invalid_type", path, fmt::format("'{}' is {}, object expected", path, a_kind(one)));
    const Fields tool(one, path + ".");
    const auto type = tool.text("type", kMaxText);
    if (!type) fail("missing_field", path + ".type", fmt::format("'{}.type' is missing", path));
    if (*type == "function") {
      const std::string name = read_tool_name(tool, "name", path);
      tool.text("description", SIZE_MAX);
      tools.push_back(function_tool(name, tool.find("description"), tool.object("parameters"),
                                    tool.boolean("strict").value_or(false)));
    } else if (*type == "custom") {
      const std::string name = read_tool_name(tool, "name", path);
      tools.push_back(custom_tool(tool, name));
      custom_tools->insert(name);
    } else {
      log_info("tool of type {} left out", quote(*type));
    }
  }
  return tools;
}

std::string chosen_name(const Json& choice) {
  const Json* name = choice.find("name");
  if (!name || !name->is_string())
    fail("invalid_tool_choice", "tool_choice", "'tool_choice' names no tool");
  return name->as_string();
}

bool is_own_type(const Json& choice) {
  const Json* type = choice.find("type");
  return type && (*type == Json("function") || *type == Json("custom"));
}

ToolMode read_mode(const Fields& fields, std::string_view name, const std::string& mode) {
  if (mode != "auto" && mode != "required")
    fields.wrong_value(name, quote(mode), "auto, none, required or a named tool");
  return mode == "required" ? ToolMode::kRequired : ToolMode::kAuto;
}

std::optional<frontend::ToolChoice> read_choice(const Fields& fields) {
  frontend::ToolChoice choice;
  choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.find("tool_choice");
  if (!given) return choice;
  if (given->is_string()) {
    if (*given == Json("none")) return std::nullopt;
    choice.mode = read_mode(fields, "tool_choice", given->as_string());
    return choice;
  }
  if (!given->is_object()) fields.wrong_type("tool_choice", "string or object");
  const Fields inner(*given, "tool_choice.");
  if (is_own_type(*given)) {
    choice.mode = ToolMode::kNamed;
    choice.names = {chosen_name(*given)};
    return choice;
  }
  const std::string type = inner.text("type", kMaxText).value_or("");
  if (type != "allowed_tools")
    fail("invalid_tool_choice", "tool_choice",
         fmt::format("'tool_choice' asks for a tool of type {}, which this server does not have",
                     quote(type)));
  choice.mode = read_mode(inner, "mode", inner.text("mode", kMaxText).value_or("auto"));
  const Json* list = inner.array("tools", 1, kMaxTools);
  if (!list)
    fail("missing_field", "tool_choice.tools", "'tool_choice' allows tools, but lists none");
  for (const Json& tool : list->as_array())
    if (is_own_type(tool)) choice.names.push_back(chosen_name(tool));
  if (choice.names.empty())
    fail("invalid_tool_choice", "tool_choice", "'tool_choice' allows no tool of this server");
  return choice;
}

void read_reasoning(const Fields& fields, const Service& service, ResponsesRequest* request) {
  ReasoningWish wish;
  if (const Json* given = fields.object("reasoning")) {
    const Fields reasoning(*given, "reasoning.");
    wish.effort = read_effort(reasoning, "effort");
    wish.effort_param = "reasoning.effort";
    for (const char* name : {"summary", "generate_summary"})
      if (const auto summary = reasoning.text(name, kMaxText)) {
        if (*summary != "auto" && *summary != "concise" && *summary != "detailed")
          reasoning.wrong_value(name, quote(*summary), "auto, concise or detailed");
        request->summarises = true;
      }
  }
  apply_reasoning(service, wish, &request->conversation, &request->settings);
}

void read_include(const Fields& fields, ResponsesRequest* request) {
  const Json* include = fields.array("include", 0, kMaxTools);
  if (!include) return;
  for (const Json& name : include->as_array()) {
    if (!name.is_string()) fields.wrong_type("include", "array of strings");
    if (name == Json("reasoning.encrypted_content")) request->seals_reasoning = true;
    if (name == Json("message.output_text.logprobs"))
      request->settings.sampling.top_logprobs =
          static_cast<int32_t>(fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0));
  }
}

void read_text(const Fields& fields, AnswerFormat* format) {
  const Json* text = fields.object("text");
  if (!text) return;
  if (const Json* given = Fields(*text, "text.").object("format")) {
    format->grammar = read_format_object(*given, "text.format");
    format->param = "text.format";
  }
}

void read_limits(const Fields& fields, GenerateSettings* settings) {
  if (const auto limit =
          fields.integer("max_output_tokens", 0, std::numeric_limits<int64_t>::max()))
    settings->max_tokens = static_cast<uint32_t>(std::min<int64_t>(*limit, UINT32_MAX));
  settings->stop = read_stop(fields, "stop");
  read_cache_fields(fields, settings);
  settings->priority = read_priority(fields);
}

void check_hints(const Fields& fields) {
  if (const Json* metadata = fields.object("metadata")) {
    if (const size_t n = metadata->as_object().size(); n > kMaxMetadata)
      fields.wrong_value("metadata", fmt::format("{} pairs", n),
                         fmt::format("at most {}", kMaxMetadata));
    for (const auto& [name, value] : metadata->as_object())
      if (!value.is_string()) fields.wrong_type("metadata", "object of strings");
  }
  for (std::string_view name :
       {"model", "user", "safety_identifier", "service_tier", "prompt_cache_retention"})
    fields.without_effect(name, Shape::kText);
  for (std::string_view name : {"stream_options", "client_metadata"})
    fields.without_effect(name, Shape::kObject);
  fields.without_effect("prompt_cache_options", Shape::kAny);
  fields.without_effect("max_tool_calls", Shape::kInteger);
  fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  fields.boolean("background");
  fields.refuse("background", {Json(false)});
  for (std::string_view name : {"conversation", "prompt", "moderation"}) fields.refuse(name);
  fields.refuse("truncation", {Json("disabled")});
  fields.refuse("context_management", {Json::array()});
}

// Own items behind those of the response that is gone on from.
ItemList read_history(const Fields& fields, ResponseStore& store, const std::string& owner) {
  ItemList history;
  if (const auto previous = fields.text("previous_response_id", kMaxText)) {
    const auto found = store.get(*previous, owner);
    if (!found)
      fail("previous_response_not_found", "previous_response_id",
           fmt::format("'previous_response_id' is {}, which is not stored", quote(*previous)));
    history.items = found->input;
    history.items.insert(history.items.end(), found->output.begin(), found->output.end());
    history.paths.assign(history.items.size(), "previous_response_id");
  }
  if (const Json* input = fields.find("input")) {
    ItemList own = read_items(*input, [&](const std::string& id) { return store.item(id, owner); });
    std::ranges::move(own.items, std::back_inserter(history.items));
    std::ranges::move(own.paths, std::back_inserter(history.paths));
  } else if (history.items.empty()) {
    fail("missing_field", "input", "'input' is missing");
  }
  return history;
}

void read_conversation(const Fields& fields, const Service& service, ItemList history,
                       ResponsesRequest* request) {
  ItemMessages made = chat_messages(history);
  request->items = std::move(history.items);
  if (const auto instructions = fields.text("instructions", SIZE_MAX)) {
    made.messages.insert(made.messages.begin(),
                         Json::object({{"role", "system"}, {"content", *instructions}}));
    made.origins.insert(made.origins.begin(),
                        {.path = "instructions", .parts = {}, .arguments = {}});
  }
  if (made.messages.empty()) fail("empty_prompt", "input", "'input' makes no message");
  Conversation& conversation = request->conversation;
  conversation.field = "input";
  conversation.messages = server::normalise_messages(Json(std::move(made.messages)),
                                                     service.template_traits(), made.origins);
  conversation.continuation =
      server::continuation_of(conversation.messages, service.template_traits(), made.origins);
  apply_tools(service, read_tools(fields, &request->custom_tools), read_choice(fields),
              &conversation, &request->rules);
}

Json given_or(const Fields& fields, std::string_view name, Json otherwise) {
  const Json* value = fields.find(name);
  return value ? *value : std::move(otherwise);
}

// What the answer repeats, with the values that were used where the request says nothing.
Json echo_of(const Fields& fields, const ResponsesRequest& request) {
  const runtime::SamplingSettings& sampling = request.settings.sampling;
  const auto real = [](float value) {
    return Json(std::strtod(fmt::format("{}", value).c_str(), nullptr));
  };
  Json reasoning = Json::object({{"effort", Json()}, {"summary", Json()}});
  if (const Json* given = fields.object("reasoning"))
    for (const char* name : {"effort", "summary"})
      if (const Json* value = given->find(name)) reasoning.set(name, *value);
  const Json plain = Json::object({{"format", Json::object({{"type", "text"}})}});
  return Json::object({{"instructions", given_or(fields, "instructions", {})},
                       {"max_output_tokens", given_or(fields, "max_output_tokens", {})},
                       {"metadata", given_or(fields, "metadata", Json::object())},
                       {"parallel_tool_calls", given_or(fields, "parallel_tool_calls", true)},
                       {"previous_response_id", given_or(fields, "previous_response_id", {})},
                       {"reasoning", std::move(reasoning)},
                       {"service_tier", "default"},
                       {"store", request.store},
                       {"temperature", given_or(fields, "temperature", real(sampling.temperature))},
                       {"text", given_or(fields, "text", plain)},
                       {"tool_choice", given_or(fields, "tool_choice", "auto")},
                       {"tools", given_or(fields, "tools", Json::array())},
                       {"top_p", given_or(fields, "top_p", real(sampling.top_p))},
                       {"truncation", "disabled"},
                       {"user", given_or(fields, "user", {})}});
}

}  // namespace

ResponsesRequest read_responses_request(const Json& body, const Service& service,
                                        ResponseStore& store, const std::string& owner) {
  const Fields fields(body);
  ResponsesRequest request;
  request.settings = service.default_settings();
  request.stream = fields.boolean("stream").value_or(false);
  request.store = fields.boolean("store").value_or(true);
  read_limits(fields, &request.settings);
  read_sampling(fields, service, &request.settings);
  read_text(fields, &request.rules.format);
  read_include(fields, &request);
  check_hints(fields);
  read_conversation(fields, service, read_history(fields, store, owner), &request);
  read_reasoning(fields, service, &request);
  request.echo = echo_of(fields, request);
  request.ignored = fields.unread();
  return request;
}

}  // namespace flare::server
