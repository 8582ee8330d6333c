// The messages of a chat request in the one shape that templates see, with errors of the API.
#pragma once

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// frontend::normalise_messages; its errors become ApiError with status 400.
Json normalise_messages(const Json& messages, const TemplateTraits& traits);

}  // namespace flare::server
