// POST /v1/messages and /v1/messages/count_tokens: from a checked request to its answer.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// Answers one request; returns when its answer is queued. Throws ApiError before that.
void create_message(const ApiCall& call);

// Answers with the number of tokens that the same request would have as its prompt.
void count_message_tokens(const ApiCall& call);

}  // namespace flare::server
