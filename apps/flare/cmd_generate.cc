// `flare generate MODEL`: one answer on stdout.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/file.h"
#include "flare/answer.h"
#include "flare/commands.h"
#include "flare/inputs.h"
#include "flare/model_loading.h"
#include "flare/sampling_flags.h"
#include "server/api/errors.h"
#include "server/api/ids_json.h"
#include "server/api/openai/messages.h"
#include "server/api/timings.h"

namespace flare::app {
namespace {

struct GenerateFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::optional<std::string> prompt, prompt_file, messages, tokens;
  std::optional<std::string> json_schema;
  std::optional<int32_t> logprobs;
  bool raw = false;
  bool stats = false;
};

// The conversation of a file: an array of messages, or an object as a chat request has it.
server::Conversation read_messages(const std::string& path, const server::Service& service) {
  Json document = parse_json(read_text_file(path), path);
  server::Conversation conversation;
  if (const Json* tools = document.find("tools")) conversation.tools = *tools;
  const Json* messages = document.find("messages");
  try {
    conversation.messages =
        server::normalise_messages(messages ? *messages : document, service.template_traits());
  } catch (const server::ApiError& error) {
    throw Error(Code::kInvalid, "{}: {}", path, error.message);
  }
  return conversation;
}

// Of a rendered conversation `form` is set.
std::vector<int32_t> make_prompt(const GenerateFlags& flags, const server::Service& service,
                                 std::optional<server::AnswerForm>* form) {
  if (flags.tokens) return parse_ids("--tokens", *flags.tokens);
  server::Conversation conversation;
  if (flags.messages) {
    conversation = read_messages(*flags.messages, service);
  } else {
    const std::string text = flags.prompt ? *flags.prompt : read_input(*flags.prompt_file);
    if (flags.raw || !service.has_template()) return service.encode_raw(text);
    conversation.messages.push_back(Json::object({{"role", "user"}, {"content", text}}));
  }
  const frontend::MarkedText rendered = service.render(conversation);
  *form = service.answer_form(conversation, rendered);
  return service.encode_prompt(rendered);
}

// The answer's text is one value of the schema in a file.
void bind_answer(const std::string& path, const server::Service& service,
                 server::GenerateSettings* settings) {
  const frontend::ToolChoice choice;
  const server::AnswerForm* form = settings->form ? &*settings->form : nullptr;
  try {
    settings->grammar = service.answer_grammar(
        form, form && !form->tools->empty() ? &choice : nullptr,
        frontend::grammar::json_schema_grammar(parse_json(read_text_file(path), path)));
  } catch (const frontend::grammar::ConstraintError& error) {
    throw Error(Code::kInvalid, "{}: {}", path, error.message());
  }
}

std::string joined_ids(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += fmt::format("{}{}", text.empty() ? "" : " ", id);
  return text;
}

// Tokens as they are spelled; bytes that are no whole character become U+FFFD.
Json logprobs_json(const std::vector<runtime::TokenLogprobs>& records,
                   const server::Service& service) {
  const auto entry = [&service](int32_t id, float logprob) {
    Json out = Json::object({{"id", id}, {"logprob", double{logprob}}});
    if (service.has_tokenizer())
      out.set("token", service.tokenizer().decode(std::span(&id, 1), false));
    return out;
  };
  Json list = Json::array();
  for (const runtime::TokenLogprobs& record : records) {
    Json top = Json::array();
    for (const auto& [id, logprob] : record.top) top.push_back(entry(id, logprob));
    Json own = entry(record.id, record.logprob);
    own.set("top", std::move(top));
    list.push_back(std::move(own));
  }
  return list;
}

Json result_json(const frontend::Output& output, const std::vector<int32_t>& ids,
                 const server::TextEvent& last) {
  const runtime::Usage& usage = last.usage;
  Json result = Json::object(
      {{"text", output.content},
       {"ids", server::ids_json(ids)},
       {"finish_reason", server::finish_reason_text(last)},
       {"usage", Json::object({{"prompt_tokens", usage.prompt_tokens},
                               {"completion_tokens", usage.generated_tokens},
                               {"total_tokens", usage.prompt_tokens + usage.generated_tokens}})},
       {"timings", server::timings_json(last)}});
  if (!output.reasoning.empty()) result.set("reasoning", output.reasoning);
  if (output.calls.empty()) return result;
  Json calls = Json::array();
  for (const frontend::OutputCall& call : output.calls)
    calls.push_back(Json::object({{"name", call.name}, {"arguments", call.arguments}}));
  result.set("tool_calls", std::move(calls));
  return result;
}

void check_sources(const GenerateFlags& flags) {
  const int given = flags.prompt.has_value() + flags.prompt_file.has_value() +
                    flags.messages.has_value() + flags.tokens.has_value();
  if (given != 1)
    throw Error(Code::kUsage,
                "{} prompts given, expected exactly one of --prompt, --prompt-file, "
                "--messages and --tokens",
                given);
}

int run(GenerateFlags& flags, const CommonFlags& common) {
  check_sources(flags);
  if (flags.logprobs && !common.json)
    throw Error(Code::kUsage, "--logprobs needs --json, which has the place for them");
  flags.model.max_concurrency = 1;
  flags.model.prefix_reuse = false;  // there is one prompt
  const auto engine =
      load_model(flags.model, {.max_pending = 1, .pending_timeout_s = 0}, common.verbose > 0);
  server::Service service(*engine);
  server::GenerateSettings settings = settings_of(flags.sampling, service);
  settings.sampling.top_logprobs = flags.logprobs.value_or(-1);
  std::vector<int32_t> prompt = make_prompt(flags, service, &settings.form);
  if (flags.json_schema) bind_answer(*flags.json_schema, service, &settings);

  AnswerQueue queue;
  runtime::Ticket ticket;
  service.generate(
      std::move(prompt), std::move(settings),
      [&queue](const server::TextEvent& event) { queue.push(event); }, &ticket);
  frontend::Output output;
  AnswerPrinter printer(!common.quiet);
  std::vector<int32_t> ids;
  std::vector<runtime::TokenLogprobs> records;
  std::optional<server::TextEvent> last;
  while (!last) {
    auto event = queue.next();
    if (!event) continue;
    for (const frontend::OutputEvent& delta : event->deltas) append_event(delta, &output);
    ids.insert(ids.end(), event->tokens.begin(), event->tokens.end());
    std::ranges::move(event->logprobs, std::back_inserter(records));
    if (!common.json) printer.print(*event);
    if (event->finished) last = std::move(event);
  }
  check_finished(*last);
  if (common.json) {
    Json result = result_json(output, ids, *last);
    if (flags.logprobs) result.set("logprobs", logprobs_json(records, service));
    print_result(common, result, {});
  } else {
    if (!service.has_tokenizer()) fmt::print("{}", joined_ids(ids));
    // A terminal wants its prompt on a line of its own; a pipe gets the answer alone.
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("\n");
    std::fflush(stdout);
  }
  if (!common.quiet) fmt::print(stderr, "{}\n", timing_line(*last));
  if (flags.stats)
    fmt::print(stderr,
               "finish {} · queue {:.1f} ms · first token {:.1f} ms · context {} of {}\n{}\n",
               server::finish_reason_text(*last), last->timings.queue_ms,
               last->timings.queue_ms + last->timings.prefill_ms,
               last->usage.prompt_tokens + last->usage.generated_tokens, engine->max_context(),
               runtime::memory_plan_text(engine->memory_plan()));
  return 0;
}

}  // namespace

