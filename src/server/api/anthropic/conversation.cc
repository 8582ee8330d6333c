// Blocks become contents, calls, results and reasoning of chat messages, each in its place.
#include "server/api/anthropic/conversation.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "frontend/messages/messages.h"
#include "server/api/tool_fields.h"

namespace flare::server {
namespace {

constexpr size_t kMaxMessages = 4096;
constexpr size_t kMaxMarks = 4;
constexpr size_t kMaxType = 256;

[[noreturn]] void fail(std::string code, const std::string& param, const std::string& message) {
  throw ApiError{400, std::move(code), fmt::format("'{}' {}", param, message), param};
}

std::string type_of(const Fields& block, const std::string& path) {
  auto type = block.text("type", kMaxType);
  if (!type) fail("missing_field", path + ".type", "is missing");
  return *type;
}

std::string text_of(const Fields& block, std::string_view name, const std::string& path) {
  auto text = block.text(name, SIZE_MAX);
  if (!text) fail("missing_field", fmt::format("{}.{}", path, name), "is missing");
  return *std::move(text);
}

const Json& object_at(const Json& block, const std::string& path) {
  if (!block.is_object())
    fail("invalid_type", path, fmt::format("is {}, object expected", a_kind(block)));
  return block;
}

// Blocks of tools that run elsewhere: a call or the result of one.
bool is_server_tool(std::string_view type) {
  return type == "server_tool_use" || type == "mcp_tool_use" || type == "container_upload" ||
         (type != "tool_result" && type.ends_with("_tool_result"));
}

Json text_part(std::string text) {
  return Json::object({{"type", "text"}, {"text", std::move(text)}});
}

Json image_part(const Fields& block, const std::string& path) {
  const Json* source = block.object("source");
  if (!source) fail("missing_field", path + ".source", "is missing");
  const Fields fields(*source, path + ".source.");
  const std::string type = type_of(fields, path + ".source");
  std::string url;
  if (type == "base64") {
    url = fmt::format("data:{};base64,{}", fields.text("media_type", kMaxType).value_or(""),
                      text_of(fields, "data", path + ".source"));
  } else if (type == "url") {
    url = text_of(fields, "url", path + ".source");
  } else {
    fail("unsupported_content_part", path + ".source.type",
         fmt::format("is {}, base64 expected", quote(type)));
  }
  return Json::object({{"type", "image_url"}, {"image_url", Json::object({{"url", url}})}});
}

// A document of plain text, behind its title and context.
std::string document_text(const Fields& block, const std::string& path) {
  const Json* source = block.object("source");
  if (!source) fail("missing_field", path + ".source", "is missing");
  const Fields fields(*source, path + ".source.");
  const std::string type = type_of(fields, path + ".source");
  if (type != "text")
    fail("unsupported_content_part", path + ".source.type",
         fmt::format("is {}, text expected", quote(type)));
  std::string text;
  for (const char* name : {"title", "context"})
    if (const auto line = block.text(name, SIZE_MAX)) text += *line + "\n";
  return text + text_of(fields, "data", path + ".source");
}

class Reader {
 public:
  explicit Reader(const Fields& fields) : fields_(fields) {}

  MessagesConversation read() {
    read_tools();
    read_system();
    const Json* messages = fields_.find("messages");
    if (!messages) fail("missing_field", "messages", "is missing");
    if (!messages->is_array()) fields_.wrong_type("messages", "array");
    const Json::Array& list = messages->as_array();
    if (list.empty()) fail("empty_prompt", "messages", "is empty, 1..4096 messages expected");
    if (list.size() > kMaxMessages)
      fail("invalid_value", "messages",
           fmt::format("is an array of {}, 1..{} expected", list.size(), kMaxMessages));
    for (size_t i = 0; i < list.size(); ++i) read_message(list[i], fmt::format("messages[{}]", i));
    if (fields_.object("cache_control")) out_.marks.push_back(out_.messages.as_array().size());
    if (out_.marks.size() > kMaxMarks)
      fail("invalid_value", "cache_control",
           fmt::format("stands at {} places, at most {} expected", out_.marks.size(), kMaxMarks));
    return std::move(out_);
  }

 private:
  // What the blocks of one message hold.
  struct Contents {
    Json parts = Json::array();    // text and images
    Json results = Json::array();  // messages of their own
    Json calls = Json::array();
    std::string text, reasoning;
    bool has_image = false;
  };

  void read_tools() {
    const Json* tools = fields_.array("tools", 0, kMaxTools);
    if (!tools) return;
    out_.tools = Json::array();
    for (size_t i = 0; i < tools->as_array().size(); ++i) {
      const std::string path = fmt::format("tools[{}]", i);
      const Fields tool(object_at(tools->as_array()[i], path), path + ".");
      n_tool_marks_ += tool.object("cache_control") ? 1 : 0;
      const std::string type = tool.text("type", kMaxType).value_or("custom");
      if (type != "custom" || !tool.find("input_schema")) {
        log_info("tool of type {} left out: it has no input_schema", quote(type));
        continue;
      }
      const std::string name = read_tool_name(tool, "name", path);
      tool.text("description", SIZE_MAX);
      out_.tools.push_back(function_tool(name, tool.find("description"),
                                         tool.object("input_schema"),
                                         tool.boolean("strict").value_or(false)));
    }
  }

