// The roof of a step: what it must read and calculate, and the time that peaks allow for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/plan.h"
#include "machine/peaks.h"
#include "package/prepared.h"

namespace flare::bench {

// Rows of one sequence in a step, behind `past` tokens.
struct SequenceRows {
  int64_t past = 0;
  int64_t rows = 0;
};

struct Work {
  double weight_bytes = 0;               // of linear weights as stored, each once
  double state_bytes = 0;                // keys and values that some row sees, recurrent states
  double operations[kArithmetics] = {};  // two per multiply-add
  double bytes() const { return weight_bytes + state_bytes; }
  double total_operations() const;
  Work& operator+=(const Work& other);
};

// The work of one step of `plan` with these rows and n_logits rows of the head. Operations: linear
// with a quantised weight under AllowA8 or AllowA4 int8 (by 4 bits where the weight has up to five
// bits a value, scales included), otherwise bf16; attention 4 per column of a query and visible
// token, bf16; gated_delta 6 per element of the state and row, f32. Embedding rows, norms and other
// ops by element are left out.
Work step_work(const package::Rank& rank, const graph::Plan& plan,
               std::span<const SequenceRows> sequences, int64_t n_logits);
// The same by launch of the plan; a weight that two launches read counts for the first.
std::vector<Work> launch_work(const package::Rank& rank, const graph::Plan& plan,
                              std::span<const SequenceRows> sequences, int64_t n_logits);

// Seconds: the larger of bytes ÷ read bandwidth and the sum of operations ÷ their peaks.
double roof_seconds(const Work& work, const Peaks& peaks);

}  // namespace flare::bench
