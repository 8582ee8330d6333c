// Where the block ends is found in the bytes of the last tokens, so that drafts can be undone.
#include "server/service/reasoning_constraint.h"

#include <utility>

namespace flare::server {
namespace {

void set_bit(std::span<uint32_t> mask, int32_t id) {
  mask[static_cast<size_t>(id) / 32] |= 1U << (id % 32);
}

}  // namespace

ReasoningConstraint::ReasoningConstraint(const frontend::Tokenizer& tokenizer,
                                         const frontend::ReasoningFormat& format, Start start,
                                         std::unique_ptr<GrammarConstraint> answer,
                                         std::optional<Budget> budget)
    : tokenizer_(tokenizer),
      close_(format.close),
      phase_(start == Start::kInside ? Phase::kInside : Phase::kBefore),
      answer_(std::move(answer)),
      budget_(std::move(budget)) {
  const std::vector<int32_t> open = tokenizer.encode(format.open, {false, true});
  if (open.size() == 1) open_id_ = open[0];
  check_budget();
}

bool ReasoningConstraint::fill_mask(std::span<uint32_t> mask) {
  if (phase_ == Phase::kClosing) {
    set_bit(mask, budget_->closing[n_closed_]);
    return true;
  }
  if (phase_ == Phase::kInside || !answer_) return false;
  answer_->fill_mask(mask);
  if (phase_ == Phase::kBefore && open_id_ >= 0) set_bit(mask, open_id_);
  return true;
}

void ReasoningConstraint::advance(int32_t token) {
  Step step{token, phase_, n_inside_, n_closed_, false};
  if (phase_ == Phase::kInside) {
    advance_inside(token, &step);
  } else if (phase_ == Phase::kClosing) {
    advance_closing(token);
  } else if (phase_ == Phase::kBefore && token == open_id_) {
    phase_ = Phase::kInside;
    check_budget();
  } else {
    phase_ = Phase::kBehind;
    step.in_answer = answer_ != nullptr;
    if (answer_) answer_->advance(token);
  }
  steps_.push_back(step);
}

void ReasoningConstraint::advance_inside(int32_t token, Step* step) {
  std::string text;
  if (closes(token, &text)) {
    phase_ = Phase::kBehind;
    step->in_answer = answer_ && !text.empty();
    if (step->in_answer) answer_->advance_text(text);
    return;
  }
  ++n_inside_;
  check_budget();
}

// A token that is not the wanted one was not drawn under the mask: a draft that will be undone.
void ReasoningConstraint::advance_closing(int32_t token) {
  if (token == budget_->closing[n_closed_] && ++n_closed_ < budget_->closing.size()) return;
  phase_ = Phase::kBehind;
}

void ReasoningConstraint::check_budget() {
  if (phase_ == Phase::kInside && budget_ && n_inside_ >= budget_->tokens) phase_ = Phase::kClosing;
}

bool ReasoningConstraint::closes(int32_t token, std::string* answer_text) const {
  std::string text = tokenizer_.token_bytes(token);
  const size_t wanted = text.size() + close_.size() - 1;
  for (auto step = steps_.rbegin(); step != steps_.rend() && step->phase == Phase::kInside;
       ++step) {
    if (text.size() >= wanted) break;
    text.insert(0, tokenizer_.token_bytes(step->token));
  }
  const size_t at = text.find(close_);
  if (at == std::string::npos) return false;
  const size_t begin = text.find_first_not_of("\r\n", at + close_.size());
  if (begin != std::string::npos) *answer_text = text.substr(begin);
  return true;
}

void ReasoningConstraint::rollback(int n) {
  int answered = 0;
  for (; n > 0; --n) {
    const Step& step = steps_.back();
    phase_ = step.phase;
    n_inside_ = step.n_inside;
    n_closed_ = step.n_closed;
    answered += step.in_answer ? 1 : 0;
    steps_.pop_back();
  }
  if (answer_) answer_->rollback(answered);
}

}  // namespace flare::server
