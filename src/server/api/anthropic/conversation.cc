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
    if (fields_.object("cache_control")) mark_here();
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
    std::vector<std::string> part_paths, argument_paths;
    std::vector<MessageOrigin> result_origins;
  };

  void put(Json message, MessageOrigin origin) {
    out_.messages.push_back(std::move(message));
    out_.origins.push_back(std::move(origin));
  }
  // Behind all messages so far.
  void mark_here() { out_.marks.push_back({out_.messages.as_array().size(), {}}); }

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

  // Tools stand in the prompt with the system text, so their marks are behind it.
  void read_system() {
    size_t marks = n_tool_marks_;
    if (const Json* system = fields_.find("system")) {
      Json::Array blocks = blocks_of(*system, "system");
      const size_t n_dropped = system->is_array() && frontend::drop_billing_header(&blocks) ? 1 : 0;
      std::string text;
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string path = fmt::format("system[{}]", i + n_dropped);
        const Fields block(object_at(blocks[i], path), path + ".");
        const std::string type = type_of(block, path);
        if (type != "text")
          fail("unsupported_content_part", path,
               fmt::format("is of type {}, text expected", quote(type)));
        text += text_of(block, "text", path);
        if (!block.object("cache_control")) continue;
        if (i + 1 == blocks.size() || text.empty())
          ++marks;
        else
          out_.marks.push_back({1, system_message(text)});
      }
      if (!text.empty())
        put(system_message(text), {.path = "system", .parts = {}, .arguments = {}});
    }
    for (size_t i = 0; i < marks; ++i) mark_here();
  }

  static Json system_message(const std::string& text) {
    return Json::object({{"role", "system"}, {"content", text}});
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
    std::vector<BlockMark> marks;
    if (const Json* content = fields.find("content")) {
      const Json::Array blocks = blocks_of(*content, path + ".content");
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string place = fmt::format("{}.content[{}]", path, i);
        const Fields block(object_at(blocks[i], place), place + ".");
        const size_t n_results = contents.results.as_array().size();
        read_block(*role, block, place, &contents);
        if (!block.object("cache_control")) continue;
        BlockMark mark;
        if (contents.results.as_array().size() > n_results)
          mark.results = n_results + 1;
        else if (i + 1 < blocks.size())
          mark.turn = turn_of(*role, contents);
        marks.push_back(std::move(mark));
      }
    }
    const size_t n_before = out_.messages.as_array().size();
    add_turn(*role, path, std::move(contents));
    for (BlockMark& mark : marks)
      if (mark.results > 0)
        out_.marks.push_back({n_before + mark.results, {}});
      else
        out_.marks.push_back({out_.messages.as_array().size(), std::move(mark.turn)});
  }

  // A mark within a message: behind so many of its results, or in the turn behind them.
  struct BlockMark {
    size_t results = 0;
    Json turn;  // as far as the mark; null: all of it
  };

  static void read_block(const std::string& role, const Fields& block, const std::string& path,
                         Contents* out) {
    const std::string type = type_of(block, path);
    const bool user = role == "user", assistant = role == "assistant";
    if (type == "text" || (type == "document" && user)) {
      std::string text = type == "text" ? text_of(block, "text", path) : document_text(block, path);
      out->text += text;
      out->parts.push_back(text_part(std::move(text)));
      out->part_paths.push_back(path);
    } else if (type == "image" && user) {
      out->parts.push_back(image_part(block, path));
      out->part_paths.push_back(path);
      out->has_image = true;
    } else if (type == "tool_result" && user) {
      MessageOrigin origin{.path = path, .parts = {}, .arguments = {}};
      out->results.push_back(result_message(block, path, &origin.parts));
      out->result_origins.push_back(std::move(origin));
    } else if (type == "tool_use" && assistant) {
      out->calls.push_back(call_of(block, path));
      out->argument_paths.push_back(path + ".input");
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

  static Json result_message(const Fields& block, const std::string& path,
                             std::vector<std::string>* part_paths) {
    Json parts = Json::array();
    if (const Json* content = block.find("content")) {
      const Json::Array blocks = blocks_of(*content, path + ".content");
      for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string place = fmt::format("{}.content[{}]", path, i);
        const Fields part(object_at(blocks[i], place), place + ".");
        const std::string type = type_of(part, place);
        if (type != "tool_reference") part_paths->push_back(place);
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

  // What is not a result, as one message.
  static Json turn_of(const std::string& role, const Contents& contents) {
    if (role != "assistant") return Json::object({{"role", role}, {"content", contents.parts}});
    Json message = Json::object({{"role", role}, {"content", contents.text}});
    if (!contents.reasoning.empty()) message.set("reasoning_content", contents.reasoning);
    if (!contents.calls.as_array().empty()) message.set("tool_calls", contents.calls);
    return message;
  }

  // Results answer the calls before them, so they come first; an empty text beside them is no turn.
  void add_turn(const std::string& role, const std::string& path, Contents contents) {
    const size_t n_results = contents.results.as_array().size();
    for (size_t i = 0; i < n_results; ++i)
      put(std::move(contents.results.mutable_array()[i]), std::move(contents.result_origins[i]));
    if (n_results > 0 && contents.text.empty() && !contents.has_image) return;
    // The texts of an answer are one.
    if (role == "assistant") contents.part_paths.clear();
    put(turn_of(role, contents), {.path = path,
                                  .parts = std::move(contents.part_paths),
                                  .arguments = std::move(contents.argument_paths)});
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
