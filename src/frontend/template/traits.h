// What a chat template does with conversations, found by reading its source and by probe renders.
//
// Asked once, by preparation, which records the answer (package/prepared.h); nobody guesses later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/template/template.h"

namespace flare::frontend {

// What the generation prompt says about reasoning when a request says nothing.
enum class ReasoningPrompt : uint8_t {
  kSilent,  // the model decides, or opens the block itself
  kOpens,   // ends inside an open block
  kCloses,  // ends behind a closed one: no reasoning
};

struct ReasoningTraits {
  // Text around a block as this template writes it, white space included; empty for formats whose
  // blocks are whole messages. `close` is what a reasoning budget appends.
  std::string open, close;
  ReasoningPrompt prompt = ReasoningPrompt::kSilent;
  std::string switch_name;  // template variable that turns reasoning on and off; empty: none
  Json on, off;             // its values
  bool default_on = true;   // without it
  std::string effort_name;  // template variable for the effort; empty: none
  std::vector<std::string> levels;  // its values, ascending
};

// Which conversations a template takes (serving.md S4.2, S4.7, S4.8).
struct ConversationRules {
  bool late_system = true;      // renders a system message behind the first turn
  bool adjacent_users = true;   // takes two user turns in a row
  bool continues = true;        // renders the text of a last assistant message (prefill)
  bool short_call_ids = false;  // takes call ids of nine letters and digits only
};

struct TemplateTraits {
  std::string tool_format;       // a name of frontend/output; empty: none
  std::string reasoning_format;  // the same: "think", "think_gemma", …
  ReasoningTraits reasoning;     // neutral without a format
  ConversationRules rules;
};

struct TemplateSource {
  std::string_view source;
  const Template* parsed = nullptr;
};

// `with_tools` is the template used when tools are given; its `parsed` is null if that is `chat`.
// Never fails: what cannot be rendered is answered from the source, or with "no".
TemplateTraits detect_traits(const TemplateSource& chat, const TemplateSource& with_tools,
                             std::string_view bos_token, std::string_view eos_token);

}  // namespace flare::frontend
