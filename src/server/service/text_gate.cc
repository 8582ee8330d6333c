// Token by token through decoder and stop strings.
#include "server/service/text_gate.h"

#include <utility>

namespace flare::server {

TextGate::TextGate(const frontend::Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stop_(std::move(stop)) {}

// Decoding is sequential, so the preview of one token already decides; commit has nothing to undo
// because the engine offers what it will keep.
runtime::OutputGate::Verdict TextGate::preview(std::span<const int32_t> offered) {
  for (size_t i = 0; i < offered.size(); ++i) {
    released_ += stop_.push(decoder_.push(offered[i]));
    if (!matched().empty()) return {static_cast<int>(i) + 1, true};
  }
  return {static_cast<int>(offered.size()), false};
}

void TextGate::commit(int) {}

std::string TextGate::take() { return std::exchange(released_, {}); }

std::string TextGate::finish() {
  if (matched().empty()) released_ += stop_.take_held() + decoder_.finish();
  return take();
}

}  // namespace flare::server
