// POST /v1/chat/completions: from a checked request to its answer, whole or streamed.
#pragma once

#include <memory>
#include <string>

#include "base/json/json.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace flare::server {

// Answers one request; returns when its choices are queued. Throws ApiError before that. `model` is
// the name to echo. With `strict`, unknown names are an error.
void chat_completions(Service& service, const Json& body, const std::string& model, bool strict,
                      std::shared_ptr<http::Exchange> exchange);

}  // namespace flare::server
