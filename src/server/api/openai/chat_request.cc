// Every field of the endpoint: read, without effect, or refused.
#include "server/api/openai/chat_request.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "server/api/answer_format.h"
#include "server/api/fields.h"
#include "server/api/openai/messages.h"
#include "server/api/reasoning_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/tool_fields.h"

namespace flare::server {
namespace {

using ToolMode = frontend::ToolChoice::Mode;

constexpr int kMaxChoices = 8;
constexpr int kMaxTopLogprobs = 20;
constexpr size_t kMaxKwargs = 64;
constexpr size_t kMaxKwargsBytes = 16 << 10;

constexpr std::string_view kServerVariables[] = {"messages", "tools", "add_generation_prompt",
                                                 "bos_token", "eos_token"};

[[noreturn]] void fail(std::string code, std::string_view param, const std::string& message) {
  throw ApiError{400, std::move(code), message, std::string(param)};
}

void refuse_fields(const Fields& fields, int n) {
  fields.boolean("store");
  fields.refuse("store", {Json(false)});
  if (fields.integer("best_of", 1, kMaxChoices).value_or(n) != n) fields.refuse("best_of");
  fields.refuse("modalities", {Json::array({"text"})});
  fields.refuse("functions", {Json::array()});
  fields.refuse("function_call", {Json("none"), Json("auto")});
  for (std::string_view name : {"audio", "web_search_options", "moderation", "chat_template"})
    fields.refuse(name);
}

// The name in {"function": {"name": …}} or {"name": …}; it must be a declared one.
std::string chosen_name(const Json& choice, const Json* tools, const std::string& path) {
  const Json* function = choice.is_object() ? choice.find("function") : nullptr;
  const Json* name = function && function->is_object() ? function->find("name")
                     : choice.is_object()              ? choice.find("name")
                                                       : nullptr;
  const auto has_name = [&](const Json& tool) { return tool.at("function").at("name") == *name; };
  if (!name || !tools || std::ranges::none_of(tools->as_array(), has_name))
    fail("invalid_tool_choice", "tool_choice",
         fmt::format("'{}' names {}, which 'tools' does not declare", path,
                     name ? quote(name->to_text()) : "nothing"));
  return name->as_string();
}

ToolMode read_mode(const Fields& fields, std::string_view name, const std::string& mode,
                   const std::string& expected) {
  if (mode != "auto" && mode != "required") fields.wrong_value(name, quote(mode), expected);
  return mode == "required" ? ToolMode::kRequired : ToolMode::kAuto;
}

// Both shapes of a named function, and of a list of allowed ones.
frontend::ToolChoice read_choice_object(const Json& choice, const Json* tools) {
  const Fields fields(choice, "tool_choice.");
  const std::string type = fields.text("type", kMaxToolName).value_or("");
  if (type == "function")
    return {.mode = ToolMode::kNamed, .names = {chosen_name(choice, tools, "tool_choice")}};
  if (type != "allowed_tools") fields.wrong_value("type", quote(type), "function or allowed_tools");
  const Json* wrapped = fields.object("allowed_tools");
  const Fields inner(wrapped ? *wrapped : choice,
                     wrapped ? "tool_choice.allowed_tools." : "tool_choice.");
  frontend::ToolChoice allowed;
  allowed.mode = read_mode(inner, "mode", inner.text("mode", kMaxToolName).value_or("auto"),
                           "auto or required");
  const Json* list = inner.array("tools", 1, kMaxTools);
  if (!list)
    fail("missing_field", "tool_choice.tools", "'tool_choice' allows tools, but lists none");
  for (const Json& tool : list->as_array())
    allowed.names.push_back(chosen_name(tool, tools, "tool_choice.tools"));
  return allowed;
}

void read_tools(const Fields& fields, const Service& service, ChatRequest* request) {
  const Json* tools = fields.array("tools", 0, kMaxTools);
  for (size_t i = 0; tools && i < tools->as_array().size(); ++i)
    check_chat_tool(tools->as_array()[i], fmt::format("tools[{}]", i));
  const bool parallel = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* given = fields.find("tool_choice");
  std::optional<frontend::ToolChoice> choice = frontend::ToolChoice{};
  if (given && given->is_object()) {
    choice = read_choice_object(*given, tools);
  } else if (given) {
    if (!given->is_string()) fields.wrong_type("tool_choice", "string or object");
    if (*given == Json("none"))
      choice.reset();
    else
      choice->mode = read_mode(fields, "tool_choice", given->as_string(),
                               "auto, none, required or a named function");
  }
  if (choice) choice->parallel = parallel;
  apply_tools(service, tools ? *tools : Json(), std::move(choice), &request->conversation,
              &request->rules);
}

// Template variables: the caller's own, then the reasoning switches.
void read_kwargs(const Fields& fields, const Service& service, ChatRequest* request) {
  Json kwargs = Json::object();
  if (const Json* given = fields.object("chat_template_kwargs")) {
    if (given->as_object().size() > kMaxKwargs)
      fields.wrong_value("chat_template_kwargs", fmt::format("{} keys", given->as_object().size()),
                         fmt::format("at most {}", kMaxKwargs));
    if (const size_t bytes = given->to_text().size(); bytes > kMaxKwargsBytes)
      fields.wrong_value("chat_template_kwargs", fmt::format("{} bytes", bytes),
                         fmt::format("at most {}", kMaxKwargsBytes));
    for (const auto& [name, value] : given->as_object())
      if (std::ranges::find(kServerVariables, name) != std::end(kServerVariables))
        fail("invalid_value", "chat_template_kwargs." + name,
             fmt::format("'chat_template_kwargs.{}' is set by the server, another name expected",
                         name));
    kwargs = *given;
  }
  request->conversation.template_kwargs = std::move(kwargs);
  apply_reasoning(service, read_reasoning_wish(fields), &request->conversation, &request->settings);
}

void read_limits(const Fields& fields, GenerateSettings* settings) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (std::string_view name : {"max_tokens", "max_completion_tokens"})
    if (const auto limit = fields.integer(name, 0, kMax))
      settings->max_tokens = static_cast<uint32_t>(std::min<int64_t>(*limit, settings->max_tokens));
  settings->stop = read_stop(fields, "stop");
  read_cache_fields(fields, settings);
}

void read_logprobs(const Fields& fields, const Service& service,
                   runtime::SamplingSettings* sampling) {
  const bool asked = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (top > 0 && !asked)
    fail("conflicting_parameters", "top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (asked) sampling->top_logprobs = static_cast<int32_t>(top);
  if (const auto prompt = read_prompt_logprobs(fields, service))
    sampling->prompt_logprobs = *prompt;
}

// Checked, although nothing depends on them.
void check_hints(const Fields& fields) {
  for (std::string_view name : {"model", "user", "safety_identifier", "service_tier", "verbosity",
                                "prompt_cache_retention"})
    fields.without_effect(name, Shape::kText);
  for (std::string_view name : {"prediction", "metadata"})
    fields.without_effect(name, Shape::kObject);
  fields.without_effect("prompt_cache_options", Shape::kAny);
  fields.without_effect("cache_prompt", Shape::kBoolean);
}

void read_messages(const Fields& fields, const Service& service, Conversation* conversation) {
  const Json* messages = fields.find("messages");
  if (!messages) fail("missing_field", "messages", "'messages' is missing");
  conversation->messages = server::normalise_messages(*messages, service.template_traits());
  const auto keep_open = fields.boolean("continue_final_message");
  const bool ends_with_answer =
      conversation->messages.as_array().back().at("role") == Json("assistant");
  if (keep_open.value_or(ends_with_answer))
    conversation->continuation =
        server::continuation_of(conversation->messages, service.template_traits());
  const auto prompt = fields.boolean("add_generation_prompt");
  if (prompt) conversation->add_generation_prompt = *prompt;
}

}  // namespace

ChatRequest read_chat_request(const Json& body, const Service& service) {
  const Fields fields(body);
  ChatRequest request;
  request.settings = service.default_settings();
  request.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  request.stream = fields.boolean("stream").value_or(false);
  if (const Json* options = fields.object("stream_options"))
    request.include_usage =
        Fields(*options, "stream_options.").boolean("include_usage").value_or(false);
  request.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  request.timings = fields.boolean("timings").value_or(false) || request.timings_per_token;
  request.settings.tells_progress =
      fields.boolean("return_progress").value_or(false) && request.stream;
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  read_limits(fields, &request.settings);
  request.settings.priority = read_priority(fields);
  read_sampling(fields, service, &request.settings);
  read_logprobs(fields, service, &request.settings.sampling);
  request.rules.format = read_answer_format(fields);
  read_tools(fields, service, &request);
  read_kwargs(fields, service, &request);
  check_hints(fields);
  refuse_fields(fields, request.n);
  read_messages(fields, service, &request.conversation);
  request.ignored = fields.unread();
  return request;
}

}  // namespace flare::server
