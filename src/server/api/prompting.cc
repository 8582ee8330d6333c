// Rendering with the errors of the API, and the choice of a constraint.
#include "server/api/prompting.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace flare::server {
namespace {

using ToolMode = frontend::ToolChoice::Mode;

// Names or notes for a header line: printable ASCII, bounded however many there are.
std::string header_list(const std::vector<std::string>& names) {
  constexpr size_t kMaxBytes = 512;
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > kMaxBytes) return text + ", ...";
    if (!text.empty()) text += ", ";
    for (const char c : name.substr(0, 80)) text += c >= ' ' && c < 0x7f && c != ',' ? c : '?';
  }
  return text;
}

// Whether a request asks that its calls be enforced, beyond their framing.
bool enforces_calls(const frontend::ToolChoice& choice, const frontend::ToolSet& tools) {
  return choice.mode != ToolMode::kAuto ||
         std::ranges::any_of(tools.tools(), &frontend::Tool::strict) || !choice.parallel ||
         !choice.names.empty();
}

}  // namespace

void read_cache_fields(const Fields& fields, GenerateSettings* settings) {
  settings->cache_salt = fields.text("cache_salt", kMaxCacheKeyBytes).value_or("");
  const auto key = fields.text("prompt_cache_key", kMaxCacheKeyBytes);
  settings->session = fields.text("session", kMaxCacheKeyBytes).value_or(key.value_or(""));
}

frontend::MarkedText render_conversation(const Service& service, const Conversation& conversation) {
  if (!service.has_template() || !service.has_tokenizer())
    throw ApiError{400,
                   "capability_unavailable",
                   fmt::format("model '{}' has no {}, so it cannot chat", service.model_name(),
                               service.has_template() ? "tokenizer" : "chat template"),
                   {}};
  try {
    return service.render(conversation);
  } catch (const Error& error) {
    throw ApiError{400, "template_error", error.message(), conversation.field};
  } catch (const frontend::MessageError& error) {
    const bool own = error.param.starts_with(conversation.field);
    throw ApiError{400, error.code, error.message, own ? error.param : conversation.field};
  }
}

std::vector<int32_t> encode_conversation(const Service& service, const Conversation& conversation,
                                         GenerateSettings* settings) {
  const frontend::MarkedText rendered = render_conversation(service, conversation);
  std::vector<int32_t> prompt = service.encode_prompt(rendered);
  settings->form = service.answer_form(conversation, rendered);
  check_prompt(service, prompt, conversation.field);
  settings->frontiers = service.prompt_frontiers(conversation, prompt, &settings->marked_tokens);
  return prompt;
}

void check_prompt(const Service& service, std::span<const int32_t> prompt, std::string_view param) {
  if (prompt.empty())
    throw ApiError{400, "empty_prompt", fmt::format("'{}' makes an empty prompt", param),
                   std::string(param)};
  if (prompt.size() + 1 > service.max_context())
    throw ApiError{400, "context_length_exceeded",
                   fmt::format("the prompt has {} tokens and needs room for an answer, but the "
                               "context holds {}",
                               prompt.size(), service.max_context()),
                   std::string(param)};
}

void constrain_answer(const Service& service, const AnswerRules& rules, std::string_view prefill,
                      GenerateSettings* settings, http::Headers* headers) {
  const bool has_calls = rules.tool_choice && settings->form && !settings->form->tools->empty();
  const bool asked_calls = has_calls && enforces_calls(*rules.tool_choice, *settings->form->tools);
  if (!has_calls && !rules.format.grammar) return;
  if (settings->ignore_stop_ids) {
    if (!asked_calls && !rules.format.grammar) return;
    throw ApiError{400, "conflicting_parameters",
                   "'ignore_eos' and a constraint on the answer exclude each other", "ignore_eos"};
  }
  const std::string param = rules.format.grammar ? rules.format.param : "tools";
  try {
    settings->grammar =
        service.answer_grammar(settings->form ? &*settings->form : nullptr,
                               has_calls ? &*rules.tool_choice : nullptr, rules.format.grammar);
  } catch (const frontend::grammar::ConstraintError& error) {
    std::string_view code = error.wire_code();
    // What no text matches shows only behind the field's own reading.
    if (rules.format.is_regex && code == frontend::grammar::kInvalidGrammar)
      code = frontend::grammar::kInvalidRegex;
    if (asked_calls || rules.format.grammar)
      throw ApiError{400, std::string(code), fmt::format("'{}': {}", param, error.message()),
                     code == frontend::kInvalidToolSchema ? "tools" : param};
    log_warn("tool calls are not constrained: {}", error.message());
    return;
  }
  if (!settings->grammar) {
    if (rules.format.grammar ||
        (asked_calls && rules.tool_choice->mode != ToolMode::kAuto && service.has_tool_format()))
      throw ApiError{400, "constraint_prefill_mismatch",
                     "the constraint cannot begin within the message that the prompt ends with",
                     rules.format.grammar ? param : "tool_choice"};
    return;
  }
  if (rules.format.grammar && !prefill.empty()) {
    if (!frontend::grammar::Matcher(settings->grammar).advance_text(prefill))
      throw ApiError{400, "constraint_prefill_mismatch",
                     fmt::format("the answer's given beginning is none that '{}' allows", param),
                     param};
    settings->grammar_prefill = prefill;
  }
  if (const auto& relaxed = settings->grammar->relaxed(); !relaxed.empty())
    headers->emplace_back("x-flare-relaxed", header_list(relaxed));
}

std::string_view final_text(const Conversation& conversation) {
  if (conversation.continuation != frontend::Continuation::kText) return {};
  const Json* content = conversation.messages.as_array().back().find("content");
  return content && content->is_string() ? std::string_view(content->as_string())
                                         : std::string_view();
}

http::Headers ignored_header(const ApiCall& call, const std::vector<std::string>& ignored) {
  if (ignored.empty()) return {};
  const std::string names = header_list(ignored);
  if (call.strict_fields)
    throw ApiError{400, "unknown_field", fmt::format("unknown field {}", names), ignored.front()};
  log_debug("ignored request fields: {}", names);
  return {{"x-flare-ignored", names}};
}

http::Headers answer_headers(const ApiCall& call, const std::vector<std::string>& ignored,
                             const GenerateSettings& settings) {
  http::Headers headers = ignored_header(call, ignored);
  headers.emplace_back("x-flare-seed",
                       fmt::format("{}", static_cast<int64_t>(settings.sampling.seed)));
  return headers;
}

}  // namespace flare::server
