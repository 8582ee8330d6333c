// The conversation and the tools of a Messages request in the shape of chat (serving.md S1, S4).
#pragma once

#include <cstddef>
#include <vector>

#include "base/json/json.h"
#include "server/api/fields.h"
#include "server/api/openai/messages.h"

namespace flare::server {

struct MessagesConversation {
  Json messages = Json::array();       // as chat sends them, not yet normalised
  Json tools;                          // the same; null: none are declared
  std::vector<MessageOrigin> origins;  // of each message
  // Where a cache_control stands, each behind its block; at most 4.
  std::vector<Conversation::Mark> marks;
};

// `system`, `messages`, `tools` and every cache_control. What only hosted services understand is
// left out and logged. Throws ApiError: missing_field, invalid_type, invalid_value,
// invalid_messages, empty_prompt, unsupported_content_part.
MessagesConversation read_messages_conversation(const Fields& fields);

}  // namespace flare::server
