// Every field of the endpoint: read, without effect, or refused.
#include "server/api/openai/chat_request.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "server/api/fields.h"
#include "server/api/openai/messages.h"
#include "server/api/sampling_fields.h"

namespace flare::server {
namespace {

constexpr int kMaxChoices = 8;
constexpr size_t kMaxTools = 512;
constexpr size_t kMaxToolName = 128;
constexpr size_t kMaxKwargs = 64;
constexpr size_t kMaxKwargsBytes = 16 << 10;
constexpr size_t kMaxCacheKey = 256;

// Top-level names besides those of read_sampling. What is not here is unknown.
constexpr std::string_view kNames[] = {
    // read
    "model", "messages", "max_completion_tokens", "max_tokens", "stop", "n", "stream",
    "stream_options", "tools", "tool_choice", "parallel_tool_calls", "response_format",
    "chat_template_kwargs", "continue_final_message", "add_generation_prompt", "enable_thinking",
    "reasoning_effort", "prediction", "timings", "include_reasoning",
    // no effect
    "cache_salt", "session", "prompt_cache_key", "metadata", "user", "safety_identifier",
    "service_tier", "verbosity", "prompt_cache_retention", "prompt_cache_options", "cache_prompt",
    "priority",
    // refused unless neutral
    "store", "modalities", "functions", "function_call", "best_of", "audio", "web_search_options",
    "moderation", "chat_template", "logprobs", "top_logprobs", "prompt_logprobs",
    "timings_per_token", "return_progress", "structured_outputs", "guided_json", "guided_regex",
    "guided_choice", "guided_grammar", "grammar", "thinking_budget"};

constexpr std::string_view kServerVariables[] = {"messages", "tools", "add_generation_prompt",
                                                 "bos_token", "eos_token"};

constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                         "high", "xhigh",   "max"};

[[noreturn]] void fail(std::string code, std::string_view param, const std::string& message) {
  throw ApiError{400, std::move(code), message, std::string(param)};
}

std::vector<std::string> unknown_names(const Json& body) {
  std::vector<std::string> unknown;
  const auto sampling = sampling_field_names();
  for (const auto& [name, value] : body.as_object())
    if (std::ranges::find(kNames, name) == std::end(kNames) &&
        std::ranges::find(sampling, name) == sampling.end())
      unknown.push_back(name);
  return unknown;
}

void refuse_fields(const Fields& fields, int n) {
  for (std::string_view name : {"store", "logprobs", "timings_per_token", "return_progress"}) {
    fields.boolean(name);
    fields.refuse(name, {Json(false)});
  }
  if (fields.integer("top_logprobs", 0, 20).value_or(0) != 0) fields.refuse("top_logprobs");
  if (fields.integer("best_of", 1, kMaxChoices).value_or(n) != n) fields.refuse("best_of");
  fields.refuse("modalities", {Json::array({"text"})});
  fields.refuse("functions", {Json::array()});
  fields.refuse("function_call", {Json("none"), Json("auto")});
  for (std::string_view name :
       {"audio", "web_search_options", "moderation", "chat_template", "prompt_logprobs",
        "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
        "grammar", "thinking_budget"})
    fields.refuse(name);
}

void check_tool(const Json& tool, const std::string& path) {
  if (!tool.is_object())
    fail("invalid_type", path, fmt::format("'{}' is {}, object expected", path, a_kind(tool)));
  const Json* type = tool.find("type");
  if (type && (!type->is_string() || type->as_string() != "function"))
    fail("invalid_value", path + ".type",
         fmt::format("'{}.type' is {}, \"function\" expected", path, quote(type->to_text())));
  const Json* function = tool.find("function");
  if (!function || !function->is_object())
    fail("missing_field", path + ".function", fmt::format("'{}.function' is missing", path));
  const Fields fields(*function, path + ".function.");
  const auto name = fields.text("name", kMaxToolName);
  const auto is_legal = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_.:-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!name)
    fail("missing_field", path + ".function.name",
         fmt::format("'{}.function.name' is missing", path));
  if (name->empty() || !std::ranges::all_of(*name, is_legal))
    fields.wrong_value("name", quote(*name), "letters, digits and _.:-");
  fields.object("parameters");
  fields.text("description", std::numeric_limits<size_t>::max());
}

// True if the request declares a tool of that name.
bool declares(const Json* tools, const Json* name) {
  if (!tools || !name) return false;
  return std::ranges::any_of(tools->as_array(), [&](const Json& tool) {
    return *tool.find("function")->find("name") == *name;
  });
}

