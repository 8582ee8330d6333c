// Every field of the endpoint: read, without effect, or refused.
#include "server/api/anthropic/messages_request.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "server/api/anthropic/conversation.h"
#include "server/api/fields.h"
#include "server/api/openai/messages.h"
#include "server/api/prompting.h"
#include "server/api/reasoning_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/tool_fields.h"

namespace flare::server {
namespace {

using ToolMode = frontend::ToolChoice::Mode;

constexpr size_t kMaxText = 256;

void read_limits(const Fields& fields, bool counts_only, GenerateSettings* settings) {
  const auto limit = fields.integer("max_tokens", 1, std::numeric_limits<int64_t>::max());
  if (limit)
    settings->max_tokens = static_cast<uint32_t>(std::min<int64_t>(*limit, UINT32_MAX));
  else if (!counts_only)
    throw ApiError{400, "missing_field",
                   "'max_tokens' is missing, an integer of at least 1 expected", "max_tokens"};
  fields.array("stop_sequences", 0, SIZE_MAX);
  settings->stop = read_stop(fields, "stop_sequences");
  read_cache_fields(fields, settings);
  settings->priority = read_priority(fields);
}

std::optional<frontend::ToolChoice> read_choice(const Fields& fields) {
  frontend::ToolChoice choice;
  const Json* given = fields.object("tool_choice");
  if (!given) return choice;
  const Fields inner(*given, "tool_choice.");
  const std::string type = inner.text("type", kMaxText).value_or("");
  choice.parallel = !inner.boolean("disable_parallel_tool_use").value_or(false);
  if (type == "none") return std::nullopt;
  if (type == "any") {
    choice.mode = ToolMode::kRequired;
  } else if (type == "tool") {
    choice.mode = ToolMode::kNamed;
    const auto name = inner.text("name", kMaxText);
    if (!name)
      throw ApiError{400, "missing_field", "'tool_choice.name' is missing", "tool_choice.name"};
    choice.names = {*name};
  } else if (type != "auto") {
    inner.wrong_value("type", quote(type), "auto, any, none or tool");
  }
  return choice;
}

void read_reasoning(const Fields& fields, const Service& service, MessagesRequest* request) {
  ReasoningWish wish{.effort_switches_on = false};
  if (const Json* given = fields.object("thinking")) {
    const Fields thinking(*given, "thinking.");
    const std::string type = thinking.text("type", kMaxText).value_or("");
    wish.thinking_param = "thinking.type";
    if (type == "enabled" || type == "adaptive") {
      wish.thinking = true;
    } else if (type == "disabled" || type == "between_tools") {
      // Between tools there are only the remarks that a model makes anyway.
      wish.thinking = false;
    } else {
      thinking.wrong_value("type", quote(type), "enabled, disabled, adaptive or between_tools");
    }
    wish.budget = read_budget(thinking, "budget_tokens");
    wish.budget_param = "thinking.budget_tokens";
    if (wish.budget == 0U) wish.thinking.reset();
    const std::string display = thinking.text("display", kMaxText).value_or("summarized");
    if (display != "summarized" && display != "omitted")
      thinking.wrong_value("display", quote(display), "summarized or omitted");
    request->omit_thinking = display == "omitted";
  }
  if (const Json* config = fields.object("output_config")) {
    wish.effort = read_effort(Fields(*config, "output_config."), "effort");
    wish.effort_param = "output_config.effort";
  }
  apply_reasoning(service, wish, &request->conversation, &request->settings);
}

// `output_config.format`, or as it was called before.
AnswerFormat read_format(const Fields& fields) {
  AnswerFormat format;
  const auto take = [&](const Json* given, const std::string& param) {
    if (!given) return;
    if (format.grammar)
      throw ApiError{400, "conflicting_parameters",
                     fmt::format("'{}' and '{}' exclude each other", format.param, param), param};
    format.grammar = read_format_object(*given, param);
    format.param = param;
  };
  if (const Json* config = fields.object("output_config"))
    take(Fields(*config, "output_config.").object("format"), "output_config.format");
  take(fields.object("output_format"), "output_format");
  return format;
}

// Where the marks are once leading system texts have become one message and others turns.
void place_marks(const MessagesConversation& given, const Service& service,
                 Conversation* conversation) {
  const Json::Array& all = given.messages.as_array();
  for (const Conversation::Mark& mark : given.marks) {
    const size_t n = mark.messages;
    const bool whole = mark.last.is_null();
    if (n == 0 || (n == all.size() && whole)) {
      conversation->marks.push_back({n == 0 ? 0 : conversation->messages.as_array().size(), {}});
      continue;
    }
    Json::Array beginning(all.begin(), all.begin() + static_cast<ptrdiff_t>(n));
    if (!whole) beginning.back() = mark.last;
    try {
      beginning =
          frontend::normalise_messages(Json(std::move(beginning)), service.template_traits())
              .as_array();
    } catch (const frontend::MessageError&) {
      continue;  // cut there it is no conversation, so nobody goes on from there
    }
    conversation->marks.push_back({beginning.size(), whole ? Json() : std::move(beginning.back())});
  }
}

void read_conversation(const Fields& fields, const Service& service, MessagesRequest* request) {
  MessagesConversation given = read_messages_conversation(fields);
  Conversation& conversation = request->conversation;
  conversation.messages =
      server::normalise_messages(given.messages, service.template_traits(), given.origins);
  place_marks(given, service, &conversation);
  conversation.continuation =
      server::continuation_of(conversation.messages, service.template_traits(), given.origins);
  apply_tools(service, std::move(given.tools), read_choice(fields), &conversation, &request->rules);
}

void check_hints(const Fields& fields) {
  for (std::string_view name : {"model", "service_tier", "speed", "inference_geo"})
    fields.without_effect(name, Shape::kText);
  for (std::string_view name : {"metadata", "context_management"})
    fields.without_effect(name, Shape::kObject);
  fields.without_effect("diagnostics", Shape::kAny);
  fields.refuse("mcp_servers", {Json::array()});
  fields.refuse("container");
}

}  // namespace

MessagesRequest read_messages_request(const Json& body, const Service& service, bool counts_only) {
  const Fields fields(body);
  MessagesRequest request;
  request.settings = service.default_settings();
  request.stream = fields.boolean("stream").value_or(false);
  read_limits(fields, counts_only, &request.settings);
  read_sampling(fields, service, &request.settings);
  request.rules.format = read_format(fields);
  check_hints(fields);
  read_conversation(fields, service, &request);
  read_reasoning(fields, service, &request);
  request.ignored = fields.unread();
  return request;
}

}  // namespace flare::server
