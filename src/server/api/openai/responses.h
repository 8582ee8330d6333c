// The Responses API: from a checked request to its answer, and what is kept of it.
#pragma once

#include <string>

#include "server/api/call.h"
#include "server/api/openai/response_store.h"

namespace flare::server {

// Answers one request; returns when its answer is queued. The store outlives the answer. Throws
// ApiError before that.
void create_response(const ApiCall& call, ResponseStore& store);

// Answers with the number of tokens that the same request would have as its prompt.
void count_response_tokens(const ApiCall& call, ResponseStore& store);

// A stored response of the request's key; its input items by page; its end. Throw ApiError
// response_not_found, and invalid_value for a query.
Json stored_response(ResponseStore& store, const http::Request& request, const std::string& id);
Json stored_input_items(ResponseStore& store, const http::Request& request, const std::string& id);
Json delete_response(ResponseStore& store, const http::Request& request, const std::string& id);

}  // namespace flare::server
