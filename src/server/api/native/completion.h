// POST /completion, in llama.cpp's shapes.
#pragma once

#include "server/api/call.h"

namespace flare::server {

// Answers one request; returns when it is queued. Throws ApiError before that.
void native_completion(const ApiCall& call);

}  // namespace flare::server
