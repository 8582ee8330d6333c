// Op sample: from logits to token ids, with penalties, mask, temperature, filters and seed.
#pragma once

#include <cstdint>

namespace flare::kernel {

// Natural logarithms of a row's raw distribution: of the softmax of its logits as they came,
// without reserved ids, before bias, bans, mask, penalties and temperature (serving.md S8.7).
struct RowLogprobs {
  static constexpr int kMaxTop = 20;
  static constexpr float kImpossible = -9999.0f;  // stands for −∞
  struct Entry {
    int32_t id;
    float logprob;
  };
  float drawn;         // of the row's token; kImpossible where none was drawn
  int32_t n_top;       // the likeliest ids, fewer than asked where there are no more of them
  Entry top[kMaxTop];  // descending, lower id first on a tie
};

// One id and what is added to its logit, or taken from it.
struct LogitChange {
  int32_t id;
  float value;
};

// What a draw is for: a word of the Philox counter, so that draws for different ends never share
// bits.
enum class DrawPurpose : uint32_t { kToken = 0, kXtc = 1 };

// One row's sampling parameters (serving.md S8). Neutral values switch a step off.
struct SampleParams {
  float temperature = 0;             // <= 1e-4: greedy
  int32_t top_k = 0;                 // <= 0: off
  float top_p = 1;                   // >= 1: off; 0: greedy
  float typical_p = 1;               // >= 1: off
  float min_p = 0;                   // 0: off
  float top_n_sigma = -1;            // <= 0: off
  float xtc_probability = 0;         // 0: off
  float xtc_threshold = 0.1f;        // > 0.5: off
  float repetition_penalty = 1;      // over the last repeat_last_n of prompt and output; 1: off
  float presence_penalty = 0;        // over output
  float frequency_penalty = 0;       // over output
  int32_t repeat_last_n = 64;        // -1: whole history
  const int32_t* history = nullptr;  // [n_history] prompt then output ids
  int32_t n_history = 0;
  int32_t n_prompt = 0;                // the first n_prompt entries are the prompt
  const LogitChange* bias = nullptr;   // [n_bias] added first of all, each id at most once
  const int32_t* banned = nullptr;     // [n_banned] never drawn
  const LogitChange* extra = nullptr;  // [n_extra] taken off behind the other penalties: DRY
  int32_t n_bias = 0, n_banned = 0, n_extra = 0;
  const uint32_t* mask = nullptr;  // bit id = allowed; null: all. ceil(V/32) words
  int32_t id_limit = 0;            // ids >= id_limit are reserved and never drawn; 0: no limit
  uint64_t seed = 0;               // Philox key
  uint32_t choice = 0;             // Philox counter words
  uint32_t position = 0;
  RowLogprobs* logprobs = nullptr;  // filled by the op; null: not asked
  int32_t top_logprobs = 0;         // 0..kMaxTop
  int32_t given = -1;  // >= 0: the row's token; nothing is drawn, its log-probability is wanted
};

// Operands: 0 logits io f32 [L,V]; 1 params io; 2 sampled io i32 [L] out. No immediates.
// Order (S8.1): reserved ids → bias → banned → mask → repetition, presence, frequency, extra →
// temperature → top_k → typical_p → top_p → min_p → top_n_sigma → XTC → draw. Each filter works on
// what the ones before it left, with probabilities that sum to 1 over it, and leaves at least one
// id:
//   top_k        the k likeliest
//   typical_p    ids by |log p − mean of log p|, the likelier first on a tie, until they hold this
//                share (Meister et al., "Locally Typical Sampling", 2023)
//   top_p        the likeliest until they hold this share
//   min_p        those at least this share as likely as the likeliest
//   top_n_sigma  logits no more than n standard deviations of the logits left below the largest
//                (Tang et al., "Top-nσ: Not All Logits Are You Need", 2024)
//   XTC          with xtc_probability: of those at least xtc_threshold likely all but the last go
// Greedy takes the largest value before temperature, lowest id on a tie. The draw inverts the
// distribution function with one uniform in (0,1) from Philox4x32-10 (key = seed; counter = choice,
// position, purpose, 0), ids in descending probability, lower id first on a tie. logits are not
// changed; every change of a logit is rounded to binary32. A row with nothing legal gives -1. Ids
// outside the row are skipped in every list. Philox: Salmon et al., "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC11.

// Four 32-bit words of Philox4x32-10.
struct Philox {
  uint32_t word[4];
};
Philox philox4x32_10(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3);

}  // namespace flare::kernel
