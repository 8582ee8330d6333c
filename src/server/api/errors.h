// Request errors as the protocols name them (serving.md S3).
#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"
#include "server/http/http.h"

namespace flare::server {

// Ends one request with an HTTP status and a code. `param` is the field, or empty;
// with 405 it lists the allowed methods for the header.
struct ApiError {
  int status = 400;
  std::string code;
  std::string message;
  std::string param;
};

// What a value is, in a sentence: "an array", "null".
std::string a_kind(const Json& value);

// {"error":{"message","type","param","code"}}.
Json openai_error(const ApiError& error);
// {"type":"error","error":{"type","message","code"},"request_id"}.
Json anthropic_error(const ApiError& error, std::string_view request_id);
// Whether errors of this path have the second form.
bool is_messages_path(std::string_view path);
// 429 and 503 are 529 there.
int anthropic_status(int status);

// The error as the protocol of `path` writes it, with the headers that belong to its status.
http::Answer error_answer(std::string_view path, std::string_view request_id,
                          const ApiError& error);
// False if the exchange has begun a stream or is over; then nothing is sent.
bool respond_error(http::Exchange& exchange, std::string_view path, const ApiError& error);
bool respond_error(http::Exchange& exchange, const ApiError& error);  // by the request's own path

}  // namespace flare::server
