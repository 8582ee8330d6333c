// Earliest stop match wins, then list order (serving.md S8.6).
#include "server/service/text_gate.h"

#include <algorithm>
#include <utility>

namespace flare::server {

TextGate::TextGate(const frontend::Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stop_(std::move(stop)) {}

// Decoding is sequential, so the preview of one token already decides; commit has nothing to undo
// because the engine offers what it will keep.
runtime::OutputGate::Verdict TextGate::preview(std::span<const int32_t> offered) {
  for (size_t i = 0; i < offered.size(); ++i) {
    held_ += decoder_.push(offered[i]);
    size_t first = std::string::npos;
    for (const std::string& s : stop_) {
      const size_t at = held_.find(s);
      if (at < first) {
        first = at;
        matched_ = s;
      }
    }
    if (first != std::string::npos) {
      released_ += held_.substr(0, first);
      held_.clear();
      return {static_cast<int>(i) + 1, true};
    }
    release_up_to_possible_stop();
  }
  return {static_cast<int>(offered.size()), false};
}

void TextGate::commit(int) {}

void TextGate::release_up_to_possible_stop() {
  size_t keep = 0;  // longest suffix of held_ that begins some stop string
  for (const std::string& s : stop_)
    for (size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n)
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) {
        keep = n;
        break;
      }
  released_ += held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
}

std::string TextGate::take() { return std::exchange(released_, {}); }

std::string TextGate::finish() {
  if (matched_.empty()) released_ += std::exchange(held_, {}) + decoder_.finish();
  return take();
}

}  // namespace flare::server
