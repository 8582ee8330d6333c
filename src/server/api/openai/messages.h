// The messages of a request in the one shape that templates see, with errors of the API.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// What of a request a message was made of, where the request has no such messages itself. Errors
// name it.
struct MessageOrigin {
  std::string path;                    // "input[2]"
  std::vector<std::string> parts;      // of its content, one by one; empty: as in the message
  std::vector<std::string> arguments;  // of its calls, one by one
};

// frontend::normalise_messages; its errors become ApiError with status 400. `origins`: of each
// message; empty: the messages are the request's own.
Json normalise_messages(const Json& messages, const TemplateTraits& traits,
                        std::span<const MessageOrigin> origins = {});

// How the prompt of normalised messages ends, with errors of the API.
frontend::Continuation continuation_of(const Json& messages, const TemplateTraits& traits,
                                       std::span<const MessageOrigin> origins = {});

}  // namespace flare::server
