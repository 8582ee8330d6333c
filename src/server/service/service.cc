// Rendering, encoding, and the bridge from engine events to text events.
#include "server/service/service.h"

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "base/error.h"
#include "server/service/text_gate.h"

namespace flare::server {
namespace {

uint64_t random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) >> 1;  // fits a signed 64-bit field
}

// Binds a gate (owned by the engine's request) to the sink of one answer.
class Answer {
 public:
  Answer(TextGate* gate, TextSink sink) : gate_(gate), sink_(std::move(sink)) {}

  void on_event(const runtime::Event& event) {
    TextEvent out;
    out.tokens.assign(event.tokens.begin(), event.tokens.end());
    if (gate_) out.text = event.finished ? gate_->finish() : gate_->take();
    if (event.finished) {
      out.finished = event.finished;
      out.usage = event.usage;
      out.timings = event.timings;
      out.error = event.error;
      out.stop_id = event.stop_id;
      if (gate_) out.stop_string = gate_->matched();
    }
    if (!out.text.empty() || !out.tokens.empty() || out.finished) sink_(out);
  }

 private:
  TextGate* gate_;
  TextSink sink_;
};

}  // namespace

Service::Service(runtime::Engine& engine) : engine_(engine) {
  const package::FrontendBlock& block = engine.model().frontend;
  const std::string& source = engine.model().source;
  std::vector<std::string_view> templates;  // what they write as a marker, callers cannot
  for (const auto* text : {&block.chat_template, &block.tool_template})
    if (*text) templates.push_back(**text);
  if (block.tokenizer_json) {
    tokenizer_ = frontend::Tokenizer::from_json(*block.tokenizer_json, source + ": tokenizer.json",
                                                templates);
  } else if (block.sentencepiece_model) {
    tokenizer_ = frontend::Tokenizer::from_sentencepiece(*block.sentencepiece_model,
                                                         source + ": tokenizer.model", &templates,
                                                         {block.add_bos, block.add_eos});
  }
  if (block.chat_template)
    template_ = frontend::Template::parse(*block.chat_template, source + ": chat template");
  if (block.tool_template)
    tool_template_ = frontend::Template::parse(*block.tool_template, source + ": tool template");
  ::malloc_trim(0);  // parsing takes more than its result, and the engine is to keep to its plan
}

const frontend::Tokenizer& Service::tokenizer() const {
  if (!tokenizer_)
    throw Error(Code::kInvalid,
                "{}: has neither tokenizer.json nor tokenizer.model, so it takes token ids only",
                engine_.model().source);
  return *tokenizer_;
}

GenerateSettings Service::default_settings() const {
  const package::SamplingDefaults& d = engine_.model().frontend.sampling;
  GenerateSettings settings;
  settings.sampling.temperature = d.temperature;
  settings.sampling.top_k = d.top_k;
  settings.sampling.top_p = d.top_p;
  settings.sampling.min_p = d.min_p;
  settings.sampling.repetition_penalty = d.repetition_penalty;
  settings.sampling.presence_penalty = d.presence_penalty;
  settings.sampling.frequency_penalty = d.frequency_penalty;
  settings.sampling.seed = random_seed();
  return settings;
}

frontend::MarkedText Service::render(const Conversation& conversation) const {
  if (!template_)
    throw Error(Code::kInvalid, "{}: has no chat template, so it takes raw prompts only",
                engine_.model().source);
  const package::FrontendBlock& block = engine_.model().frontend;
  return frontend::render_prompt({.chat = &*template_,
                                  .with_tools = tool_template_ ? &*tool_template_ : nullptr,
                                  .bos_token = block.bos_token,
                                  .eos_token = block.eos_token},
                                 {.messages = conversation.messages,
                                  .tools = conversation.tools,
                                  .template_kwargs = conversation.template_kwargs,
                                  .add_generation_prompt = conversation.add_generation_prompt,
                                  .continuation = conversation.continuation,
                                  .now_unix = std::time(nullptr)});
}

