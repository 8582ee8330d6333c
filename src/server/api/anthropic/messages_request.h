// POST /v1/messages: the request, read and checked (serving.md S1).
#pragma once

#include <string>
#include <vector>

#include "server/api/prompting.h"
#include "server/service/service.h"

namespace flare::server {

struct MessagesRequest {
  Conversation conversation;
  GenerateSettings settings;
  AnswerRules rules;
  bool stream = false;
  bool omit_thinking = false;        // its blocks come without their text
  std::vector<std::string> ignored;  // top-level names that nothing here knows
};

// Throws ApiError. The body's `model` is not looked at. `counts_only`: `max_tokens` may be missing.
MessagesRequest read_messages_request(const Json& body, const Service& service, bool counts_only);

}  // namespace flare::server
