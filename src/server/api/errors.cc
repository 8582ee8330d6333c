// Error bodies of the two protocol families, chosen by path.
#include "server/api/errors.h"

#include <utility>

namespace flare::server {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 408:
    case 504:
      return "timeout_error";
    case 429:
    case 503:
      return "overloaded_error";
    case 500:
      return "api_error";
    default:
      return type_of(status);
  }
}

}  // namespace

std::string a_kind(const Json& value) {
  if (value.is_null()) return "null";
  const std::string_view name = value.kind_name();
  const bool vowel = std::string_view("aeio").find(name.front()) != std::string_view::npos;
  return (vowel ? "an " : "a ") + std::string(name);
}

Json openai_error(const ApiError& error) {
  return Json::object(
      {{"error", Json::object({{"message", error.message},
                               {"type", type_of(error.status)},
                               {"param", error.param.empty() ? Json() : Json(error.param)},
                               {"code", error.code}})}});
}

Json anthropic_error(const ApiError& error, std::string_view request_id) {
  return Json::object({{"type", "error"},
                       {"error", Json::object({{"type", anthropic_type(error.status)},
                                               {"message", error.message},
                                               {"code", error.code}})},
                       {"request_id", request_id}});
}

bool is_messages_path(std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  return path.starts_with(kMessages) &&
         (path.size() == kMessages.size() || path[kMessages.size()] == '/');
}

int anthropic_status(int status) { return status == 429 || status == 503 ? 529 : status; }

http::Answer error_answer(std::string_view path, std::string_view request_id,
                          const ApiError& error) {
  http::Answer answer{.status = error.status, .content_type = "application/json"};
  ApiError shown = error;
  if (error.status == 429 || error.status == 503) answer.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 405) answer.headers.emplace_back("Allow", std::exchange(shown.param, {}));
  if (is_messages_path(path)) {
    answer.status = anthropic_status(error.status);
    answer.body = anthropic_error(shown, request_id).to_text();
  } else {
    answer.body = openai_error(shown).to_text();
  }
  return answer;
}

bool respond_error(http::Exchange& exchange, std::string_view path, const ApiError& error) {
  http::Answer answer = error_answer(path, exchange.request_id(), error);
  return exchange.respond(answer.status, answer.content_type, std::move(answer.body),
                          std::move(answer.headers));
}

bool respond_error(http::Exchange& exchange, const ApiError& error) {
  return respond_error(exchange, exchange.request_path(), error);
}

}  // namespace flare::server
