// The service: messages → tokens → text, without HTTP. `flare run`, `chat` and `generate` use it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "frontend/grammar/compiled_grammar.h"
#include "frontend/messages/prompt.h"
#include "frontend/output/constraint.h"
#include "frontend/output/parser.h"
#include "frontend/template/template.h"
#include "frontend/tokenizer/tokenizer.h"
#include "runtime/engine.h"
#include "server/observe/observer.h"

namespace flare::server {

// A conversation as the template sees it (already in OpenAI's message shape).
struct Conversation {
  Json messages = Json::array();
  Json tools;            // null: none
  bool may_call = true;  // false: what looks like a call of a tool is text
  Json template_kwargs;  // object or null: further template variables
  bool add_generation_prompt = true;
  frontend::Continuation continuation = frontend::Continuation::kNone;
  // Places behind which a snapshot is asked for (serving.md S10.4).
  struct Mark {
    size_t messages = 0;  // that many leading ones
    Json last;            // the last of them as far as the mark; null: all of it
  };
  std::vector<Mark> marks;
  std::string field = "messages";  // of the request, which errors name
};

// What the model's template does with conversations that published ones treat differently.
using TemplateTraits = frontend::ConversationRules;

// What a prompt decides about how its answer is read: where reasoning and calls may stand.
struct AnswerForm {
  std::shared_ptr<const frontend::ToolSet> tools;  // declared ones, possibly none
  std::string prompt_tail;                         // end of the rendered prompt (serving.md S5.1)
  bool continues = false;                          // the prompt ends within an answer (S4.8)
  bool continues_reasoning = false;                // the prompt ends inside a block (S4.8)
};

struct GenerateSettings {
  runtime::SamplingSettings sampling;
  uint32_t max_tokens = UINT32_MAX;
  std::vector<std::string> stop;  // stop strings, each nonempty
  std::vector<int32_t> stop_ids;  // besides the model's
  bool ignore_stop_ids = false;
  // What the answer may be, behind its reasoning; null: anything.
  std::shared_ptr<frontend::grammar::CompiledGrammar> grammar;
  std::string grammar_prefill;  // text within the prompt that the grammar has taken already
  std::optional<uint32_t> reasoning_budget;  // tokens of an open block before it is closed
  // Of a rendered conversation, see answer_form(). Without it all text of the answer is content.
  std::optional<AnswerForm> form;
  int priority = 0;  // as runtime::Request
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::string cache_salt;           // requests of different salts share no prefix
  std::string session;              // names the conversation: its newest snapshot goes last
  std::vector<uint32_t> frontiers;  // prompt_frontiers() of the prompt
  bool tells_progress = false;      // of reading the prompt
  uint32_t marked_tokens = 0;       // of the prompt, up to the last mark of its conversation
};

// One piece of an answer. The last one has `finished`, and usage and timings of the whole answer.
struct TextEvent {
  // The first event, of a request that got its place: nothing but the usage of the prompt. Where
  // none comes before the last event, the request was never admitted (serving.md S2.2).
  bool admitted = false;
  // Reasoning, content and calls in the order of the answer; neighbours of one kind are joined.
  std::vector<frontend::OutputEvent> deltas;
  std::vector<int32_t> tokens;  // newly generated ids that stay in the answer
  // If asked for (sampling.top_logprobs >= 0), one record for each of `tokens`, in their order;
  // else empty. They come with their token, not with its text: an unfinished character or what may
  // become a stop string is still held back in `deltas` then, and text behind a stop string never
  // comes, though its tokens and records did. Tokenizer::token_bytes(id) has a token's exact bytes.
  std::vector<runtime::TokenLogprobs> logprobs;
  // If asked for (sampling.prompt_logprobs >= 0), in one event before any token: a record for every
  // token of the prompt but the first.
  std::vector<runtime::TokenLogprobs> prompt_logprobs;
  // If asked for, as runtime::Event::progress.
  std::optional<runtime::PromptProgress> progress;
  std::optional<runtime::FinishReason> finished;
  bool called = false;            // the model ended its answer behind a complete call
  uint64_t reasoning_tokens = 0;  // of the whole answer, in the last event
  std::string stop_string;        // kStopped: the one that matched
  int32_t stop_id = -1;           // kStopId: the id
  runtime::Usage usage;           // so far
  runtime::Timings timings;
  std::string error;
};
using TextSink = std::function<void(const TextEvent&)>;

// Immutable after construction but for the engine it feeds; any thread. The engine outlives it.
class Service {
 public:
  // Parses tokenizer and template of the model's frontend block. Errors: kInvalid (either cannot be
  // parsed: the model then cannot serve text; the message names line and construct).
  explicit Service(runtime::Engine& engine);