  // Tools stand in the prompt with the system text, so their marks are its.
  void read_system() {
    size_t marks = n_tool_marks_;
    if (const Json* system = fields_.find("system")) {
      Json::Array blocks = blocks_of(*system, "system");
      if (system->is_array()) frontend::drop_billing_header(&blocks);
      std::string text;
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string path = fmt::format("system[{}]", i);
        const Fields block(object_at(blocks[i], path), path + ".");
        const std::string type = type_of(block, path);
        if (type != "text")
          fail("unsupported_content_part", path,
               fmt::format("is of type {}, text expected", quote(type)));
        text += text_of(block, "text", path);
        marks += block.object("cache_control") ? 1 : 0;
      }
      if (!text.empty())
        out_.messages.push_back(Json::object({{"role", "system"}, {"content", text}}));
    }
    out_.marks.assign(marks, out_.messages.as_array().size());
  }

  static Json::Array blocks_of(const Json& content, const std::string& path) {
    if (content.is_string()) return {text_part(content.as_string())};
    if (!content.is_array())
      fail("invalid_type", path,
           fmt::format("is {}, string or array of blocks expected", a_kind(content)));
    return content.as_array();
  }

  void read_message(const Json& message, const std::string& path) {
    const Fields fields(object_at(message, path), path + ".");
    const auto role = fields.text("role", kMaxType);
    if (!role) fail("missing_field", path + ".role", "is missing");
    if (*role != "user" && *role != "assistant" && *role != "system")
      fail("invalid_messages", path + ".role",
           fmt::format("is {}, user, assistant or system expected", quote(*role)));
    Contents contents;
    size_t marks = 0;
    if (const Json* content = fields.find("content")) {
      const Json::Array blocks = blocks_of(*content, path + ".content");
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string place = fmt::format("{}.content[{}]", path, i);
        const Fields block(object_at(blocks[i], place), place + ".");
        marks += block.object("cache_control") ? 1 : 0;
        read_block(*role, block, place, &contents);
      }
    }
    *role == "assistant" ? add_assistant(std::move(contents))
                         : add_turn(*role, std::move(contents));
    out_.marks.insert(out_.marks.end(), marks, out_.messages.as_array().size());
  }

  static void read_block(const std::string& role, const Fields& block, const std::string& path,
                         Contents* out) {
    const std::string type = type_of(block, path);
    const bool user = role == "user", assistant = role == "assistant";
    if (type == "text" || (type == "document" && user)) {
      std::string text = type == "text" ? text_of(block, "text", path) : document_text(block, path);
      out->text += text;
      out->parts.push_back(text_part(std::move(text)));
    } else if (type == "image" && user) {
      out->parts.push_back(image_part(block, path));
      out->has_image = true;
    } else if (type == "tool_result" && user) {
      out->results.push_back(result_message(block, path));
    } else if (type == "tool_use" && assistant) {
      out->calls.push_back(call_of(block, path));
    } else if (type == "thinking" && assistant) {
      out->reasoning += text_of(block, "thinking", path);
    } else if (is_server_tool(type)) {
      log_info("block of type {} left out", quote(type));
    } else if (type != "redacted_thinking" || !assistant) {
      fail("unsupported_content_part", path,
           fmt::format("is of type {}, which a message of {} cannot have here", quote(type), role));
    }
  }

  static Json call_of(const Fields& block, const std::string& path) {
    const Json* input = block.find("input");
    return Json::object(
        {{"id", text_of(block, "id", path)},
         {"type", "function"},
         {"function", Json::object({{"name", text_of(block, "name", path)},
                                    {"arguments", input ? *input : Json::object()}})}});
  }

  static Json result_message(const Fields& block, const std::string& path) {
    Json parts = Json::array();
    if (const Json* content = block.find("content")) {
      const Json::Array blocks = blocks_of(*content, path + ".content");
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string place = fmt::format("{}.content[{}]", path, i);
        const Fields part(object_at(blocks[i], place), place + ".");
        const std::string type = type_of(part, place);
        if (type == "text") {
          parts.push_back(text_part(text_of(part, "text", place)));
        } else if (type == "image") {
          parts.push_back(image_part(part, place));
        } else if (type == "document") {
          parts.push_back(text_part(document_text(part, place)));
        } else if (type == "tool_reference") {
          log_info("block of type {} left out", quote(type));
        } else {
          fail("unsupported_content_part", place,
               fmt::format("is of type {}, text or image expected", quote(type)));
        }
      }
    }
    return Json::object({{"role", "tool"},
                         {"tool_call_id", text_of(block, "tool_use_id", path)},
                         {"content", std::move(parts)}});
  }

  void add_assistant(Contents contents) {
    Json message = Json::object({{"role", "assistant"}, {"content", std::move(contents.text)}});
    if (!contents.reasoning.empty())
      message.set("reasoning_content", std::move(contents.reasoning));
    if (!contents.calls.as_array().empty()) message.set("tool_calls", std::move(contents.calls));
    out_.messages.push_back(std::move(message));
  }

  // Results answer the calls before them, so they come first; an empty text beside them is no turn.
  void add_turn(const std::string& role, Contents contents) {
    const bool has_results = !contents.results.as_array().empty();
    for (Json& result : contents.results.mutable_array())
      out_.messages.push_back(std::move(result));
    if (has_results && contents.text.empty() && !contents.has_image) return;
    out_.messages.push_back(Json::object({{"role", role}, {"content", std::move(contents.parts)}}));
  }

  const Fields& fields_;
  MessagesConversation out_;
  size_t n_tool_marks_ = 0;
};

}  // namespace

MessagesConversation read_messages_conversation(const Fields& fields) {
  return Reader(fields).read();
}

}  // namespace flare::server
