// Normalisation with the errors of the API.
#include "server/api/openai/messages.h"

#include "frontend/messages/messages.h"
#include "server/api/errors.h"

namespace flare::server {

Json normalise_messages(const Json& messages, const TemplateTraits& traits) {
  try {
    return frontend::normalise_messages(messages, traits);
  } catch (const frontend::MessageError& error) {
    throw ApiError{400, error.code, error.message, error.param};
  }
}

}  // namespace flare::server
