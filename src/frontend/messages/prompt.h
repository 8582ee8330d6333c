// From normalised messages to a rendered prompt (serving.md S4.8, S4.12).
#pragma once

#include <string>

#include "base/json/json.h"
#include "frontend/marked_text.h"
#include "frontend/messages/messages.h"
#include "frontend/template/template.h"

namespace flare::frontend {

// The templates of a model and what they may name.
struct PromptTemplates {
  const Template* chat = nullptr;
  const Template* with_tools = nullptr;  // null: chat
  std::string bos_token, eos_token;
};

struct PromptRequest {
  Json messages;         // normalised
  Json tools;            // array, or null: none
  Json template_kwargs;  // object or null: further variables
  bool add_generation_prompt = true;
  Continuation continuation = Continuation::kNone;  // instead of a generation prompt
  int64_t now_unix = 0;                             // what strftime_now sees
};

// Errors: kInvalid (the template's, with line and cause); MessageError prefill_not_supported if the
// template does not print what is to be continued.
MarkedText render_prompt(const PromptTemplates& templates, const PromptRequest& request);

}  // namespace flare::frontend
