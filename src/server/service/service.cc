// Rendering, encoding, and the bridge from engine events to text events.
#include "server/service/service.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "server/service/answer_gate.h"
#include "server/service/grammar_constraint.h"
#include "server/service/reasoning_constraint.h"
#include "server/service/text_gate.h"

namespace flare::server {
namespace {

uint64_t random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) >> 1;  // fits a signed 64-bit field
}

using Kind = frontend::OutputEvent::Kind;

// The end of a prompt that shows how an answer begins: more than any template writes behind the
// last message.
constexpr size_t kPromptTail = 4096;

constexpr size_t kCachedGrammars = 64;

// A token with one of them ends a repetition: llama.cpp's defaults.
constexpr std::string_view kDryBreakers = "\n:\"*";

// Binds a gate (owned by the engine's request) to the sink of one answer.
class Answer {
 public:
  Answer(TextSink sink, std::vector<int32_t> end_ids)
      : sink_(std::move(sink)), end_ids_(std::move(end_ids)) {}
  // At most one of them; without either the answer is tokens alone.
  void read_with(TextGate* gate) { text_gate_ = gate; }
  void read_with(AnswerGate* gate) { answer_gate_ = gate; }

  void on_event(const runtime::Event& event) {
    TextEvent out;
    out.admitted = event.admitted;
    out.usage = event.usage;
    out.timings = event.timings;
    out.tokens.assign(event.tokens.begin(), event.tokens.end());
    out.logprobs = event.logprobs;
    out.prompt_logprobs = event.prompt_logprobs;
    out.progress = event.progress;
    if (event.finished) {
      out.finished = event.finished;
      out.error = event.error;
      out.stop_id = event.stop_id;
    }
    if (text_gate_) read_text(event, &out);
    if (answer_gate_) read_answer(event, &out);
    if (!out.deltas.empty() || !out.tokens.empty() || !out.prompt_logprobs.empty() ||
        out.finished || out.admitted || out.progress)
      sink_(out);
  }

 private:
  void read_text(const runtime::Event& event, TextEvent* out) {
    std::string text = event.finished ? text_gate_->finish() : text_gate_->take();
    if (!text.empty()) out->deltas.push_back({.kind = Kind::kContent, .text = std::move(text)});
    if (event.finished) out->stop_string = text_gate_->matched();
  }

  void read_answer(const runtime::Event& event, TextEvent* out) {
    if (!event.finished) {
      out->deltas = answer_gate_->take();
      return;
    }
    const bool natural = event.finished == runtime::FinishReason::kStopId &&
                         std::ranges::find(end_ids_, event.stop_id) != end_ids_.end();
    out->deltas =
        answer_gate_->finish(natural ? frontend::OutputEnd::kNatural : frontend::OutputEnd::kCut);
    out->stop_string = answer_gate_->matched();
    out->called = natural && answer_gate_->has_complete_call();
    out->reasoning_tokens = answer_gate_->reasoning_tokens();
  }

  TextGate* text_gate_ = nullptr;
  AnswerGate* answer_gate_ = nullptr;
  TextSink sink_;
  const std::vector<int32_t> end_ids_;  // those by which the model ends an answer
};

}  // namespace

// The text that tokens spell one after the other, and where in it each ends. With a tokenizer that
// normalises, or marks spaces its own way, it is not the text that was encoded.
struct Service::Spelling {
  Spelling(const frontend::Tokenizer& tokenizer, std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      text += tokenizer.token_bytes(id);
      ends.push_back(text.size());
    }
  }
  std::string text;
  std::vector<size_t> ends;
};

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
  if (!block.tool_format.empty()) format_ = frontend::find_format(block.tool_format);
  if (!block.reasoning_format.empty())
    reasoning_ = frontend::find_reasoning_format(block.reasoning_format);
  ::malloc_trim(0);  // parsing takes more than its result, and the engine is to keep to its plan
}

const frontend::Tokenizer& Service::tokenizer() const {
  if (!tokenizer_)
    throw Error(Code::kInvalid,
                "{}: has neither tokenizer.json nor tokenizer.model, so it takes token ids only",
                engine_.model().source);
  return *tokenizer_;
}