std::vector<int32_t> Service::encode_prompt(const frontend::MarkedText& rendered) const {
  return tokenizer().encode(rendered);
}

std::vector<uint32_t> Service::prompt_frontiers(const Conversation& conversation,
                                                std::span<const int32_t> prompt) const {
  std::vector<uint32_t> frontiers;
  if (!engine_.keeps_prefixes()) return frontiers;
  const Json::Array& messages = conversation.messages.as_array();
  const auto has_role = [&messages](size_t i, std::string_view role) {
    const Json* found = messages[i].find("role");
    return found != nullptr && *found == Json(role);
  };
  size_t turns = 0, last_user = messages.size();  // where turns begin, and the last user's
  while (turns < messages.size() && has_role(turns, "system")) ++turns;
  while (last_user > 0 && !has_role(last_user - 1, "user")) --last_user;
  Conversation part = conversation;
  part.add_generation_prompt = false;
  part.continuation = frontend::Continuation::kNone;
  for (const size_t n : {turns, last_user == 0 ? 0 : last_user - 1, messages.size()}) {
    if (n == 0) continue;
    part.messages =
        Json(Json::Array(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(n)));
    try {
      const std::vector<int32_t> ids = encode_prompt(render(part));
      const size_t n = std::min(ids.size(), prompt.size());
      const auto same =
          std::mismatch(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), prompt.begin());
      frontiers.push_back(static_cast<uint32_t>(same.first - ids.begin()));
    } catch (const Error&) {
      // A template may refuse a conversation that is cut there; then nobody goes on from there.
    }
  }
  std::sort(frontiers.begin(), frontiers.end());
  return frontiers;
}

std::vector<int32_t> Service::encode_raw(std::string_view text) const {
  std::vector<int32_t> plain = tokenizer().encode(text, {false, true});
  std::vector<int32_t> full = tokenizer().encode(text, {true, true});
  // A text that spells the prefix out already has it.
  const std::string& bos = engine_.model().frontend.bos_token;
  return !bos.empty() && text.starts_with(bos) ? plain : full;
}

runtime::Admission Service::generate(std::vector<int32_t> prompt, GenerateSettings settings,
                                     TextSink sink, runtime::Ticket* ticket) {
  runtime::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = settings.max_tokens;
  request.sampling = settings.sampling;
  request.stop_ids =
      settings.ignore_stop_ids ? std::vector<int32_t>{} : engine_.model().frontend.stop_ids;
  request.stop_ids.insert(request.stop_ids.end(), settings.stop_ids.begin(),
                          settings.stop_ids.end());
  request.constraint = std::move(settings.constraint);
  request.cache_salt = std::move(settings.cache_salt);
  request.frontiers = std::move(settings.frontiers);
  TextGate* gate = nullptr;
  if (tokenizer_) {
    request.sampling.id_limit = tokenizer_->id_limit();
    auto owned = std::make_unique<TextGate>(*tokenizer_, std::move(settings.stop));
    gate = owned.get();
    request.gate = std::move(owned);
  }
  request.on_event = [answer = std::make_shared<Answer>(gate, std::move(sink))](
                         const runtime::Event& event) { answer->on_event(event); };
  return engine_.submit(std::move(request), ticket);
}

void make_greedy_if_asked(runtime::SamplingSettings* settings) {
  constexpr float kGreedyTemperature = 1e-4F;
  if (settings->temperature > kGreedyTemperature && settings->top_p > 0) return;
  settings->temperature = 0;
  settings->top_p = 1;
}

std::string_view finish_reason_text(runtime::FinishReason reason) {
  using runtime::FinishReason;
  switch (reason) {
    case FinishReason::kStopId:
    case FinishReason::kStopped:
      return "stop";
    case FinishReason::kLength:
    case FinishReason::kContext:
    case FinishReason::kDeadEnd:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "error";
  }
  return "error";
}

}  // namespace flare::server
