// Errors about a message, said of what the message was made of.
#include "server/api/openai/messages.h"

#include <charconv>

#include "frontend/messages/messages.h"
#include "server/api/errors.h"

namespace flare::server {
namespace {

constexpr std::string_view kMessages = "messages[", kParts = ".content[", kCalls = ".tool_calls[";

// Takes `opening`, a number and "]" off the front of `path`; nullopt: it begins otherwise.
std::optional<size_t> take_index(std::string_view opening, std::string_view* path) {
  if (!path->starts_with(opening)) return std::nullopt;
  const std::string_view digits = path->substr(opening.size());
  size_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end == digits.data() + digits.size() || *end != ']')
    return std::nullopt;
  path->remove_prefix(opening.size() + static_cast<size_t>(end - digits.data()) + 1);
  return index;
}

std::string origin_of(std::string_view path, std::span<const MessageOrigin> origins) {
  const auto message = take_index(kMessages, &path);
  if (!message || *message >= origins.size()) return std::string(path);
  const MessageOrigin& origin = origins[*message];
  std::string_view rest = path;
  if (const auto call = take_index(kCalls, &rest); call && *call < origin.arguments.size())
    return origin.arguments[*call];
  if (const auto part = take_index(kParts, &rest); part && *part < origin.parts.size())
    return origin.parts[*part] + std::string(rest);
  return origin.path + std::string(path);
}

ApiError api_error(const frontend::MessageError& error, std::span<const MessageOrigin> origins) {
  ApiError out{400, error.code, error.message, error.param};
  if (origins.empty()) return out;
  out.param = origin_of(error.param, origins);
  const size_t at = out.message.find(error.param);
  if (at != std::string::npos) out.message.replace(at, error.param.size(), out.param);
  return out;
}

}  // namespace

Json normalise_messages(const Json& messages, const TemplateTraits& traits,
                        std::span<const MessageOrigin> origins) {
  try {
    return frontend::normalise_messages(messages, traits);
  } catch (const frontend::MessageError& error) {
    throw api_error(error, origins);
  }
}

frontend::Continuation continuation_of(const Json& messages, const TemplateTraits& traits,
                                       std::span<const MessageOrigin> origins) {
  try {
    return frontend::continuation_of(messages, traits);
  } catch (const frontend::MessageError& error) {
    // It is about the last message, whatever its number has become.
    if (origins.empty()) throw api_error(error, origins);
    std::vector<MessageOrigin> last(messages.as_array().size(), origins.back());
    throw api_error(error, last);
  }
}

}  // namespace flare::server
