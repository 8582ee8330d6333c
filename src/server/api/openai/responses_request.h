// POST /v1/responses: the request, read and checked (serving.md S1).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/api/openai/response_store.h"
#include "server/api/prompting.h"
#include "server/service/service.h"

namespace flare::server {

struct ResponsesRequest {
  Conversation conversation;
  GenerateSettings settings;
  AnswerRules rules;
  bool stream = false;
  bool store = true;
  bool summarises = false;             // reasoning comes as a summary
  bool seals_reasoning = false;        // and also as an opaque string
  std::set<std::string> custom_tools;  // names whose calls have one text as input
  Json::Array items;                   // the whole history
  Json echo;                           // members of the answer that repeat the request
  std::vector<std::string> ignored;    // top-level names that nothing here knows
};

// Throws ApiError. The body's `model` is not looked at. `owner`: whose stored responses may be
// named.
ResponsesRequest read_responses_request(const Json& body, const Service& service,
                                        ResponseStore& store, const std::string& owner);

}  // namespace flare::server