std::vector<std::vector<int32_t>> Service::spellings(std::string_view word) const {
  std::vector<std::vector<int32_t>> out;
  for (const std::string& text : {std::string(word), fmt::format(" {}", word)}) {
    std::vector<int32_t> ids = tokenizer().encode(text, {false, true});
    if (!ids.empty() && std::ranges::find(out, ids) == out.end()) out.push_back(std::move(ids));
  }
  return out;
}

std::shared_ptr<const std::vector<uint32_t>> Service::dry_breakers() const {
  if (!tokenizer_) return nullptr;
  std::call_once(breakers_once_, [this] {
    std::vector<uint32_t> bits((vocab_size() + 31) / 32);
    const auto n = std::min(static_cast<uint32_t>(tokenizer_->id_limit()), vocab_size());
    for (uint32_t id = 0; id < n; ++id)
      if (tokenizer_->token_bytes(static_cast<int32_t>(id)).find_first_of(kDryBreakers) !=
          std::string::npos)
        bits[id / 32] |= 1u << (id % 32);
    breakers_ = std::make_shared<const std::vector<uint32_t>>(std::move(bits));
  });
  return breakers_;
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
                                  .now_unix = clock_.value_or(std::time(nullptr))});
}

std::vector<int32_t> Service::encode_prompt(const frontend::MarkedText& rendered) const {
  return tokenizer().encode(rendered);
}

std::optional<AnswerForm> Service::answer_form(const Conversation& conversation,
                                               const frontend::MarkedText& rendered) const {
  if (!format_ && !reasoning_) return std::nullopt;
  AnswerForm form;
  form.tools =
      std::make_shared<frontend::ToolSet>(conversation.tools.is_array() && conversation.may_call
                                              ? frontend::ToolSet::from_json(conversation.tools)
                                              : frontend::ToolSet());
  // A continued message may be long, and its header stands before it.
  const std::string& text = rendered.text();
  const bool continued = conversation.continuation != frontend::Continuation::kNone;
  form.prompt_tail =
      continued || text.size() < kPromptTail ? text : text.substr(text.size() - kPromptTail);
  form.continues = continued;
  form.continues_reasoning = conversation.continuation == frontend::Continuation::kReasoning;
  return form;
}

frontend::OutputParserSettings Service::parser_settings(const AnswerForm& form) const {
  return {.format = format_,
          .reasoning = reasoning_,
          .tools = form.tools.get(),
          .prompt_tail = form.prompt_tail,
          .continues_reasoning = form.continues_reasoning};
}

std::shared_ptr<frontend::grammar::CompiledGrammar> Service::answer_grammar(
    const AnswerForm* form, const frontend::ToolChoice* choice,
    std::optional<frontend::grammar::Grammar> text) const {
  const bool channels = format_ && format_->channels;
  const bool calls = form && format_ && choice && !form->tools->empty();
  if (!calls && !text) return nullptr;
  if (form && channels && form->continues) return nullptr;
  std::call_once(grammars_once_, [this] {
    grammars_ = std::make_unique<frontend::grammar::GrammarCache>(
        make_vocabulary(tokenizer(), engine_.model().frontend.stop_ids), kCachedGrammars);
  });
  const auto timed = [this](const frontend::grammar::Grammar& grammar) {
    const auto begin = std::chrono::steady_clock::now();
    auto compiled = grammars_->get(grammar);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (observer_) observer_->metrics().constraint_compiled(took.count());
    return compiled;
  };
  // In a channel form even a plain text stands in messages.
  if (!calls && !(form && channels)) return timed(*text);
  frontend::grammar::Grammar grammar;
  frontend::grammar::Grammar::Expr text_answer = frontend::kFreeText;
  if (text) {
    grammar = std::move(*text);
    text_answer = grammar.root();
  }
  static const frontend::ToolSet kNoTools;
  const frontend::ToolConstraint made =
      tool_constraint(grammar, *format_, calls ? *form->tools : kNoTools,
                      choice ? *choice : frontend::ToolChoice{}, text_answer);
  grammar.set_root(made.answer);
  for (const std::string& what : made.loosened) log_info("not enforced: {}", what);
  return timed(grammar);
}

