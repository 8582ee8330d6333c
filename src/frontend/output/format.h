// The ways models write reasoning and tool calls, as data: parser and constraint read the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace flare::frontend {

// What carries the arguments of a call.
enum class Body : uint8_t {
  kNone,        // the format has no calls
  kJsonCall,    // one JSON object with members for name and arguments
  kJson,        // the head names the tool, one JSON object follows
  kParameters,  // the head names the tool, one tagged value per argument follows
  kElements,    // the same with nested elements for objects and arrays
  kLiteral,     // NAME{key:value,…} with bare keys and a quote marker around strings
};

// Where the type of a tagged value comes from (serving.md S6 table).
enum class Typing : uint8_t {
  kSchema,           // the tool's schema, S6.3
  kStringAttribute,  // string="true|false"; without it the schema
  kTypeAttribute,    // type="string|number|…"; without it the schema
  kJsonElseText,     // JSON if it parses, else the text
};

// One tagged argument: open KEY open_end [value_open] VALUE close.
struct ParameterSyntax {
  std::string_view open = {};
  std::string_view open_end = {};
  std::string_view key_attribute = {};   // empty: the head is the key itself
  std::string_view type_attribute = {};  // of kStringAttribute and kTypeAttribute
  std::string_view value_open = {};      // may follow white space
  std::string_view close = {};
  Typing typing = Typing::kSchema;
  // The family writes VALUE on lines of its own, so newlines at its borders are markup (S6.4).
  // Elsewhere every byte between the tags is value.
  bool line_borders = false;
  bool escapes = false;  // attributes write & and " as &amp; and &quot;
};

// One way to spell a region of calls: open { call } close, with any white space between the parts.
// A call is call_open HEAD call_open_end BODY call_close. An empty part is not written.
struct Spelling {
  std::string_view open = {};
  std::string_view close = {};
  std::string_view call_open = {};
  // Empty with kParameters: the head ends before white space or "<"; a kJson head also ends at "{".
  std::string_view call_open_end = {};
  std::string_view name_attribute = {};  // empty: see name_of
  std::string_view call_close = {};
  Body body = Body::kNone;
  ParameterSyntax parameter = {};
  std::string_view json_open = {};  // kParameters: stands for a parameter, holds the whole object
  std::string_view json_close = {};
  std::string_view element_mark = {};  // kElements: stands before every tag
  std::string_view quote = {};         // kLiteral: around strings
  bool bare_object = false;  // kJsonCall: an object at the start of the answer opens a region too
  bool array = false;        // kJson: a JSON array of kJsonCall objects may stand for HEAD BODY
  bool one_call = false;     // nothing follows the first call but close
  // The tool's name in a head, empty if there is none. Null: the head itself.
  std::string_view (*name_of)(std::string_view head) = nullptr;

  // What templates write, for the constraint: the text around the name in a head, and between tags.
  std::string_view head_before = {};
  std::string_view head_after = {};     // a pattern
  std::string_view arguments_key = {};  // kJsonCall
  std::string_view gap = {};
};

// What a message of a channel form is.
struct Route {
  enum class Kind : uint8_t { kReasoning, kContent, kCall } kind = Kind::kContent;
  std::string_view tool;  // kCall: a part of the header; empty if the body names it
};

// Families that write messages with headers: start HEADER body_open BODY end.
struct Channels {
  std::string_view start;
  std::string_view body_open;
  std::span<const std::string_view> ends;
  // A first token of a header; other text at the start of an answer is its body.
  std::span<const std::string_view> header_starts;
  Route (*route)(std::string_view header) = nullptr;
  // What follows the role, up to the body, as the family writes it: for the constraint.
  std::span<const std::string_view> reasoning_headers = {};
  std::span<const std::string_view> preamble_headers = {};  // visible text before a call
  std::span<const std::string_view> answer_headers = {};
  std::span<const std::pair<std::string_view, std::string_view>> call_headers = {};  // around NAME
};

// A tool format. Immutable, static.
struct Format {
  std::string_view name;
  std::span<const Spelling> spellings;
  const Channels* channels = nullptr;
  // Markers of the family without meaning for the client.
  std::span<const std::string_view> silent = {};
  // Parts of the spelling that the families' vocabularies have as tokens of their own.
  std::span<const std::string_view> tokens = {};
};

// A reasoning format. Immutable, static.
struct ReasoningFormat {
  std::string_view name;
  std::string_view open;
  std::string_view close;
  const Channels* channels = nullptr;
  std::span<const std::string_view> silent = {};
};

// The tool formats of serving.md S6: none, hermes, qwen_xml, dsml, xtml, kimi, llama3, mistral,
// harmony, gemma, glm, minimax, atem. nullptr for another name; "" is none.
const Format* find_format(std::string_view name);
std::span<const std::string_view> format_names();

// none; think (<think>…</think>); think_minimax (<mm:think>…</mm:think>); think_seed
// (<seed:think>…); think_mistral ([THINK]…[/THINK]); think_gemma (the thought channel);
// think_xtml (the think element); think_harmony (the analysis channel); think_atem (messages to
// self). nullptr for another name; "" is none.
const ReasoningFormat* find_reasoning_format(std::string_view name);
std::span<const std::string_view> reasoning_format_names();

// The reasoning format that belongs to a channel form or an element form of tools ("think_harmony"
// for harmony); empty if the tool format does not imply one.
std::string_view implied_reasoning_format(std::string_view tool_format);

}  // namespace flare::frontend
