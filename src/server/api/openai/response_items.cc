// Item by item; the kinds that only hosted services understand are dropped.
#include "server/api/openai/response_items.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/hash/sha256.h"
#include "base/log.h"
#include "frontend/media/media.h"
#include "server/api/fields.h"
#include "server/api/generation.h"

namespace flare::server {
namespace {

constexpr size_t kMaxType = 256;
constexpr size_t kMaxItems = 4096;
constexpr std::string_view kSeal = "flare1.";  // in front of what is in base64
constexpr size_t kSealDigest = 16;

[[noreturn]] void fail(std::string code, const std::string& param, const std::string& message) {
  throw ApiError{400, std::move(code), fmt::format("'{}' {}", param, message), param};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve(bytes.size() / 3 * 4 + 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string digest_of(std::string_view text) {
  return sha256_hex(as_bytes(std::string(kSeal) + std::string(text))).substr(0, kSealDigest);
}

std::string needed(const Fields& item, std::string_view name, const std::string& path) {
  auto text = item.text(name, SIZE_MAX);
  if (!text) fail("missing_field", fmt::format("{}.{}", path, name), "is missing");
  return *std::move(text);
}

std::string kind_of(const Json& item) {
  const Json* type = item.find("type");
  if (type && type->is_string()) return type->as_string();
  return item.find("role") ? "message" : "";
}

std::string_view id_prefix(std::string_view kind) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPrefixes = {{
      {"reasoning", "rs_"},
      {"function_call", "fc_"},
      {"function_call_output", "fco_"},
      {"custom_tool_call", "ctc_"},
      {"custom_tool_call_output", "ctco_"},
      {"message", "msg_"},
  }};
  for (const auto& [name, prefix] : kPrefixes)
    if (name == kind) return prefix;
  return {};
}

// A content part of a message or of a tool's output as chat has it.
Json chat_part(const Json& part, const std::string& path) {
  if (!part.is_object())
    fail("invalid_type", path, fmt::format("is {}, object expected", a_kind(part)));
  const Fields fields(part, path + ".");
  const std::string type = needed(fields, "type", path);
  if (type == "input_text" || type == "output_text" || type == "text")
    return Json::object({{"type", "text"}, {"text", needed(fields, "text", path)}});
  if (type == "refusal")
    return Json::object({{"type", "refusal"}, {"refusal", needed(fields, "refusal", path)}});
  if (type != "input_image")
    fail("unsupported_content_part", path,
         fmt::format("is of type {}, text or an image expected", quote(type)));
  Json image = Json::object({{"url", needed(fields, "image_url", path)}});
  if (const auto detail = fields.text("detail", kMaxType)) image.set("detail", *detail);
  return Json::object({{"type", "image_url"}, {"image_url", std::move(image)}});
}

Json chat_content(const Json* content, const std::string& path) {
  if (!content) return Json("");
  if (content->is_string()) return *content;
  if (!content->is_array())
    fail("invalid_type", path,
         fmt::format("is {}, string or array of parts expected", a_kind(*content)));
  Json parts = Json::array();
  for (size_t i = 0; i < content->as_array().size(); ++i)
    parts.push_back(chat_part(content->as_array()[i], fmt::format("{}[{}]", path, i)));
  return parts;
}

// The texts of `content` or `summary`, joined.
std::string texts_of(const Fields& item, std::string_view name) {
  const Json* list = item.array(name, 0, SIZE_MAX);
  std::string text;
  if (!list) return text;
  for (const Json& part : list->as_array())
    if (const Json* one = part.find("text"); one && one->is_string()) text += one->as_string();
  return text;
}

// The whole text if the client has it, what was sealed else; a summary is better than nothing.
std::string reasoning_of(const Fields& item) {
  std::string text = texts_of(item, "content");
  if (!text.empty()) return text;
  if (const auto sealed = item.text("encrypted_content", SIZE_MAX))
    if (const auto opened = unseal_reasoning(*sealed)) return *opened;
  return texts_of(item, "summary");
}

// Puts items of one answer into one message.
class Conversion {
 public:
  void add(const Json& item, const std::string& path) {
    const Fields fields(item, path + ".");
    const std::string kind = kind_of(item);
    if (kind == "message") return add_message(fields, path);
    if (kind == "reasoning") {
      const std::string text = reasoning_of(fields);
      if (!text.empty()) append(&answer(path), "reasoning_content", text);
    } else if (kind == "function_call") {
      const Json* arguments = fields.find("arguments");
      add_call(fields, path, arguments ? *arguments : Json());
    } else if (kind == "custom_tool_call") {
      add_call(fields, path, Json::object({{"input", needed(fields, "input", path)}}));
    } else {
      add_output(fields, path);
    }
  }

  ItemMessages take() {
    end_answer();
    return std::move(out_);
  }

 private:
  // `path`: of the item that it is wanted for; the first one names the answer.
  Json& answer(const std::string& path) {
    if (answer_.is_null()) {
      answer_ = Json::object({{"role", "assistant"}, {"content", ""}});
      answer_origin_ = {.path = path, .parts = {}, .arguments = {}};
    }
    return answer_;
  }
  void end_answer() {
    if (!answer_.is_null())
      put(std::exchange(answer_, Json()), std::exchange(answer_origin_, MessageOrigin()));
  }
  void put(Json message, MessageOrigin origin) {
    out_.messages.push_back(std::move(message));
    out_.origins.push_back(std::move(origin));
  }
  static void append(Json* message, std::string_view name, const std::string& text) {
    const Json* before = message->find(name);
    message->set(name, (before ? before->as_string() : "") + text);
  }

  void add_output(const Fields& fields, const std::string& path) {
    end_answer();
    Json content = chat_content(fields.find("output"), path + ".output");
    MessageOrigin origin{.path = path, .parts = {}, .arguments = {}};
    if (content.is_array())
      for (size_t i = 0; i < content.as_array().size(); ++i)
        origin.parts.push_back(fmt::format("{}.output[{}]", path, i));
    put(Json::object({{"role", "tool"},
                      {"tool_call_id", needed(fields, "call_id", path)},
                      {"content", std::move(content)}}),
        std::move(origin));
  }

  void add_call(const Fields& fields, const std::string& path, Json arguments) {
    Json call = Json::object({{"id", needed(fields, "call_id", path)},
                              {"type", "function"},
                              {"function", Json::object({{"name", needed(fields, "name", path)},
                                                         {"arguments", std::move(arguments)}})}});
    const Json* before = answer(path).find("tool_calls");
    Json calls = before ? *before : Json::array();
    calls.push_back(std::move(call));
    answer(path).set("tool_calls", std::move(calls));
    answer_origin_.arguments.push_back(path + ".arguments");
  }

  void add_message(const Fields& fields, const std::string& path) {
    const std::string role = needed(fields, "role", path);
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      fail("invalid_messages", path + ".role",
           fmt::format("is {}, user, assistant, system or developer expected", quote(role)));
    Json content = chat_content(fields.find("content"), path + ".content");
    if (role != "assistant") {
      end_answer();
      return put(Json::object({{"role", role}, {"content", std::move(content)}}),
                 {.path = path, .parts = {}, .arguments = {}});
    }
    // Texts of one answer are joined around its calls; another message is another answer.
    if (!answer_.is_null() && !answer_.at("content").as_string().empty() &&
        !answer_.find("tool_calls"))
      end_answer();
    if (content.is_string()) return append(&answer(path), "content", content.as_string());
    for (const Json& part : content.as_array()) {
      const Json* text = part.find("text");
      if (!text) text = part.find("refusal");
      if (!text)
        fail("unsupported_content_part", path + ".content", "holds an image, text expected");
      append(&answer(path), "content", text->as_string());
    }
  }

  ItemMessages out_;
  Json answer_;  // the assistant's turn under way; null: none
  MessageOrigin answer_origin_;
};

}  // namespace

ItemList read_items(const Json& input, const ItemLookup& lookup) {
  ItemList out;
  const auto put = [&out](Json item, std::string path) {
    out.items.push_back(std::move(item));
    out.paths.push_back(std::move(path));
  };
  if (input.is_string()) {
    Json part = Json::object({{"type", "input_text"}, {"text", input}});
    put(Json::object({{"type", "message"},
                      {"role", "user"},
                      {"content", Json::array({std::move(part)})},
                      {"id", fresh_id("msg_")}}),
        "input");
    return out;
  }
  if (!input.is_array())
    fail("invalid_type", "input", fmt::format("is {}, string or array expected", a_kind(input)));
  const Json::Array& items = input.as_array();
  if (items.size() > kMaxItems)
    fail("invalid_value", "input",
         fmt::format("is an array of {}, at most {} expected", items.size(), kMaxItems));
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string path = fmt::format("input[{}]", i);
    if (!items[i].is_object())
      fail("invalid_type", path, fmt::format("is {}, object expected", a_kind(items[i])));
    Json item = items[i];
    const Fields fields(items[i], path + ".");
    const std::string kind = kind_of(item);
    fields.text("type", SIZE_MAX);
    if (kind.empty()) fail("missing_field", path + ".type", "is missing");
    if (kind == "item_reference") {
      const std::string id = needed(fields, "id", path);
      auto found = lookup(id);
      if (!found)
        fail("invalid_value", path + ".id", fmt::format("is {}, which is not stored", quote(id)));
      put(*std::move(found), path);
      continue;
    }
    const std::string_view prefix = id_prefix(kind);
    if (prefix.empty()) {
      log_info("item of type {} left out", quote(kind));
      continue;
    }
    item.set("type", kind);
    if (!fields.text("id", SIZE_MAX)) item.set("id", fresh_id(prefix));
    put(std::move(item), path);
  }
  return out;
}

ItemMessages chat_messages(const ItemList& history) {
  Conversion conversion;
  for (size_t i = 0; i < history.items.size(); ++i)
    conversion.add(history.items[i], history.paths[i]);
  return conversion.take();
}

std::string seal_reasoning(std::string_view text) {
  return std::string(kSeal) + base64(digest_of(text) + std::string(text));
}

std::optional<std::string> unseal_reasoning(std::string_view sealed) {
  if (!sealed.starts_with(kSeal)) return std::nullopt;
  std::string text;
  try {
    for (const std::byte b : media::decode_base64(sealed.substr(kSeal.size())))
      text += static_cast<char>(b);
  } catch (const Error&) {
    return std::nullopt;
  }
  if (text.size() < kSealDigest) return std::nullopt;
  const std::string digest = text.substr(0, kSealDigest);
  text.erase(0, kSealDigest);
  if (digest != digest_of(text)) return std::nullopt;
  return text;
}

}  // namespace flare::server