std::unique_ptr<runtime::Constraint> Service::make_constraint(
    const GenerateSettings& settings) const {
  std::unique_ptr<GrammarConstraint> answer;
  if (settings.grammar) {
    answer = std::make_unique<GrammarConstraint>(settings.grammar);
    if (!settings.grammar_prefill.empty()) answer->advance_text(settings.grammar_prefill);
  }
  if (!answer && !settings.reasoning_budget) return nullptr;
  // Messages of channel forms are part of the grammar, those to the model itself too.
  const bool channels = format_ && format_->channels;
  if (!settings.form || !reasoning_ || reasoning_->close.empty() || channels) return answer;
  const bool inside = frontend::OutputParser(parser_settings(*settings.form)).in_reasoning();
  const bool silent = reasoning_traits().prompt == frontend::ReasoningPrompt::kSilent;
  if (!inside && (!silent || settings.form->continues)) return answer;
  using Start = ReasoningConstraint::Start;
  std::optional<ReasoningConstraint::Budget> budget;
  if (settings.reasoning_budget) {
    const std::string& close = reasoning_traits().close;
    budget = {*settings.reasoning_budget,
              tokenizer_->encode(close.empty() ? reasoning_->close : close, {false, true})};
  }
  return std::make_unique<ReasoningConstraint>(*tokenizer_, *reasoning_,
                                               inside ? Start::kInside : Start::kMayOpen,
                                               std::move(answer), std::move(budget));
}

std::vector<uint32_t> Service::prompt_frontiers(const Conversation& conversation,
                                                std::span<const int32_t> prompt,
                                                uint32_t* marked_tokens) const {
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
  const size_t before_last_user = last_user == 0 ? 0 : last_user - 1;
  std::set<size_t> cuts;
  const bool has_tools = conversation.tools.is_array() && !conversation.tools.as_array().empty();
  if (turns > 0 || has_tools) cuts.insert(turns);
  if (before_last_user > 0) cuts.insert(before_last_user);
  cuts.insert(messages.size());
  const Spelling spelled(tokenizer(), prompt);
  const auto add = [&](const Conversation::Mark& mark) -> uint32_t {
    const auto cut = render_beginning(conversation, mark);
    if (!cut) return 0;
    frontiers.push_back(tokens_in_common(*cut, spelled, prompt));
    return frontiers.back();
  };
  for (const size_t n : cuts) add({n, {}});
  for (const Conversation::Mark& mark : conversation.marks)
    if (const uint32_t tokens = add(mark); marked_tokens)
      *marked_tokens = std::max(*marked_tokens, tokens);
  std::ranges::sort(frontiers);
  frontiers.erase(std::ranges::unique(frontiers).begin(), frontiers.end());
  return frontiers;
}

std::optional<frontend::MarkedText> Service::render_beginning(
    const Conversation& conversation, const Conversation::Mark& mark) const {
  Conversation part{.tools = conversation.tools,
                    .template_kwargs = conversation.template_kwargs,
                    .add_generation_prompt = false};
  const Json::Array& all = conversation.messages.as_array();
  const size_t n = std::min(mark.messages, all.size());
  for (size_t i = 0; i < n; ++i)
    part.messages.push_back(i + 1 == n && !mark.last.is_null() ? mark.last : all[i]);
  // Tools may stand before any message, but templates want one.
  if (n == 0) part.messages.push_back(Json::object({{"role", "user"}, {"content", ""}}));
  try {
    return render(part);
  } catch (const Error&) {
    // A template may refuse a conversation that is cut there; then nobody goes on from there.
    return std::nullopt;
  }
}

// How many tokens of the prompt the beginning has in common with it.
uint32_t Service::tokens_in_common(const frontend::MarkedText& beginning, const Spelling& spelled,
                                   std::span<const int32_t> prompt) const {
  if (spelled.text.starts_with(beginning.text())) {
    const auto behind = std::ranges::upper_bound(spelled.ends, beginning.size());
    return static_cast<uint32_t>(behind - spelled.ends.begin());
  }
  const std::vector<int32_t> ids = encode_prompt(beginning);
  return static_cast<uint32_t>(std::ranges::mismatch(ids, prompt).in1 - ids.begin());
}

