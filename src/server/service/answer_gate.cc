// Token by token through decoder, parser and stop strings.
#include "server/service/answer_gate.h"

#include <utility>

namespace flare::server {

using frontend::OutputEnd;
using frontend::OutputEvent;

AnswerGate::AnswerGate(const frontend::Tokenizer& tokenizer, std::vector<std::string> stop,
                       const frontend::OutputParserSettings& settings,
                       std::shared_ptr<const frontend::ToolSet> tools)
    : tokenizer_(tokenizer),
      tools_(std::move(tools)),
      decoder_(tokenizer, /*skip_special_tokens=*/false),
      parser_(settings),
      stop_(std::move(stop)) {}

// Decoding is sequential, so the preview of one token already decides; commit has nothing to undo
// because the engine offers what it will keep.
runtime::OutputGate::Verdict AnswerGate::preview(std::span<const int32_t> offered) {
  for (size_t i = 0; i < offered.size(); ++i) {
    decode(offered[i]);
    if (release()) return {static_cast<int>(i) + 1, true};
  }
  return {static_cast<int>(offered.size()), false};
}

void AnswerGate::commit(int) {}

void AnswerGate::decode(int32_t id) {
  std::string text = decoder_.push(id);
  std::string_view marker;
  if (tokenizer_.is_special(id)) marker = tokenizer_.token_text(id);
  if (marker.empty() || !text.ends_with(marker)) return parser_.push(text, false, &parsed_);
  text.resize(text.size() - marker.size());  // what it ended: an unfinished character
  if (!text.empty()) parser_.push(text, false, &parsed_);
  parser_.push(marker, true, &parsed_);
}

bool AnswerGate::release() {
  for (OutputEvent& event : std::exchange(parsed_, {})) {
    if (event.kind != OutputEvent::Kind::kContent) {
      release_content(stop_.take_held());
      released_.push_back(std::move(event));
      continue;
    }
    release_content(stop_.push(event.text));
    if (!matched().empty()) return true;
  }
  return false;
}

void AnswerGate::release_content(std::string_view text) {
  if (text.empty()) return;
  if (released_.empty() || released_.back().kind != OutputEvent::Kind::kContent)
    released_.push_back({.kind = OutputEvent::Kind::kContent, .text = {}});
  released_.back().text += text;
}

std::vector<OutputEvent> AnswerGate::take() { return std::exchange(released_, {}); }

std::vector<OutputEvent> AnswerGate::finish(OutputEnd end) {
  if (!matched().empty()) return take();
  if (const std::string rest = decoder_.finish(); !rest.empty())
    parser_.push(rest, false, &parsed_);
  parser_.finish(end, &parsed_);
  if (!release()) release_content(stop_.take_held());
  return take();
}

}  // namespace flare::server
