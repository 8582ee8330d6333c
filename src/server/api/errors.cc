// OpenAI error bodies.
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

bool respond_error(http::Exchange& exchange, const ApiError& error) {
  http::Headers headers;
  if (error.status == 429 || error.status == 503) headers.emplace_back("Retry-After", "1");
  ApiError shown = error;
  if (error.status == 405) headers.emplace_back("Allow", std::exchange(shown.param, {}));
  return exchange.respond(error.status, "application/json", openai_error(shown).to_text(),
                          std::move(headers));
}

}  // namespace flare::server
