// The checks between the bytes of a body and its JSON object, each with an error code of its own.
#include "server/api/body.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "frontend/tokenizer/unicode.h"
#include "server/api/errors.h"

namespace flare::server {
namespace {

constexpr int kMaxDepth = 256;

std::string lower_media_type(std::string_view header) {
  std::string type(header.substr(0, header.find(';')));
  std::erase_if(type, [](unsigned char c) { return std::isspace(c) != 0; });
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type;
}

}  // namespace

Json read_json_body(const http::Request& request) {
  const std::string_view declared = request.header("content-type");
  if (lower_media_type(declared) != "application/json")
    throw ApiError{415,
                   "unsupported_media_type",
                   fmt::format("Content-Type is {}, application/json expected",
                               declared.empty() ? "missing" : quote(declared)),
                   {}};
  const std::string coding = lower_media_type(request.header("content-encoding"));
  if (!coding.empty() && coding != "identity")
    throw ApiError{
        415,
        "unsupported_media_type",
        fmt::format("Content-Encoding is {}, an uncompressed body expected", quote(coding)),
        {}};
  const size_t valid = frontend::tokenizer::valid_utf8_prefix(request.body);
  if (valid != request.body.size())
    throw ApiError{
        400, "invalid_encoding", fmt::format("body: byte {} is not valid UTF-8", valid), {}};
  Json body;
  try {
    body = parse_json(request.body, "body", {.max_depth = kMaxDepth});
  } catch (const Error& error) {
    throw ApiError{400, "invalid_json", error.message(), {}};
  }
  if (!body.is_object())
    throw ApiError{
        400, "invalid_type", fmt::format("body: is {}, an object expected", a_kind(body)), {}};
  return body;
}

}  // namespace flare::server