std::vector<int32_t> Service::encode_raw(std::string_view text, bool add_special) const {
  std::vector<int32_t> plain = tokenizer().encode(text, {false, true});
  if (!add_special) return plain;
  std::vector<int32_t> full = tokenizer().encode(text, {true, true});
  // A text that spells the prefix out already has it.
  const std::string& bos = engine_.model().frontend.bos_token;
  return !bos.empty() && text.starts_with(bos) ? plain : full;
}

runtime::Request Service::make_request(GenerateSettings settings, TextSink sink) const {
  runtime::Request request;
  request.max_tokens = settings.max_tokens;
  request.sampling = settings.sampling;
  request.stop_ids =
      settings.ignore_stop_ids ? std::vector<int32_t>{} : engine_.model().frontend.stop_ids;
  request.stop_ids.insert(request.stop_ids.end(), settings.stop_ids.begin(),
                          settings.stop_ids.end());
  request.constraint = make_constraint(settings);
  request.tells_progress = settings.tells_progress;
  request.priority = settings.priority;
  request.deadline = settings.deadline;
  request.cache_salt = std::move(settings.cache_salt);
  request.session = std::move(settings.session);
  request.frontiers = std::move(settings.frontiers);
  auto answer = std::make_shared<Answer>(std::move(sink), engine_.model().frontend.stop_ids);
  const auto use = [&](auto gate) {
    answer->read_with(gate.get());
    request.gate = std::move(gate);
  };
  if (tokenizer_) request.sampling.id_limit = tokenizer_->id_limit();
  if (request.sampling.dry.multiplier > 0) request.sampling.dry_breakers = dry_breakers();
  if (tokenizer_ && settings.form)
    use(std::make_unique<AnswerGate>(*tokenizer_, std::move(settings.stop),
                                     parser_settings(*settings.form), settings.form->tools));
  else if (tokenizer_)
    use(std::make_unique<TextGate>(*tokenizer_, std::move(settings.stop)));
  request.on_event = [answer = std::move(answer)](const runtime::Event& event) {
    answer->on_event(event);
  };
  return request;
}

runtime::Admission Service::generate(std::vector<int32_t> prompt, GenerateSettings settings,
                                     TextSink sink, runtime::Ticket* ticket) {
  runtime::Request request = make_request(std::move(settings), std::move(sink));
  request.prompt = std::move(prompt);
  return engine_.submit(std::move(request), ticket);
}

runtime::Admission Service::generate(std::vector<int32_t> prompt, const GenerateSettings& settings,
                                     size_t n, ChoiceSink sink, runtime::Ticket* ticket) {
  std::vector<runtime::Request> choices;
  for (size_t i = 0; i < n; ++i) {
    GenerateSettings own = settings;
    own.sampling.choice = static_cast<uint32_t>(i);
    choices.push_back(
        make_request(std::move(own), [sink, i](const TextEvent& event) { sink(i, event); }));
  }
  choices.front().prompt = std::move(prompt);
  return engine_.submit(std::move(choices), ticket);
}

void make_greedy_if_asked(runtime::SamplingSettings* settings) {
  constexpr float kGreedyTemperature = 1e-4F;
  if (settings->temperature > kGreedyTemperature && settings->top_p > 0) return;
  settings->temperature = 0;
  settings->top_p = 1;
}

std::string_view finish_reason_text(const TextEvent& last) {
  using runtime::FinishReason;
  switch (last.finished.value_or(FinishReason::kFailed)) {
    case FinishReason::kStopId:
      return last.called ? "tool_calls" : "stop";
    case FinishReason::kStopped:
      return "stop";
    case FinishReason::kLength:
    case FinishReason::kContext:
    case FinishReason::kDeadEnd:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
    case FinishReason::kQueueTimeout:
    case FinishReason::kFailed:
      return "error";
  }
  return "error";
}

}  // namespace flare::server
