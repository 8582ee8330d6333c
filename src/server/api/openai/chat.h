// POST /v1/chat/completions: from a checked request to its answer, whole or streamed.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// Answers one request; returns when its choices are queued. Throws ApiError before that.
void chat_completions(const ApiCall& call);

}  // namespace flare::server