  runtime::Engine& engine() { return engine_; }
  // Who is told of requests; null: nobody. It outlives the service.
  void set_observer(observe::Observer* observer) { observer_ = observer; }
  observe::Observer* observer() const { return observer_; }
  // The time that templates see, in seconds since 1970; absent: the machine's. Before any request.
  void set_clock(std::optional<int64_t> unix_seconds) { clock_ = unix_seconds; }
  const std::string& model_name() const { return engine_.model().name; }
  bool has_tokenizer() const { return tokenizer_.has_value(); }
  bool has_template() const { return template_.has_value(); }
  const TemplateTraits& template_traits() const { return engine_.model().frontend.rules; }
  bool has_prompt_logprobs() const { return engine_.has_prompt_logprobs(); }
  const frontend::ReasoningTraits& reasoning_traits() const {
    return engine_.model().frontend.reasoning;
  }
  uint32_t max_context() const { return engine_.max_context(); }
  uint32_t vocab_size() const { return engine_.model().vocab_size; }
  // kInvalid with what is missing.
  const frontend::Tokenizer& tokenizer() const;

  // The sequences of ids by which an answer would say `word`: as it stands, and behind a space.
  // Errors: kInvalid (no tokenizer).
  std::vector<std::vector<int32_t>> spellings(std::string_view word) const;
  // The model's defaults with a random seed.
  GenerateSettings default_settings() const;
  // The rendered prompt. Errors: kInvalid (no template; template errors with line and cause).
  frontend::MarkedText render(const Conversation& conversation) const;
  std::vector<int32_t> encode_prompt(const frontend::MarkedText& rendered) const;
  // How the answer to a rendered conversation is read; nullopt for a model without formats of
  // reasoning and calls.
  std::optional<AnswerForm> answer_form(const Conversation& conversation,
                                        const frontend::MarkedText& rendered) const;
  bool has_tool_format() const { return format_ != nullptr; }
  // What an answer may be: `text` binds its text, `choice` its calls (serving.md S6.8, S7); what is
  // not enforced of tools is logged. `form` null: a raw prompt. Null if nothing is bound, or the
  // prompt ends within a message of a channel form. Errors: ConstraintError. Any thread.
  std::shared_ptr<frontend::grammar::CompiledGrammar> answer_grammar(
      const AnswerForm* form, const frontend::ToolChoice* choice,
      std::optional<frontend::grammar::Grammar> text) const;
  // Where in the prompt of a conversation a later one may leave it (serving.md S10.3), in tokens,
  // ascending: behind system message and tools, before the last user turn, behind the last message,
  // since later turns may render what follows otherwise, and at its marks, the last of which
  // raises `marked_tokens`. Empty where the engine keeps no prefixes.
  std::vector<uint32_t> prompt_frontiers(const Conversation& conversation,
                                         std::span<const int32_t> prompt,
                                         uint32_t* marked_tokens = nullptr) const;
  // Raw text, in which markers count; with `add_special` it gets the tokenizer's own prefix (BOS)
  // unless it begins with it.
  std::vector<int32_t> encode_raw(std::string_view text, bool add_special = true) const;

  // Starts an answer. `sink` runs on the engine thread, must be quick and must not throw. Without a
  // tokenizer events carry tokens and no text. Errors as Engine::submit.
  runtime::Admission generate(std::vector<int32_t> prompt, GenerateSettings settings, TextSink sink,
                              runtime::Ticket* ticket);
  // The same for `n` choices that differ by settings.sampling.choice alone, over one reading of the
  // prompt. All or none are queued.
  using ChoiceSink = std::function<void(size_t choice, const TextEvent&)>;
  runtime::Admission generate(std::vector<int32_t> prompt, const GenerateSettings& settings,
                              size_t n, ChoiceSink sink, runtime::Ticket* ticket);

 private:
  struct Spelling;
  // As far as the mark; nullopt if the template refuses that.
  std::optional<frontend::MarkedText> render_beginning(const Conversation& conversation,
                                                       const Conversation::Mark& mark) const;
  uint32_t tokens_in_common(const frontend::MarkedText& beginning, const Spelling& spelled,
                            std::span<const int32_t> prompt) const;
  runtime::Request make_request(GenerateSettings settings, TextSink sink) const;
  frontend::OutputParserSettings parser_settings(const AnswerForm& form) const;
  std::unique_ptr<runtime::Constraint> make_constraint(const GenerateSettings& settings) const;
  std::shared_ptr<const std::vector<uint32_t>> dry_breakers() const;

  runtime::Engine& engine_;
  observe::Observer* observer_ = nullptr;
  std::optional<int64_t> clock_;
  std::optional<frontend::Tokenizer> tokenizer_;
  std::optional<frontend::Template> template_;
  std::optional<frontend::Template> tool_template_;
  const frontend::Format* format_ = nullptr;              // of calls; null: the model has none
  const frontend::ReasoningFormat* reasoning_ = nullptr;  // the same
  mutable std::once_flag grammars_once_;  // the vocabulary takes time and memory: made when asked
  mutable std::unique_ptr<frontend::grammar::GrammarCache> grammars_;
  mutable std::once_flag breakers_once_;
  mutable std::shared_ptr<const std::vector<uint32_t>> breakers_;
};

// Both spellings of greedy (temperature at most 1e-4, top_p 0) become the sampler's one.
void make_greedy_if_asked(runtime::SamplingSettings* settings);

// "stop", "tool_calls", "length", … as OpenAI's finish_reason, of a last event.
std::string_view finish_reason_text(const TextEvent& last);

}  // namespace flare::server
