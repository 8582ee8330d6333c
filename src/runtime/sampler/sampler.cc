// The fields of a row's sampling parameters, one by one, and the lists they point at.
#include "runtime/sampler/sampler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace flare::runtime {
namespace {

void check_id(std::string_view field, int32_t id, uint32_t vocab_size) {
  if (id < 0 || static_cast<uint32_t>(id) >= vocab_size)
    throw Error(Code::kInvalid, "{}: token id {} is outside 0..{}", field, id, vocab_size - 1);
}

void check_rules(const TokenRules& rules, uint32_t vocab_size) {
  for (const auto& [id, value] : rules.bias) check_id("logit_bias", id, vocab_size);
  for (const int32_t id : rules.banned) check_id("logit_bias", id, vocab_size);
  for (const int32_t id : rules.allowed) check_id("allowed_token_ids", id, vocab_size);
  for (const auto& word : rules.bad_words) {
    if (word.empty()) throw Error(Code::kInvalid, "bad_words: a sequence of no tokens");
    for (const int32_t id : word) check_id("bad_words", id, vocab_size);
  }
}

}  // namespace

Sampler::Sampler(const SamplingSettings& settings, std::vector<int32_t> stop_ids,
                 uint32_t vocab_size)
    : settings_(settings), stop_ids_(std::move(stop_ids)) {
  if (settings.dry.multiplier > 0)
    dry_ = std::make_unique<DryPenalty>(settings.dry, settings.dry_breakers);
  if (!settings.rules) return;
  const TokenRules& rules = *settings.rules;
  check_rules(rules, vocab_size);
  for (const auto& [id, value] : rules.bias) bias_.push_back({id, value});
  if (rules.allowed.empty()) return;
  allowed_.resize((vocab_size + 31) / 32);
  for (const int32_t id : rules.allowed)
    allowed_[static_cast<size_t>(id) / 32] |= 1u << (static_cast<uint32_t>(id) % 32);
}

void Sampler::collect_banned(std::span<const int32_t> output) {
  banned_.clear();
  if (output.size() < settings_.min_tokens)
    banned_.insert(banned_.end(), stop_ids_.begin(), stop_ids_.end());
  if (!settings_.rules) return;
  const TokenRules& rules = *settings_.rules;
  banned_.insert(banned_.end(), rules.banned.begin(), rules.banned.end());
  for (const std::vector<int32_t>& word : rules.bad_words) {
    const size_t before = word.size() - 1;
    if (before > output.size()) continue;
    if (std::ranges::equal(output.last(before), std::span(word).first(before)))
      banned_.push_back(word.back());
  }
}

kernel::SampleParams Sampler::next(std::span<const int32_t> history, uint32_t n_prompt,
                                   std::span<uint32_t> mask) {
  const SamplingSettings& s = settings_;
  collect_banned(history.subspan(n_prompt));
  kernel::SampleParams p;
  p.temperature = s.temperature;
  p.top_k = s.top_k;
  p.top_p = s.top_p;
  p.min_p = s.min_p;
  p.typical_p = s.typical_p;
  p.top_n_sigma = s.top_n_sigma;
  p.xtc_probability = s.xtc_probability;
  p.xtc_threshold = s.xtc_threshold;
  p.repetition_penalty = s.repetition_penalty;
  p.repeat_last_n = s.repeat_last_n;
  p.presence_penalty = s.presence_penalty;
  p.frequency_penalty = s.frequency_penalty;
  p.history = history.data();
  p.n_history = static_cast<int32_t>(history.size());
  p.n_prompt = static_cast<int32_t>(n_prompt);
  p.bias = bias_.data();
  p.n_bias = static_cast<int32_t>(bias_.size());
  p.banned = banned_.data();
  p.n_banned = static_cast<int32_t>(banned_.size());
  if (dry_) {
    const auto penalties = dry_->penalties(history);
    p.extra = penalties.data();
    p.n_extra = static_cast<int32_t>(penalties.size());
  }
  if (!mask.empty() && !allowed_.empty())
    for (size_t i = 0; i < mask.size(); ++i) mask[i] &= allowed_[i];
  p.mask = !mask.empty() ? mask.data() : allowed_.empty() ? nullptr : allowed_.data();
  p.id_limit = s.id_limit;
  p.seed = s.seed;
  p.choice = s.choice;
  p.position = static_cast<uint32_t>(history.size()) - n_prompt;
  return p;
}

TokenLogprobs token_logprobs(int32_t id, const kernel::RowLogprobs& row) {
  TokenLogprobs record{id, row.drawn, {}};
  record.top.reserve(static_cast<size_t>(row.n_top));
  for (int32_t i = 0; i < row.n_top; ++i)
    record.top.emplace_back(row.top[i].id, row.top[i].logprob);
  return record;
}

}  // namespace flare::runtime
