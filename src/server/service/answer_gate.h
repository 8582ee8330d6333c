// The output gate of parsed answers: decodes tokens, splits reasoning, text and calls, and cuts at
// stop strings.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontend/output/parser.h"
#include "frontend/tokenizer/tokenizer.h"
#include "runtime/seams.h"
#include "server/service/stop_strings.h"

namespace flare::server {

// Stop strings match content alone, not reasoning or calls (serving.md S8.6), behind the parser: so
// held text has passed it (B093). Confined to the engine thread.
class AnswerGate : public runtime::OutputGate {
 public:
  // The tokenizer and what `settings` points at outlive the gate; `tools`, if given, is kept alive.
  AnswerGate(const frontend::Tokenizer& tokenizer, std::vector<std::string> stop,
             const frontend::OutputParserSettings& settings,
             std::shared_ptr<const frontend::ToolSet> tools = nullptr);

  Verdict preview(std::span<const int32_t> offered) override;
  void commit(int kept) override;

  // Deltas released since the last call.
  std::vector<frontend::OutputEvent> take();
  // The rest, when the answer has ended. kCut unless the model ended it.
  std::vector<frontend::OutputEvent> finish(frontend::OutputEnd end);
  // The stop string that ended the answer; empty if none did.
  const std::string& matched() const { return stop_.matched(); }
  uint64_t reasoning_tokens() const { return parser_.reasoning_tokens(); }
  // After finish(kNatural): the finish reason is tool_calls.
  bool has_complete_call() const { return parser_.has_complete_call(); }

 private:
  void decode(int32_t id);
  // Moves what the parser found to released_; true if a stop string ends the answer.
  bool release();
  void release_content(std::string_view text);

  const frontend::Tokenizer& tokenizer_;
  const std::shared_ptr<const frontend::ToolSet> tools_;
  frontend::StreamDecoder decoder_;
  frontend::OutputParser parser_;
  StopStrings stop_;
  std::vector<frontend::OutputEvent> parsed_;    // fresh from the parser
  std::vector<frontend::OutputEvent> released_;  // waiting for take()
};

}  // namespace flare::server
