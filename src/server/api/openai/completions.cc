// Text completions: fields, whole answers and streams (serving.md S1, S2.7).
#include "server/api/openai/completions.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "server/api/answer_format.h"
#include "server/api/fields.h"
#include "server/api/generation.h"
#include "server/api/logprobs.h"
#include "server/api/openai/usage.h"
#include "server/api/prompting.h"
#include "server/api/raw_prompt.h"
#include "server/api/sampling_fields.h"
#include "server/api/timings.h"

namespace flare::server {
namespace {

constexpr size_t kMaxPrompts = 64;
constexpr int kMaxChoices = 8;
constexpr int kMaxTopLogprobs = 20;
constexpr uint32_t kDefaultTokens = 16;

struct CompletionRequest {
  std::vector<RawPrompt> prompts;
  GenerateSettings settings;
  AnswerFormat format;
  int n = 1;
  bool echo = false;
  bool echoes_logprobs = false, prompt_logprobs = false;
  bool stream = false;
  bool include_usage = false;
  bool timings = false;            // with the end
  bool timings_per_token = false;  // with every chunk of a stream
  std::vector<std::string> ignored;
};

// Checked, although nothing depends on them.
void check_hints(const Fields& fields) {
  for (std::string_view name : {"model", "user", "service_tier"})
    fields.without_effect(name, Shape::kText);
  fields.without_effect("metadata", Shape::kObject);
  fields.without_effect("cache_prompt", Shape::kBoolean);
}

void read_logprobs(const Fields& fields, const Service& service, CompletionRequest* request) {
  runtime::SamplingSettings& s = request->settings.sampling;
  const auto answer = fields.integer("logprobs", 0, kMaxTopLogprobs);
  const auto prompt = read_prompt_logprobs(fields, service);
  if (answer) s.top_logprobs = static_cast<int32_t>(*answer);
  request->echoes_logprobs = request->echo && answer;
  request->prompt_logprobs = prompt.has_value();
  if (!request->echoes_logprobs && !prompt) return;
  const auto echoed =
      static_cast<int32_t>(request->echoes_logprobs ? answer.value_or(0) : int64_t{0});
  s.prompt_logprobs = std::max(prompt.value_or(0), echoed);
  if (!service.has_prompt_logprobs())
    throw ApiError{400, "prompt_logprobs_unavailable",
                   "'echo' with 'logprobs' needs log-probabilities of the prompt, which this model "
                   "was not prepared for",
                   "logprobs"};
}

CompletionRequest read_request(const Json& body, const Service& service) {
  const Fields fields(body);
  CompletionRequest request;
  GenerateSettings& settings = request.settings;
  settings = service.default_settings();
  request.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  request.echo = fields.boolean("echo").value_or(false);
  request.stream = fields.boolean("stream").value_or(false);
  request.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  request.timings = fields.boolean("timings").value_or(false) || request.timings_per_token;
  if (const Json* options = fields.object("stream_options"))
    request.include_usage =
        Fields(*options, "stream_options.").boolean("include_usage").value_or(false);
  const auto limit = fields.integer("max_tokens", 0, std::numeric_limits<int64_t>::max());
  settings.max_tokens =
      static_cast<uint32_t>(std::min<int64_t>(limit.value_or(kDefaultTokens), UINT32_MAX));
  settings.stop = read_stop(fields, "stop");
  read_cache_fields(fields, &settings);
  settings.priority = read_priority(fields);
  read_sampling(fields, service, &settings);
  request.format = read_answer_format(fields);
  fields.refuse("suffix", {Json("")});
  if (fields.integer("best_of", 1, kMaxChoices).value_or(request.n) != request.n)
    fields.refuse("best_of");
  fields.refuse("store", {Json(false)});
  read_logprobs(fields, service, &request);
  check_hints(fields);
  request.prompts = read_raw_prompts(fields, "prompt", service, kMaxPrompts,
                                     fields.boolean("add_special_tokens").value_or(true));
  tokenizer_of(service);
  request.ignored = fields.unread();
  return request;
}

class CompletionAnswer : public Generation {
 public:
  CompletionAnswer(Setup setup, const CompletionRequest& request, const Service& service,
                   std::string model)
      : Generation(std::move(setup)),
        service_(service),
        logprobs_(request.settings.sampling.top_logprobs >= 0),
        echoes_logprobs_(request.echoes_logprobs),
        prompt_logprobs_(request.prompt_logprobs),
        include_usage_(request.include_usage),
        timings_(request.timings),
        timings_per_token_(request.timings_per_token),
        stop_ids_(request.settings.stop_ids),
        id_(fresh_id("cmpl-")),
        model_(std::move(model)),
        created_(std::time(nullptr)) {
    for (const RawPrompt& prompt : request.prompts)
      for (int i = 0; i < request.n; ++i) {
        Choice choice;
        if (request.echo) choice.text = prompt.text;
        if (echoes_logprobs_)  // nothing precedes the first token
          choice.records.push_back({prompt.ids.front(), std::nanf(""), {}});
        choices_.push_back(std::move(choice));
      }
  }

