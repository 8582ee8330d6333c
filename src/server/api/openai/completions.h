// POST /v1/completions: raw prompts and what follows them.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// Answers one request; returns when its choices are queued. Throws ApiError before that.
void completions(const ApiCall& call);

}  // namespace flare::server
