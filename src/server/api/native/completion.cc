// Fields and shapes of the native completion (serving.md S1 Native, S2.7).
#include "server/api/native/completion.h"

#include <algorithm>
#include <limits>

#include "server/api/answer_format.h"
#include "server/api/fields.h"
#include "server/api/generation.h"
#include "server/api/ids_json.h"
#include "server/api/logprobs.h"
#include "server/api/prompting.h"
#include "server/api/raw_prompt.h"
#include "server/api/sampling_fields.h"
#include "server/api/timings.h"

namespace flare::server {
namespace {

using runtime::FinishReason;

std::string_view stop_type(const TextEvent& last) {
  switch (*last.finished) {
    case FinishReason::kStopId:
      return "eos";
    case FinishReason::kStopped:
      return "word";
    default:
      return "limit";
  }
}

class NativeAnswer : public Generation {
 public:
  NativeAnswer(Setup setup, const Service& service, bool logprobs, bool timings_per_token,
               std::string model)
      : Generation(std::move(setup)),
        service_(service),
        logprobs_(logprobs),
        timings_per_token_(timings_per_token),
        model_(std::move(model)) {}

 private:
  void on_event(size_t, const TextEvent& event) override {
    std::string text;
    for (const frontend::OutputEvent& delta : event.deltas) text += delta.text;
    records_.insert(records_.end(), event.logprobs.begin(), event.logprobs.end());
    tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
    if (!stream()) {
      content_ += text;
      return;
    }
    if (text.empty()) return;
    Json piece = with_logprobs(Json::object({{"index", 0}, {"content", text}, {"stop", false}}));
    if (timings_per_token_) piece.set("timings", timings_json(event));
    send(piece);
  }

  void on_complete() override {
    const TextEvent& event = last(0);
    const runtime::Usage& usage = event.usage;
    Json body = Json::object({{"index", 0},
                              {"content", content_},
                              {"tokens", stream() ? Json::array() : ids_json(tokens_)},
                              {"stop", true},
                              {"model", model_},
                              {"tokens_predicted", usage.generated_tokens},
                              {"tokens_evaluated", usage.prompt_tokens},
                              {"tokens_cached", usage.cached_tokens},
                              {"truncated", false},
                              {"stop_type", stop_type(event)},
                              {"stopping_word", event.stop_string},
                              {"timings", timings_json(event)}});
    body = with_logprobs(std::move(body));
    if (stream()) return send(body);
    respond(body);
  }

  // Takes the records that wait.
  Json with_logprobs(Json body) {
    if (!logprobs_) return body;
    body.set("completion_probabilities", native_logprobs(service_.tokenizer(), records_));
    records_.clear();
    return body;
  }

  const Service& service_;
  const bool logprobs_, timings_per_token_;

  const std::string model_;
  std::string content_;                          // of a whole answer
  std::vector<int32_t> tokens_;                  // of the answer
  std::vector<runtime::TokenLogprobs> records_;  // that have not been sent yet
};

// Checked, although nothing depends on them.
void check_hints(const Fields& fields) {
  fields.without_effect("model", Shape::kText);
  for (std::string_view name : {"cache_prompt", "return_tokens"})
    fields.without_effect(name, Shape::kBoolean);
  fields.without_effect("id_slot", Shape::kInteger);
  fields.without_effect("samplers", Shape::kAny);  // names, or letters in a string
}

}  // namespace

void native_completion(const ApiCall& call) {
  const Fields fields(call.body);
  GenerateSettings settings = call.service.default_settings();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const std::string_view name : {"n_predict", "max_tokens"})  // negative: no limit
    if (const auto limit = fields.integer(name, -2, kMax); limit && *limit >= 0)
      settings.max_tokens = static_cast<uint32_t>(std::min<int64_t>(*limit, settings.max_tokens));
  settings.stop = read_stop(fields, "stop");
  read_cache_fields(fields, &settings);
  settings.priority = read_priority(fields);
  read_sampling(fields, call.service, &settings);
  const AnswerFormat format = read_answer_format(fields);
  if (const auto top = fields.integer("n_probs", 0, 20); top && *top > 0)
    settings.sampling.top_logprobs = static_cast<int32_t>(*top);
  const bool stream = fields.boolean("stream").value_or(false);
  tokenizer_of(call.service);
  std::vector<RawPrompt> prompts = read_raw_prompts(
      fields, "prompt", call.service, 1, fields.boolean("add_special_tokens").value_or(true));
  const bool timings_per_token = fields.boolean("timings_per_token").value_or(false);
  check_hints(fields);
  http::Headers headers = answer_headers(call, fields.unread(), settings);
  constrain_answer(call.service, {.tool_choice = {}, .format = format}, {}, &settings, &headers);
  const auto answer = std::make_shared<NativeAnswer>(
      Generation::Setup{call.exchange, stream, std::move(headers)}, call.service,
      settings.sampling.top_logprobs >= 0, timings_per_token, call.model);
  answer->start(call.service, {{std::move(prompts[0].ids), std::move(settings)}});
}

}  // namespace flare::server
