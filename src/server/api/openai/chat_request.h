// POST /v1/chat/completions: the request, read and checked (serving.md S1).
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/api/prompting.h"
#include "server/service/service.h"

namespace flare::server {

struct ChatRequest {
  Conversation conversation;
  GenerateSettings settings;
  AnswerRules rules;
  int n = 1;
  bool stream = false;
  bool include_usage = false;
  bool include_reasoning = true;
  bool timings = false;              // with the end
  bool timings_per_token = false;    // with every chunk of a stream
  std::vector<std::string> ignored;  // top-level names that nothing here knows
};

// Throws ApiError. The body's `model` is not looked at.
ChatRequest read_chat_request(const Json& body, const Service& service);

}  // namespace flare::server
