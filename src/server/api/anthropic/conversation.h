// The conversation and the tools of a Messages request in the shape of chat (serving.md S1, S4).
#pragma once

#include <cstddef>
#include <vector>

#include "base/json/json.h"
#include "server/api/fields.h"

namespace flare::server {

struct MessagesConversation {
  Json messages = Json::array();  // as chat sends them, not yet normalised
  Json tools;                     // the same; null: none are declared
  // Numbers of leading messages behind which a cache_control stands, one for each; at most 4.
  std::vector<size_t> marks;
};

// `system`, `messages`, `tools` and every cache_control. What only hosted services understand is
// left out and logged. Throws ApiError: missing_field, invalid_type, invalid_value,
// invalid_messages, empty_prompt, unsupported_content_part.
MessagesConversation read_messages_conversation(const Fields& fields);

}  // namespace flare::server
