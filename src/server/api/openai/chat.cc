// Whole answers and event streams of chat completions: shapes and order of serving.md S2.
#include "server/api/openai/chat.h"

#include <ctime>

#include "server/api/generation.h"
#include "server/api/logprobs.h"
#include "server/api/openai/chat_request.h"
#include "server/api/openai/usage.h"
#include "server/api/prompting.h"
#include "server/api/timings.h"

namespace flare::server {
namespace {

using frontend::OutputEvent;
using Kind = OutputEvent::Kind;

class ChatAnswer : public Generation {
 public:
  ChatAnswer(Setup setup, const ChatRequest& request, const Service& service, std::string model)
      : Generation(std::move(setup)),
        service_(service),
        logprobs_(request.settings.sampling.top_logprobs >= 0),
        prompt_logprobs_(request.settings.sampling.prompt_logprobs >= 0),
        include_usage_(request.include_usage),
        include_reasoning_(request.include_reasoning),
        timings_(request.timings),
        timings_per_token_(request.timings_per_token),
        stop_ids_(request.settings.stop_ids),
        id_(fresh_id("chatcmpl-")),
        model_(std::move(model)),
        created_(std::time(nullptr)),
        choices_(static_cast<size_t>(request.n)) {}

 private:
  struct Choice {
    frontend::Output output;                      // of a whole answer
    std::vector<std::string> call_ids;            // one for each call
    std::vector<runtime::TokenLogprobs> records;  // that have not been sent yet
    std::vector<runtime::TokenLogprobs> of_prompt;
  };

  void on_open() override {
    const Json delta = Json::object({{"role", "assistant"}, {"content", ""}});
    for (size_t i = 0; i < choices_.size(); ++i) send(chunk(choice_json(i, "delta", delta)));
  }

  void on_event(size_t index, const TextEvent& event) override {
    auto& records = choices_[index].records;
    records.insert(records.end(), event.logprobs.begin(), event.logprobs.end());
    if (!event.prompt_logprobs.empty()) choices_[index].of_prompt = event.prompt_logprobs;
    if (event.progress) send_progress(index, event);
    for (const OutputEvent& delta : event.deltas) on_delta(index, delta, event);
    if (event.finished && stream()) send_finish(index, event);
  }

  void on_delta(size_t index, const OutputEvent& delta, const TextEvent& event) {
    Choice& choice = choices_[index];
    if (delta.kind == Kind::kReasoning && !include_reasoning_) return;
    if (delta.kind == Kind::kCallStart) choice.call_ids.push_back(fresh_id("call_"));
    if (!stream()) return append_event(delta, &choice.output);
    if (delta.kind == Kind::kCallEnd) return;
    Json piece = chunk(
        with_logprobs(index, choice_json(index, "delta", delta_json(delta, choice.call_ids))));
    if (timings_per_token_) piece.set("timings", timings_json(event));
    send(piece);
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

  void send_progress(size_t index, const TextEvent& event) {
    Json piece = chunk(choice_json(index, "delta", Json::object()));
    piece.set("prompt_progress", progress_json(event));
    send(piece);
  }

  void send_finish(size_t index, const TextEvent& event) {
    Json choice = choice_json(index, "delta", Json::object());
    if (!choices_[index].records.empty()) choice = with_logprobs(index, std::move(choice));
    choice = ended(index, std::move(choice), event);
    Json closing = chunk(std::move(choice));
    if (timings_) closing.set("timings", timings_json(event));
    send(closing);
  }

  void on_complete() override {
    const Json usage = usage_json(total_usage(), reasoning_tokens());
    if (stream()) {
      if (include_usage_) {
        Json counted = envelope("chat.completion.chunk", Json::array());
        counted.set("usage", usage);
        send(counted);
      }
      return send_text("data: [DONE]\n\n");
    }
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json choice = choice_json(i, "message", message_json(choices_[i]));
      choice.set("logprobs", Json());
      choice = with_logprobs(i, std::move(choice));
      choices.push_back(ended(i, std::move(choice), last(i)));
    }
    Json body = envelope("chat.completion", std::move(choices));
    body.set("usage", usage);
    if (timings_) body.set("timings", timings_json(last(0)));
    respond(body);
  }

  Json ended(size_t index, Json choice, const TextEvent& event) const {
    if (prompt_logprobs_)
      choice.set("prompt_logprobs",
                 server::prompt_logprobs(service_.tokenizer(), choices_[index].of_prompt));
    choice.set("finish_reason", finish_reason_text(event));
    choice.set("stop_reason", stop_reason(event, stop_ids_));
    return choice;
  }

  // Takes the records that wait; a piece of a stream whose tokens went out already has none.
  Json with_logprobs(size_t index, Json choice) {
    if (!logprobs_) return choice;
    choice.set(
        "logprobs",
        Json::object({{"content", chat_logprobs(service_.tokenizer(), choices_[index].records)}}));
    choices_[index].records.clear();
    return choice;
  }

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

  const Service& service_;
  const bool logprobs_, prompt_logprobs_;
  const bool include_usage_, include_reasoning_, timings_, timings_per_token_;
  const std::vector<int32_t> stop_ids_;
  const std::string id_, model_;
  const int64_t created_;
  std::vector<Choice> choices_;
};

}  // namespace

void chat_completions(const ApiCall& call) {
  ChatRequest request = read_chat_request(call.body, call.service);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  std::vector<int32_t> prompt =
      encode_conversation(call.service, request.conversation, &request.settings);
  constrain_answer(call.service, request.rules, final_text(request.conversation), &request.settings,
                   &headers);
  const auto answer = std::make_shared<ChatAnswer>(
      Generation::Setup{call.exchange, request.stream, std::move(headers)}, request, call.service,
      call.model);
  answer->start(call.service, {{std::move(prompt), request.settings, request.n}});
}

}  // namespace flare::server
