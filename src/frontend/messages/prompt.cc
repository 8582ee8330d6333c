// Template variables, and cutting a rendering where the model is to go on.
#include "frontend/messages/prompt.h"

#include "base/error.h"

namespace flare::frontend {
namespace {

// Stands behind the text that is to be continued, so that the place is known however the template
// trims and splits. Private-use characters: no template looks for them.
constexpr std::string_view kHere = "\uE0F1\uE0F2flare-goes-on-here\uE0F3";

Json with_mark(Json messages, Continuation continuation) {
  Json& last = messages.mutable_array().back();
  const char* name = continuation == Continuation::kText ? "content" : "reasoning_content";
  const Json* text = last.find(name);
  last.set(name, (text ? text->as_string() : "") + std::string(kHere));
  return messages;
}

}  // namespace

MarkedText render_prompt(const PromptTemplates& templates, const PromptRequest& request) {
  Json variables = Json::object();
  if (request.template_kwargs.is_object())
    for (const auto& [name, value] : request.template_kwargs.as_object())
      variables.set(name, value);
  const bool continues = request.continuation != Continuation::kNone;
  variables.set("messages",
                continues ? with_mark(request.messages, request.continuation) : request.messages);
  const bool with_tools = request.tools.is_array() && !request.tools.as_array().empty();
  if (with_tools) variables.set("tools", request.tools);
  variables.set("add_generation_prompt", request.add_generation_prompt && !continues);
  variables.set("bos_token", templates.bos_token);
  variables.set("eos_token", templates.eos_token);
  const Template& chosen =
      with_tools && templates.with_tools ? *templates.with_tools : *templates.chat;
  MarkedText text = chosen.render(variables, {"bos_token", "eos_token"}, request.now_unix);
  if (!continues) return text;
  const size_t at = text.text().rfind(kHere);
  if (at == std::string::npos) {
    const std::string path = fmt::format("messages[{}]", request.messages.as_array().size() - 1);
    throw MessageError{
        "prefill_not_supported", path,
        fmt::format("'{}' cannot be continued: the chat template does not print it", path)};
  }
  return text.slice(0, at);
}

}  // namespace flare::frontend