 private:
  struct Choice {
    std::string text;  // the echoed prompt and, if whole, the answer
    std::vector<runtime::TokenLogprobs> records = {};    // that have not been sent yet
    std::vector<runtime::TokenLogprobs> of_prompt = {};  // as `prompt_logprobs`
    uint64_t offset = 0;                                 // characters of tokens sent
  };

  void on_open() override {
    for (size_t i = 0; i < choices_.size(); ++i)
      if (!choices_[i].text.empty())
        send(envelope(Json::array({choice_json(i, choices_[i].text)})));
  }

  void on_event(size_t index, const TextEvent& event) override {
    Choice& choice = choices_[index];
    if (echoes_logprobs_)
      choice.records.insert(choice.records.end(), event.prompt_logprobs.begin(),
                            event.prompt_logprobs.end());
    if (prompt_logprobs_ && !event.prompt_logprobs.empty())
      choice.of_prompt = event.prompt_logprobs;
    choice.records.insert(choice.records.end(), event.logprobs.begin(), event.logprobs.end());
    std::string text;
    for (const frontend::OutputEvent& delta : event.deltas) text += delta.text;
    if (!stream()) {
      choice.text += text;
      return;
    }
    if (!text.empty()) {
      Json piece = envelope(Json::array({with_logprobs(index, choice_json(index, text))}));
      if (timings_per_token_) piece.set("timings", timings_json(event));
      send(piece);
    }
    if (!event.finished) return;
    Json closing =
        envelope(Json::array({ended(index, with_logprobs(index, choice_json(index, "")), event)}));
    if (timings_) closing.set("timings", timings_json(event));
    send(closing);
  }

  void on_complete() override {
    const Json usage = usage_json(total_usage(), 0);
    if (stream()) {
      if (include_usage_) {
        Json counted = envelope(Json::array());
        counted.set("usage", usage);
        send(counted);
      }
      return send_text("data: [DONE]\n\n");
    }
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i)
      choices.push_back(ended(i, with_logprobs(i, choice_json(i, choices_[i].text)), last(i)));
    Json body = envelope(std::move(choices));
    body.set("usage", usage);
    if (timings_) body.set("timings", timings_json(last(0)));
    respond(body);
  }

  // Takes the records that wait.
  Json with_logprobs(size_t index, Json choice) {
    if (!logprobs_ || choices_[index].records.empty()) return choice;
    Choice& own = choices_[index];
    choice.set("logprobs", completion_logprobs(service_.tokenizer(), own.records, &own.offset));
    own.records.clear();
    return choice;
  }

  Json envelope(Json choices) const {
    return Json::object({{"id", id_},
                         {"object", "text_completion"},
                         {"created", created_},
                         {"model", model_},
                         {"choices", std::move(choices)}});
  }
  static Json choice_json(size_t index, std::string_view text) {
    return Json::object(
        {{"index", index}, {"text", text}, {"logprobs", Json()}, {"finish_reason", Json()}});
  }
  Json ended(size_t index, Json choice, const TextEvent& event) const {
    if (prompt_logprobs_)
      choice.set("prompt_logprobs",
                 server::prompt_logprobs(service_.tokenizer(), choices_[index].of_prompt));
    choice.set("finish_reason", finish_reason_text(event));
    choice.set("stop_reason", stop_reason(event, stop_ids_));
    return choice;
  }

  const Service& service_;
  const bool logprobs_, echoes_logprobs_, prompt_logprobs_;
  const bool include_usage_, timings_, timings_per_token_;
  const std::vector<int32_t> stop_ids_;
  const std::string id_, model_;
  const int64_t created_;
  std::vector<Choice> choices_;
};

}  // namespace

void completions(const ApiCall& call) {
  CompletionRequest request = read_request(call.body, call.service);
  http::Headers headers = answer_headers(call, request.ignored, request.settings);
  constrain_answer(call.service, {.tool_choice = {}, .format = request.format}, {},
                   &request.settings, &headers);
  const auto answer = std::make_shared<CompletionAnswer>(
      Generation::Setup{call.exchange, request.stream, std::move(headers)}, request, call.service,
      call.model);
  std::vector<Generation::Run> runs;
  for (RawPrompt& prompt : request.prompts)
    runs.push_back({std::move(prompt.ids), request.settings, request.n});
  answer->start(call.service, std::move(runs));
}

}  // namespace flare::server
