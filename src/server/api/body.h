// The JSON body of a request.
#pragma once

#include "base/json/json.h"
#include "server/http/http.h"

namespace flare::server {

// The body as one JSON object. Throws ApiError: unsupported_media_type (415: not application/json,
// or compressed), invalid_encoding, invalid_json (duplicate names and depth included), invalid_type
// (no object).
Json read_json_body(const http::Request& request);

}  // namespace flare::server
