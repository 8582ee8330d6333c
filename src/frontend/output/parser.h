// Splits a model's output into reasoning, content and tool calls while it is generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/output/format.h"
#include "frontend/output/tools.h"

namespace flare::frontend {

// One delta. Text is valid UTF-8; a character is never split.
struct OutputEvent {
  enum class Kind : uint8_t {
    kReasoning,  // text
    kContent,    // text
    kCallStart,  // text: the tool's name; call: 0, 1, 2…
    kArguments,  // text: a piece of the JSON text of the call's arguments
    kCallEnd,    // complete: the arguments are one JSON object
  };
  Kind kind = Kind::kContent;
  int call = -1;  // of the call kinds
  bool complete = false;
  std::string text;
  bool operator==(const OutputEvent&) const = default;
};

// How an answer ended: the model ended it, or something cut it (a limit, a stop string, the
// context, a dead end, cancellation).
enum class OutputEnd : uint8_t { kNatural, kCut };

struct OutputParserSettings {
  const Format* format = nullptr;              // null: none
  const ReasoningFormat* reasoning = nullptr;  // null: none
  const ToolSet* tools =
      nullptr;  // null or empty: no calls, markup is content. Outlives the parser
  // The end of the rendered prompt, at least the generation prompt: where the answer starts (S5.1).
  std::string_view prompt_tail;
  // The prompt ends inside a reasoning block that the caller continues (S4.8).
  bool continues_reasoning = false;
};

// Reads one answer. For every way of cutting its bytes the joined deltas are the same (S6.2).
// Linear time, memory bounded by what is undecided. Never throws on what a model writes.
// Confined to one thread.
class OutputParser {
 public:
  explicit OutputParser(const OutputParserSettings& settings);
  OutputParser(OutputParser&&) noexcept;
  ~OutputParser();

  // The next token. `special`: a special token of the vocabulary, which clients see only as far as
  // it is a marker of malformed markup. Appends what is decided to `events`; neighbouring
  // deltas of one kind within a call are joined.
  void push(std::string_view bytes, bool special, std::vector<OutputEvent>* events);
  // Ends the answer: undecided text goes out. kNatural: open calls get their missing closers, so
  // that each is complete (S6.6), and calls that end an open reasoning block become calls (S5.8).
  // kCut: open calls keep the characters so far (S6.7). Call once.
  void finish(OutputEnd end, std::vector<OutputEvent>* events);

  // The reasoning block is open after the bytes so far.
  bool in_reasoning() const;
  // Tokens that began while the block was open, the closing marker's included.
  uint64_t reasoning_tokens() const;
  // After finish: the answer holds a complete call, so its finish reason is tool_calls if it ended
  // naturally.
  bool has_complete_call() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A whole answer at once.
struct OutputCall {
  std::string name;
  std::string arguments;  // JSON text
  bool complete = false;
  bool operator==(const OutputCall&) const = default;
};
struct Output {
  std::string reasoning;
  std::string content;
  std::vector<OutputCall> calls;
};
// Joins events as clients do.
void append_event(const OutputEvent& event, Output* output);

// Of the arguments of a cut call: the object of the members that are complete (S6.7, Messages).
std::string complete_members(std::string_view partial_arguments);

}  // namespace flare::frontend
