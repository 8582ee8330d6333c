// Normalisation message by message: contents, tool calls and results, places of system texts.
#include "frontend/messages/messages.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/hash/sha256.h"

namespace flare::frontend {
namespace {

// "an array", "null": what a value is, in a sentence.
std::string a_kind(const Json& value) {
  if (value.is_null()) return "null";
  const std::string_view kind = value.kind_name();
  const bool vowel = std::string_view("aeiou").find(kind[0]) != std::string_view::npos;
  return fmt::format("{} {}", vowel ? "an" : "a", kind);
}

constexpr size_t kMaxMessages = 4096;
constexpr int kMaxArgumentDepth = 256;
constexpr std::string_view kOmittedImage = "[image omitted: no vision]";
constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

[[noreturn]] void fail(std::string code, const std::string& param, const std::string& message) {
  throw MessageError{std::move(code), param, fmt::format("'{}' {}", param, message)};
}

std::string index_path(size_t i) { return fmt::format("messages[{}]", i); }

bool is_image(std::string_view type) {
  return type == "image_url" || type == "input_image" || type == "image";
}

// Text of one content part of a message of `role`.
std::string text_of_part(const Json& part, const std::string& path, bool is_tool) {
  if (part.is_string()) return part.as_string();
  if (!part.is_object())
    fail("invalid_type", path, fmt::format("is {}, object expected", a_kind(part)));
  const Json* type = part.find("type");
  if (!type || type->is_null()) fail("missing_field", path + ".type", "is missing");
  if (!type->is_string())
    fail("invalid_type", path + ".type", fmt::format("is {}, string expected", a_kind(*type)));
  const std::string& name = type->as_string();
  if (is_image(name)) {
    if (is_tool) return std::string(kOmittedImage);
    fail("vision_unavailable", path, "is an image, but this model reads text only");
  }
  const bool is_refusal = name == "refusal";
  if (!is_refusal && name != "text")
    fail("unsupported_content_part", path,
         fmt::format("is of type {}, text expected", quote(name)));
  const std::string_view member = is_refusal ? "refusal" : "text";
  const Json* text = part.find(member);
  if (!text) fail("missing_field", fmt::format("{}.{}", path, member), "is missing");
  if (!text->is_string())
    fail("invalid_type", fmt::format("{}.{}", path, member),
         fmt::format("is {}, string expected", a_kind(*text)));
  return text->as_string();
}

// null, absent and [] are "".
std::string text_of_content(const Json* content, const std::string& path, bool is_tool) {
  if (!content || content->is_null()) return {};
  if (content->is_string()) return content->as_string();
  if (!content->is_array())
    fail("invalid_type", path,
         fmt::format("is {}, string or array of parts expected", a_kind(*content)));
  std::string text;
  const Json::Array& parts = content->as_array();
  for (size_t i = 0; i < parts.size(); ++i)
    text += text_of_part(parts[i], fmt::format("{}[{}]", path, i), is_tool);
  return text;
}

// Replayed arguments: an object, or one written into a string.
Json decoded_arguments(const Json* arguments, const std::string& path) {
  if (!arguments || arguments->is_null()) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string())
    fail("invalid_tool_history", path,
         fmt::format("is {}, a JSON object in a string expected", a_kind(*arguments)));
  if (arguments->as_string().empty()) return Json::object();
  Json decoded;
  try {
    decoded = parse_json(arguments->as_string(), path, {.max_depth = kMaxArgumentDepth});
  } catch (const Error& error) {
    throw MessageError{"invalid_tool_history", path, error.message()};
  }
  if (decoded.is_null()) return Json::object();
  if (!decoded.is_object())
    fail("invalid_tool_history", path,
         fmt::format("holds {}, a JSON object expected", a_kind(decoded)));
  return decoded;
}

Json normalised_call(const Json& call, const std::string& path) {
  const Json* function = call.find("function");
  const Json* name = function ? function->find("name") : nullptr;
  if (!name || !name->is_string() || name->as_string().empty())
    fail("invalid_tool_history", path, "has no function name");
  Json out = Json::object();
  if (const Json* id = call.find("id"); id && id->is_string()) out.set("id", *id);
  out.set("type", "function");
  out.set("function",
          Json::object({{"name", *name},
                        {"arguments", decoded_arguments(function->find("arguments"),
                                                        path + ".function.arguments")}}));
  return out;
}

void copy_text(const Json& message, std::string_view name, std::string_view as,
               const std::string& path, Json* out) {
  const Json* value = message.find(name);
  if (!value || value->is_null()) return;
  if (!value->is_string())
    fail("invalid_type", fmt::format("{}.{}", path, name),
         fmt::format("is {}, string expected", a_kind(*value)));
  out->set(as, *value);
}

void normalise_assistant(const Json& message, const std::string& path, Json* out) {
  // Two names are in use for the same thing.
  copy_text(message, "reasoning", "reasoning_content", path, out);
  copy_text(message, "reasoning_content", "reasoning_content", path, out);
  const Json* calls = message.find("tool_calls");
  if (!calls || calls->is_null()) return;
  if (!calls->is_array())
    fail("invalid_type", path + ".tool_calls",
         fmt::format("is {}, array expected", a_kind(*calls)));
  Json list = Json::array();
  for (size_t i = 0; i < calls->as_array().size(); ++i)
    list.push_back(
        normalised_call(calls->as_array()[i], fmt::format("{}.tool_calls[{}]", path, i)));
  if (!list.as_array().empty()) out->set("tool_calls", std::move(list));
}

Json normalised_message(const Json& message, size_t index) {
  const std::string path = index_path(index);
  if (!message.is_object())
    fail("invalid_type", path, fmt::format("is {}, object expected", a_kind(message)));
  const Json* role = message.find("role");
  if (!role || role->is_null()) fail("missing_field", path + ".role", "is missing");
  if (!role->is_string())
    fail("invalid_type", path + ".role", fmt::format("is {}, string expected", a_kind(*role)));
  const std::string& name = role->as_string();
  if (std::ranges::find(kRoles, name) == kRoles.end())
    fail("invalid_messages", path + ".role",
         fmt::format("is {}, system, developer, user, assistant or tool expected", quote(name)));
  Json out = Json::object({{"role", name == "developer" ? "system" : name}});
  out.set("content", text_of_content(message.find("content"), path + ".content", name == "tool"));
  copy_text(message, "name", "name", path, &out);
  if (name == "assistant") normalise_assistant(message, path, &out);
  if (name == "tool") copy_text(message, "tool_call_id", "tool_call_id", path, &out);
  return out;
}

std::string_view role_of(const Json& message) { return message.at("role").as_string(); }
const std::string& content_of(const Json& message) { return message.at("content").as_string(); }

bool says_nothing(const Json& message) {
  return content_of(message).empty() && !message.find("tool_calls") &&
         (!message.find("reasoning_content") ||
          message.at("reasoning_content").as_string().empty());
}

// Results in the order of the calls they answer; unknown ids keep their place at the end.
void order_results(Json::Array* messages) {
  for (size_t begin = 0; begin < messages->size(); ++begin) {
    const Json* calls = (*messages)[begin].find("tool_calls");
    if (!calls) continue;
    const Json::Array& list = calls->as_array();
    std::unordered_map<std::string_view, size_t> places;  // the first call of an id
    for (size_t i = 0; i < list.size(); ++i)
      if (const Json* id = list[i].find("id"); id && id->is_string())
        places.emplace(id->as_string(), i);
    const auto rank = [&](const Json& result) {
      const Json* wanted = result.find("tool_call_id");
      const auto place =
          wanted && wanted->is_string() ? places.find(wanted->as_string()) : places.end();
      return place == places.end() ? list.size() : place->second;
    };
    const auto first = messages->begin() + static_cast<std::ptrdiff_t>(begin) + 1;
    const auto last =
        std::find_if(first, messages->end(), [](const Json& m) { return role_of(m) != "tool"; });
    std::stable_sort(first, last, [&](const Json& a, const Json& b) { return rank(a) < rank(b); });
  }
}

// Calls and results keep belonging together: equal ids have equal hashes.
void shorten_call_ids(Json::Array* messages) {
  const auto shorten = [](Json* holder, std::string_view name) {
    if (const Json* id = holder->find(name); id && id->is_string())
      holder->set(name, short_call_id(id->as_string()));
  };
  for (Json& message : *messages) {
    shorten(&message, "tool_call_id");
    const Json* calls = message.find("tool_calls");
    if (!calls) continue;
    Json list = *calls;
    for (Json& call : list.mutable_array()) shorten(&call, "id");
    message.set("tool_calls", std::move(list));
  }
}

// In place: a thousand of them must not copy what was there a thousand times.
void append_paragraph(std::string_view text, Json* message) {
  for (auto& [name, value] : message->mutable_object()) {
    if (name != "content") continue;
    value.mutable_string() += "\n\n";
    value.mutable_string() += text;
    return;
  }
}

// Merges the leading system messages and finds a place for later ones (S4.1, S4.2).
Json::Array place_system(Json::Array messages, const ConversationRules& rules) {
  Json::Array out;
  bool leading = true;
  std::string pending;  // text of a made turn that joins the next user turn
  for (Json& message : messages) {
    const std::string_view role = role_of(message);
    if (role == "system" && leading && !out.empty()) {
      append_paragraph(content_of(message), &out.back());
      continue;
    }
    if (role != "system") leading = false;
    if (role == "system" && !leading && !rules.late_system) {
      const std::string made = "[system]\n" + content_of(message);
      if (!rules.adjacent_users && role_of(out.back()) == "user") {
        append_paragraph(made, &out.back());
      } else if (!rules.adjacent_users) {
        pending += (pending.empty() ? "" : "\n\n") + made;
      } else {
        out.push_back(Json::object({{"role", "user"}, {"content", made}}));
      }
      continue;
    }
    if (!pending.empty()) {
      if (role == "user") {
        message.set("content", pending + "\n\n" + content_of(message));
      } else {
        out.push_back(Json::object({{"role", "user"}, {"content", pending}}));
      }
      pending.clear();
    }
    out.push_back(std::move(message));
  }
  if (!pending.empty()) out.push_back(Json::object({{"role", "user"}, {"content", pending}}));
  return out;
}

}  // namespace

