// Whole answers and event streams of chat completions: shapes and order of serving.md S2.
#include "server/api/openai/chat.h"

#include <algorithm>
#include <ctime>
#include <mutex>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "server/api/errors.h"
#include "server/api/openai/chat_request.h"
#include "server/api/timings.h"

namespace flare::server {
namespace {

using frontend::OutputEvent;
using runtime::Admission;
using runtime::FinishReason;
using Kind = OutputEvent::Kind;

std::string fresh_id(std::string_view prefix) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

// Why an answer ended, where OpenAI's word does not tell: a stop string, an id, or a limit.
Json stop_reason(const TextEvent& event, const std::vector<int32_t>& stop_ids) {
  switch (*event.finished) {
    case FinishReason::kStopped:
      return Json(event.stop_string);
    case FinishReason::kStopId:
      return std::ranges::find(stop_ids, event.stop_id) != stop_ids.end() ? Json(event.stop_id)
                                                                          : Json();
    case FinishReason::kContext:
      return Json("context");
    case FinishReason::kDeadEnd:
      return Json("constraint_dead_end");
    default:
      return Json();
  }
}

Json usage_json(const runtime::Usage& usage, uint64_t reasoning_tokens) {
  return Json::object(
      {{"prompt_tokens", usage.prompt_tokens},
       {"completion_tokens", usage.generated_tokens},
       {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
       {"prompt_tokens_details", Json::object({{"cached_tokens", usage.cached_tokens}})},
       {"completion_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens}})}});
}

ApiError admission_error(Admission admission) {
  switch (admission) {
    case Admission::kQueueFull:
      return {429, "server_overloaded", "the queue is full, try again later", {}};
    case Admission::kStopping:
      return {503, "server_draining", "the server is shutting down", {}};
    default:
      return {500, "engine_failed", "the engine has failed", {}};
  }
}

// An answer in the making. Events come from the engine thread, the start from a handler thread:
// the mutex guards everything below it.
class ChatAnswer {
 public:
  ChatAnswer(std::shared_ptr<http::Exchange> exchange, const ChatRequest& request,
             std::string model)
      : exchange_(std::move(exchange)),
        stream_(request.stream),
        include_usage_(request.include_usage),
        include_reasoning_(request.include_reasoning),
        timings_(request.timings),
        stop_ids_(request.settings.stop_ids),
        id_(fresh_id("chatcmpl-")),
        model_(std::move(model)),
        created_(std::time(nullptr)),
        choices_(static_cast<size_t>(request.n)) {}

  // Queues every choice; events that come meanwhile wait for the head of the answer. If one is
  // refused, all are given up.
  static void start(const std::shared_ptr<ChatAnswer>& self, Service& service,
                    std::vector<int32_t> prompt, const GenerateSettings& settings,
                    http::Headers headers) {
    std::vector<runtime::Ticket> tickets(self->choices_.size());
    {
      const std::lock_guard lock(self->mutex_);
      self->headers_ = std::move(headers);
      for (size_t i = 0; i < tickets.size(); ++i) {
        GenerateSettings own;
        own.sampling = settings.sampling;
        own.sampling.choice = static_cast<uint32_t>(i);
        own.max_tokens = settings.max_tokens;
        own.stop = settings.stop;
        own.cache_salt = settings.cache_salt;
        own.frontiers = settings.frontiers;
        own.form = settings.form;
        own.grammar = settings.grammar;
        own.stop_ids = settings.stop_ids;
        own.ignore_stop_ids = settings.ignore_stop_ids;
        const Admission admission = service.generate(
            prompt, std::move(own), [self, i](const TextEvent& event) { self->on_event(i, event); },
            &tickets[i]);
        if (admission == Admission::kAccepted) continue;
        self->over_ = true;
        for (size_t k = 0; k < i; ++k) tickets[k].cancel();
        throw admission_error(admission);
      }
      if (self->stream_) self->begin_stream();
    }
    self->exchange_->on_disconnect([tickets = std::move(tickets)] {
      for (const runtime::Ticket& ticket : tickets) ticket.cancel();
    });
  }

 private:
  struct Choice {
    frontend::Output output;            // of a whole answer
    std::vector<std::string> call_ids;  // one for each call
    std::optional<TextEvent> last;
  };

  void begin_stream() {
    exchange_->begin_stream(headers_);
    const Json delta = Json::object({{"role", "assistant"}, {"content", ""}});
    for (size_t i = 0; i < choices_.size(); ++i) send(chunk(choice_json(i, "delta", delta)));
  }

  void on_event(size_t index, const TextEvent& event) {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    if (event.finished == FinishReason::kFailed)
      return fail({500, "engine_failed", "the engine failed: " + event.error, {}});
    if (event.finished == FinishReason::kCancelled)
      return fail({503, "server_draining", "the server is shutting down", {}});
    for (const OutputEvent& delta : event.deltas) on_delta(index, delta);
    if (!event.finished) return;
    choices_[index].last = event;
    if (stream_) send_finish(index, event);
    if (++n_finished_ == choices_.size()) complete();
  }

  void on_delta(size_t index, const OutputEvent& delta) {
    Choice& choice = choices_[index];
    if (delta.kind == Kind::kReasoning && !include_reasoning_) return;
    if (delta.kind == Kind::kCallStart) choice.call_ids.push_back(fresh_id("call_"));
    if (!stream_) return append_event(delta, &choice.output);
    if (delta.kind == Kind::kCallEnd) return;
    send(chunk(choice_json(index, "delta", delta_json(delta, choice.call_ids))));
  }

  // Reasoning, content, the head of a call or a piece of its arguments (serving.md S2.6).
  static Json delta_json(const OutputEvent& delta, const std::vector<std::string>& call_ids) {
    if (delta.kind == Kind::kReasoning) return Json::object({{"reasoning_content", delta.text}});
    if (delta.kind == Kind::kContent) return Json::object({{"content", delta.text}});
    Json call = Json::object({{"index", delta.call}});
    if (delta.kind == Kind::kCallStart) {
      call.set("id", call_ids[static_cast<size_t>(delta.call)]);
      call.set("type", "function");
      call.set("function", Json::object({{"name", delta.text}, {"arguments", ""}}));
    } else {
      call.set("function", Json::object({{"arguments", delta.text}}));
    }
    return Json::object({{"tool_calls", Json::array({std::move(call)})}});
  }

  static Json message_json(const Choice& choice) {
    const frontend::Output& output = choice.output;
    Json message = Json::object({{"role", "assistant"}});
    if (!output.reasoning.empty()) message.set("reasoning_content", output.reasoning);
    const bool only_calls = output.content.empty() && !output.calls.empty();
    message.set("content", only_calls ? Json() : Json(output.content));
    if (output.calls.empty()) return message;
    Json calls = Json::array();
    for (size_t i = 0; i < output.calls.size(); ++i)
      calls.push_back(
          Json::object({{"id", choice.call_ids[i]},
                        {"type", "function"},
                        {"function", Json::object({{"name", output.calls[i].name},
                                                   {"arguments", output.calls[i].arguments}})}}));
    message.set("tool_calls", std::move(calls));
    return message;
  }

  void send_finish(size_t index, const TextEvent& event) {
    Json choice = choice_json(index, "delta", Json::object());
    choice.set("finish_reason", finish_reason_text(event));
    choice.set("stop_reason", stop_reason(event, stop_ids_));
    Json last = chunk(std::move(choice));
    if (timings_) last.set("timings", timings_json(event));
    send(last);
  }

  void complete() {
    over_ = true;
    if (stream_) {
      if (include_usage_) {
        Json last = envelope("chat.completion.chunk", Json::array());
        last.set("usage", usage_json(total_usage(), reasoning_tokens()));
        send(last);
      }
      exchange_->write("data: [DONE]\n\n");
      return exchange_->end();
    }
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const TextEvent& event = *choices_[i].last;
      Json choice = choice_json(i, "message", message_json(choices_[i]));
      choice.set("finish_reason", finish_reason_text(event));
      choice.set("stop_reason", stop_reason(event, stop_ids_));
      choices.push_back(std::move(choice));
    }
    Json body = envelope("chat.completion", std::move(choices));
    body.set("usage", usage_json(total_usage(), reasoning_tokens()));
    if (timings_) body.set("timings", timings_json(*choices_[0].last));
    exchange_->respond(200, "application/json", body.to_text(), headers_);
  }

  // Other choices may still run: their later events are dropped.
  void fail(const ApiError& error) {
    over_ = true;
    if (!stream_) return respond_error(*exchange_, error);
    send(openai_error(error));
    exchange_->end();
  }

  void send(const Json& event) { exchange_->write("data: " + event.to_text() + "\n\n"); }

  static Json choice_json(size_t index, std::string_view part, Json content) {
    return Json::object(
        {{"index", index}, {std::string(part), std::move(content)}, {"finish_reason", Json()}});
  }
  Json envelope(std::string_view object, Json choices) const {
    return Json::object({{"id", id_},
                         {"object", object},
                         {"created", created_},
                         {"model", model_},
                         {"choices", std::move(choices)}});
  }
  Json chunk(Json choice) const {
    return envelope("chat.completion.chunk", Json::array({std::move(choice)}));
  }

  // The choices share one prompt, which counts once.
  runtime::Usage total_usage() const {
    runtime::Usage total = choices_[0].last->usage;
    for (size_t i = 1; i < choices_.size(); ++i)
      total.generated_tokens += choices_[i].last->usage.generated_tokens;
    return total;
  }
  uint64_t reasoning_tokens() const {
    uint64_t n = 0;
    for (const Choice& choice : choices_) n += choice.last->reasoning_tokens;
    return n;
  }

  const std::shared_ptr<http::Exchange> exchange_;
  const bool stream_, include_usage_, include_reasoning_, timings_;
  const std::vector<int32_t> stop_ids_;
  const std::string id_, model_;
  const int64_t created_;
  std::mutex mutex_;
  http::Headers headers_;
  std::vector<Choice> choices_;
  size_t n_finished_ = 0;
  bool over_ = false;
};

// The prompt's ids; what it decides about the answer goes to `settings`.
std::vector<int32_t> encoded_prompt(const Service& service, const Conversation& conversation,
                                    GenerateSettings* settings) {
  if (!service.has_template() || !service.has_tokenizer())
    throw ApiError{400,
                   "capability_unavailable",
                   fmt::format("model '{}' has no {}, so it cannot chat", service.model_name(),
                               service.has_template() ? "tokenizer" : "chat template"),
                   {}};
  std::vector<int32_t> prompt;
  try {
    const frontend::MarkedText rendered = service.render(conversation);
    prompt = service.encode_prompt(rendered);
    settings->form = service.answer_form(conversation, rendered);
  } catch (const Error& error) {
    throw ApiError{400, "template_error", error.message(), "messages"};
  } catch (const frontend::MessageError& error) {
    throw ApiError{400, error.code, error.message, error.param};
  }
  if (prompt.empty())
    throw ApiError{400, "empty_prompt", "the messages render to an empty prompt", "messages"};
  if (prompt.size() + 1 > service.max_context())
    throw ApiError{400, "context_length_exceeded",
                   fmt::format("the prompt has {} tokens and needs room for an answer, but the "
                               "context holds {}",
                               prompt.size(), service.max_context()),
                   "messages"};
  settings->frontiers = service.prompt_frontiers(conversation, prompt);
  return prompt;
}

// What the tools of a request make of its answer (serving.md S6.8). Framing alone is given up
// where it cannot be had; what a request asks for is not.
void constrain(const Service& service, ChatRequest* request) {
  GenerateSettings& settings = request->settings;
  if (!request->tool_choice || !settings.form || settings.max_tokens == 0) return;
  const frontend::ToolChoice& choice = *request->tool_choice;
  const bool asked = choice.mode != frontend::ToolChoice::Mode::kAuto ||
                     std::ranges::any_of(settings.form->tools->tools(), &frontend::Tool::strict) ||
                     !choice.parallel || !choice.names.empty();
  if (settings.ignore_stop_ids) {
    if (!asked) return;
    throw ApiError{400, "conflicting_parameters",
                   "'ignore_eos' and a constraint on tool calls exclude each other", "ignore_eos"};
  }
  try {
    settings.grammar = service.tool_grammar(*settings.form, choice);
  } catch (const frontend::grammar::ConstraintError& error) {
    if (asked) throw ApiError{400, std::string(error.wire_code()), error.message(), "tools"};
    log_warn("tool calls are not constrained: {}", error.message());
  }
  if (!settings.grammar && choice.mode != frontend::ToolChoice::Mode::kAuto &&
      service.has_tool_format())
    throw ApiError{400, "constraint_prefill_mismatch",
                   "a call cannot begin within the message that the prompt ends with",
                   "tool_choice"};
}

// Names for a header line: printable ASCII, bounded however many there are.
std::string header_list(const std::vector<std::string>& names) {
  constexpr size_t kMaxBytes = 512;
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > kMaxBytes) return text + ", ...";
    if (!text.empty()) text += ", ";
    for (const char c : name.substr(0, 80)) text += c > ' ' && c < 0x7f && c != ',' ? c : '?';
  }
  return text;
}

}  // namespace

void chat_completions(Service& service, const Json& body, const std::string& model, bool strict,
                      std::shared_ptr<http::Exchange> exchange) {
  ChatRequest request = read_chat_request(body, service);
  http::Headers headers;
  if (!request.ignored.empty()) {
    const std::string names = header_list(request.ignored);
    if (strict)
      throw ApiError{400, "unknown_field", fmt::format("unknown field {}", names),
                     request.ignored.front()};
    log_debug("ignored request fields: {}", names);
    headers.emplace_back("x-flare-ignored", names);
  }
  headers.emplace_back("x-flare-seed",
                       fmt::format("{}", static_cast<int64_t>(request.settings.sampling.seed)));
  std::vector<int32_t> prompt = encoded_prompt(service, request.conversation, &request.settings);
  constrain(service, &request);
  auto answer = std::make_shared<ChatAnswer>(std::move(exchange), request, model);
  ChatAnswer::start(answer, service, std::move(prompt), request.settings, std::move(headers));
}

}  // namespace flare::server
