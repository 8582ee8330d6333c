// The items of the Responses API: a history of them as chat messages, and reasoning in an opaque
// string.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "server/api/errors.h"
#include "server/api/openai/messages.h"

namespace flare::server {

// Where items are looked up that a request names by id; nullopt: unknown.
using ItemLookup = std::function<std::optional<Json>(const std::string& id)>;

// Items of a history.
struct ItemList {
  Json::Array items;
  std::vector<std::string> paths;  // of each, in the request
};

// `input` of a request as items: a string is a message of the user, references are replaced by what
// they name, items without an id get one. Items of hosted tools are left out and logged. Throws
// ApiError: invalid_type, invalid_value, missing_field.
ItemList read_items(const Json& input, const ItemLookup& lookup);

// Chat messages (not yet normalised), and the items of each.
struct ItemMessages {
  Json::Array messages;
  std::vector<MessageOrigin> origins;
};

// Those of a whole history. What one answer said (reasoning, text, calls) becomes one message.
// Throws ApiError as above, and unsupported_content_part.
ItemMessages chat_messages(const ItemList& history);

// A string that only this server reads; nullopt for one from elsewhere.
std::string seal_reasoning(std::string_view text);
std::optional<std::string> unseal_reasoning(std::string_view sealed);

}  // namespace flare::server
