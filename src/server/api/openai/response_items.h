// The items of the Responses API: a history of them as chat messages, and reasoning in an opaque
// string.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "server/api/errors.h"

namespace flare::server {

// Where items are looked up that a request names by id; nullopt: unknown.
using ItemLookup = std::function<std::optional<Json>(const std::string& id)>;

// `input` of a request as items: a string is a message of the user, references are replaced by what
// they name, items without an id get one. Items of hosted tools are left out and logged. Throws
// ApiError: invalid_type, invalid_value, missing_field.
Json::Array read_items(const Json& input, const ItemLookup& lookup);

// Chat messages (not yet normalised) of a whole history. What one answer said (reasoning, text,
// calls) becomes one message. Throws ApiError as above, and unsupported_content_part.
Json::Array chat_messages(const Json::Array& items);

// A string that only this server reads; nullopt for one from elsewhere.
std::string seal_reasoning(std::string_view text);
std::optional<std::string> unseal_reasoning(std::string_view sealed);

}  // namespace flare::server
