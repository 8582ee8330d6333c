// Where the block ends is found in the bytes of the last tokens, so that drafts can be undone.
#include "server/service/reasoning_constraint.h"

#include <utility>

namespace flare::server {

AfterReasoning::AfterReasoning(const frontend::Tokenizer& tokenizer,
                               const frontend::ReasoningFormat& format, Start start,
                               std::unique_ptr<GrammarConstraint> answer)
    : tokenizer_(tokenizer),
      close_(format.close),
      phase_(start == Start::kInside ? Phase::kInside : Phase::kBefore),
      answer_(std::move(answer)) {
  const std::vector<int32_t> open = tokenizer.encode(format.open, {false, true});
  if (open.size() == 1) open_id_ = open[0];
}

bool AfterReasoning::fill_mask(std::span<uint32_t> mask) {
  if (phase_ == Phase::kInside) return false;
  answer_->fill_mask(mask);
  if (phase_ == Phase::kBefore && open_id_ >= 0)
    mask[static_cast<size_t>(open_id_) / 32] |= 1U << (open_id_ % 32);
  return true;
}

void AfterReasoning::advance(int32_t token) {
  Step step{token, phase_, false};
  if (phase_ == Phase::kInside) {
    std::string text;
    phase_ = inside(token, &text);
    step.in_answer = !text.empty();
    if (step.in_answer) answer_->advance_text(text);
  } else if (phase_ == Phase::kBefore && token == open_id_) {
    phase_ = Phase::kInside;
  } else {
    phase_ = Phase::kBehind;
    step.in_answer = true;
    answer_->advance(token);
  }
  steps_.push_back(step);
}

AfterReasoning::Phase AfterReasoning::inside(int32_t token, std::string* answer_text) const {
  std::string text = tokenizer_.token_bytes(token);
  const size_t wanted = text.size() + close_.size() - 1;
  for (auto step = steps_.rbegin(); step != steps_.rend() && step->before == Phase::kInside;
       ++step) {
    if (text.size() >= wanted) break;
    text.insert(0, tokenizer_.token_bytes(step->token));
  }
  const size_t at = text.find(close_);
  if (at == std::string::npos) return Phase::kInside;
  const size_t begin = text.find_first_not_of("\r\n", at + close_.size());
  if (begin != std::string::npos) *answer_text = text.substr(begin);
  return Phase::kBehind;
}

void AfterReasoning::rollback(int n) {
  int answered = 0;
  for (; n > 0; --n) {
    phase_ = steps_.back().before;
    answered += steps_.back().in_answer ? 1 : 0;
    steps_.pop_back();
  }
  answer_->rollback(answered);
}

}  // namespace flare::server