std::function<int()> declare_generate(CLI::App& app, const CommonFlags& common) {
  auto flags = std::make_shared<GenerateFlags>();
  add_model_flags(app, &flags->model);
  app.add_flag("--exact", flags->model.exact, "f32 reference arithmetic, f32 keys and values")
      ->group("Model")
      ->excludes("--kv-dtype");
  const auto source = [&](const char* name, auto& value, const char* text, const char* type) {
    app.add_option(name, value, text)->type_name(type)->group("Prompt (exactly one)");
  };
  source("--prompt", flags->prompt, "what the user says", "TEXT");
  source("--prompt-file", flags->prompt_file, "the same from a file, - for stdin", "FILE");
  source("--messages", flags->messages, "a conversation: JSON as in a chat request", "FILE");
  source("--tokens", flags->tokens, "token ids, or a file of them", "LIST|FILE");
  app.add_flag("--raw", flags->raw, "no chat template around the prompt");
  app.add_option("--json-schema", flags->json_schema, "the answer is one value of this JSON Schema")
      ->type_name("FILE")
      ->group("Answer");
  add_sampling_flags(app, &flags->sampling);
  app.add_option("--stop", flags->sampling.stop, "end the answer before this text (repeatable)")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Sampling");
  app.add_option("--logprobs", flags->logprobs,
                 "with --json, log-probabilities of the tokens and of so many of the likeliest")
      ->type_name("N")
      ->check(CLI::Range(0, kernel::RowLogprobs::kMaxTop).description(""))
      ->group("Sampling");
  app.add_flag("--stats", flags->stats, "more figures on stderr");
  app.footer(
      "Examples:\n"
      "  flare generate --prompt 'What is the capital of France?'\n"
      "  flare generate model.ninfer --messages chat.json --temperature 0 --json\n"
      "  echo 'Once upon a time' | flare generate --raw --prompt-file - --max-tokens 50");
  return [flags, &common] { return run(*flags, common); };
}

}  // namespace flare::app