Json normalise_messages(const Json& messages, const ConversationRules& rules) {
  if (!messages.is_array())
    fail("invalid_type", "messages", fmt::format("is {}, array expected", a_kind(messages)));
  const Json::Array& given = messages.as_array();
  if (given.empty()) fail("empty_prompt", "messages", "is empty, 1..4096 messages expected");
  if (given.size() > kMaxMessages)
    fail("invalid_value", "messages",
         fmt::format("is an array of {}, 1..{} messages expected", given.size(), kMaxMessages));
  Json::Array out;
  for (size_t i = 0; i < given.size(); ++i) out.push_back(normalised_message(given[i], i));
  if (role_of(out.back()) == "assistant" && says_nothing(out.back())) out.pop_back();
  if (out.empty()) fail("empty_prompt", "messages", "says nothing");
  order_results(&out);
  if (rules.short_call_ids) shorten_call_ids(&out);
  return Json(place_system(std::move(out), rules));
}

std::string short_call_id(std::string_view id) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr size_t kLength = 9;
  const bool fits =
      id.size() == kLength && id.find_first_not_of(kAlphabet) == std::string_view::npos;
  if (fits) return std::string(id);
  const std::string digest = sha256_hex(as_bytes(id));
  uint64_t value = std::stoull(digest.substr(0, 15), nullptr, 16);
  std::string out;
  for (size_t i = 0; i < kLength; ++i) {
    out += kAlphabet[value % kAlphabet.size()];
    value /= kAlphabet.size();
  }
  return out;
}

Continuation continuation_of(const Json& messages, const ConversationRules& rules) {
  const Json::Array& list = messages.as_array();
  if (list.empty() || role_of(list.back()) != "assistant") return Continuation::kNone;
  const std::string path = index_path(list.size() - 1);
  const auto refuse = [&](const char* why) { fail("prefill_not_supported", path, why); };
  if (list.back().find("tool_calls")) refuse("has tool calls, so it cannot be continued");
  if (!rules.continues) refuse("cannot be continued: the chat template does not render it");
  return content_of(list.back()).empty() ? Continuation::kReasoning : Continuation::kText;
}

bool drop_billing_header(Json::Array* blocks) {
  constexpr std::string_view kBeginning = "x-anthropic-billing-header:";
  if (blocks->empty()) return false;
  const Json* text = blocks->front().find("text");
  if (!text || !text->is_string() || !text->as_string().starts_with(kBeginning)) return false;
  blocks->erase(blocks->begin());
  return true;
}

}  // namespace flare::frontend