void read_tools(const Fields& fields, Conversation* conversation) {
  const Json* tools = fields.array("tools", 0, kMaxTools);
  for (size_t i = 0; tools && i < tools->as_array().size(); ++i)
    check_tool(tools->as_array()[i], fmt::format("tools[{}]", i));
  fields.boolean("parallel_tool_calls");
  const Json* choice = fields.find("tool_choice");
  if (choice && choice->is_object()) {
    const Json* function = choice->find("function");
    const Json* name = function ? function->find("name") : choice->find("name");
    if (choice->find("type") && *choice->find("type") == Json("function") && !declares(tools, name))
      fail("invalid_tool_choice", "tool_choice",
           fmt::format("'tool_choice' names {}, which 'tools' does not declare",
                       name ? quote(name->to_text()) : "nothing"));
    fields.refuse("tool_choice");
  }
  if (choice && !choice->is_string()) fields.wrong_type("tool_choice", "string or object");
  const std::string mode = choice ? choice->as_string() : "auto";
  if (mode == "required") fields.refuse("tool_choice");
  if (mode != "auto" && mode != "none")
    fields.wrong_value("tool_choice", quote(mode), "auto, none, required or a named function");
  if (tools && mode == "auto") conversation->tools = *tools;
}

void read_format(const Fields& fields) {
  const Json* format = fields.object("response_format");
  if (!format) return;
  const Fields inner(*format, "response_format.");
  const auto type = inner.text("type", kMaxCacheKey);
  if (!type) fail("missing_field", "response_format.type", "'response_format.type' is missing");
  if (*type == "text") return;
  if (*type == "json_object" || *type == "json_schema") inner.refuse("type");
  inner.wrong_value("type", quote(*type), "text, json_object or json_schema");
}

// Template variables: the caller's own, then the reasoning switches.
void read_kwargs(const Fields& fields, Conversation* conversation) {
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
  auto thinking = fields.boolean("enable_thinking");
  if (const auto effort = fields.text("reasoning_effort", kMaxCacheKey)) {
    if (std::ranges::find(kEfforts, *effort) == std::end(kEfforts))
      fields.wrong_value("reasoning_effort", quote(*effort),
                         "none, minimal, low, medium, high, xhigh or max");
    if (*effort == "none" && thinking.value_or(false))
      fail("conflicting_parameters", "reasoning_effort",
           "'reasoning_effort' is \"none\", but 'enable_thinking' is true");
    if (*effort == "none") thinking = false;
    kwargs.set("reasoning_effort", *effort);
  }
  if (thinking) {
    const Json* inner = kwargs.find("enable_thinking");
    if (inner && *inner != Json(*thinking))
      fail("conflicting_parameters", "enable_thinking",
           "'enable_thinking' and 'chat_template_kwargs.enable_thinking' differ");
    kwargs.set("enable_thinking", *thinking);
  }
  conversation->template_kwargs = std::move(kwargs);
}

void read_limits(const Fields& fields, GenerateSettings* settings) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (std::string_view name : {"max_tokens", "max_completion_tokens"})
    if (const auto limit = fields.integer(name, 0, kMax))
      settings->max_tokens = static_cast<uint32_t>(std::min<int64_t>(*limit, settings->max_tokens));
  settings->stop = read_stop(fields, "stop");
  settings->cache_salt = fields.text("cache_salt", kMaxCacheKey).value_or("");
}

// Checked, although nothing depends on them.
void check_hints(const Fields& fields) {
  for (std::string_view name : {"session", "prompt_cache_key"}) fields.text(name, kMaxCacheKey);
  fields.object("prediction");
  fields.object("metadata");
  fields.integer("priority", -10, 10);
}

void read_messages(const Fields& fields, const Service& service, Conversation* conversation) {
  const Json* messages = fields.find("messages");
  if (!messages) fail("missing_field", "messages", "'messages' is missing");
  conversation->messages = server::normalise_messages(*messages, service.template_traits());
  const auto keep_open = fields.boolean("continue_final_message");
  const bool ends_with_answer =
      conversation->messages.as_array().back().at("role") == Json("assistant");
  if (keep_open.value_or(ends_with_answer)) {
    try {
      conversation->continuation =
          frontend::continuation_of(conversation->messages, service.template_traits());
    } catch (const frontend::MessageError& error) {
      fail(error.code, error.param, error.message);
    }
  }
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
  request.timings = fields.boolean("timings").value_or(false);
  request.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  read_limits(fields, &request.settings);
  read_sampling(fields, service, &request.settings);
  read_format(fields);
  read_tools(fields, &request.conversation);
  read_kwargs(fields, &request.conversation);
  check_hints(fields);
  refuse_fields(fields, request.n);
  read_messages(fields, service, &request.conversation);
  request.ignored = unknown_names(body);
  return request;
}

}  // namespace flare::server
