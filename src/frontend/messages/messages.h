// The messages of a request in the one shape that templates see (serving.md S4.1–S4.9).
#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"
#include "frontend/template/traits.h"

namespace flare::frontend {

// A conversation that no prompt can be made of, as the protocols name it; thrown as it is.
struct MessageError {
  std::string code;   // "invalid_type", "empty_prompt", … (S3)
  std::string param;  // "messages[3].content"
  std::string message;
};

// Every content becomes one string, tool arguments become objects, leading system messages one;
// later ones stay in place or become user turns, as the template needs it; results stand in call
// order; ids are hashed where the template restricts them. `messages` is the request's field.
// Throws MessageError: invalid_type, invalid_value, missing_field, invalid_messages, empty_prompt,
// unsupported_content_part, vision_unavailable, invalid_tool_history.
Json normalise_messages(const Json& messages, const ConversationRules& rules);

// How a prompt ends: with a new assistant turn, or inside the text or the reasoning of the last
// message (S4.8).
enum class Continuation : uint8_t { kNone, kText, kReasoning };

// Of normalised messages. Throws MessageError prefill_not_supported.
Continuation continuation_of(const Json& messages, const ConversationRules& rules);

// Nine letters and digits: `id` itself if it is that, else a stable hash of it (S4.7).
std::string short_call_id(std::string_view id);

// Takes the first block of a Messages request's system text away if it is a billing header, which
// changes with every request (S4.5).
bool drop_billing_header(Json::Array* blocks);

}  // namespace flare::frontend
