// What a load asks: texts of wanted lengths, and conversations that share what real ones share.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace flare::server::load {

enum class Scenario {
  kUniform,       // one question each, nothing in common
  kSharedPrefix,  // seven eighths of every prompt are the same system text
  kAgent,  // conversations: a system text in common, then turn upon turn with the answers kept
};
std::string_view scenario_name(Scenario scenario);  // "uniform", "shared-prefix", "agent"

// Tokens of a prompt of n words, as the server counts them: base + n · per_word.
struct TokenScale {
  double base = 0;
  double per_word = 1;
  // Words for about that many tokens; at least one.
  uint32_t words(double tokens) const;
  // Through two counts.
  static TokenScale through(uint32_t words_a, uint64_t tokens_a, uint32_t words_b,
                            uint64_t tokens_b);
};

// `n` common English words, drawn by `random`.
std::string text_of_words(std::mt19937_64& random, uint32_t n);

// The conversations of one repetition. Same seed, same texts; another seed has none in common.
class Conversations {
 public:
  Conversations(Scenario scenario, uint32_t prompt_tokens, const TokenScale& scale, uint64_t seed);
  // Messages of the first question of session i.
  Json begin(uint32_t session);
  // Adds the answer and the next question: an eighth of the prompt's length.
  void go_on(Json* messages, const std::string& answer);
  // What all sessions begin with, for a request that reads it beforehand; null: nothing.
  Json shared() const;

 private:
  std::string own_text(std::string_view opening, double tokens);
  Scenario scenario_;
  double prompt_tokens_;
  TokenScale scale_;
  std::mt19937_64 random_;
  std::string system_;
};

}  // namespace flare::server::load
