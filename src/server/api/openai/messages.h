// The messages of a chat request in the one shape that templates see (serving.md S4.1–S4.6).
#pragma once

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// Every content becomes one string, tool arguments become objects, leading system messages one;
// later ones stay in place or become user turns, as the template needs it. `messages` is the
// field's value. Throws ApiError: invalid_type, invalid_value, invalid_messages, empty_prompt,
// unsupported_content_part, vision_unavailable, invalid_tool_history; `param` names the message.
Json normalise_messages(const Json& messages, const TemplateTraits& traits);

}  // namespace flare::server
