// What changes from step to step: live counts, token ids, positions, page tables, rows, outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/sample.h"

namespace flare::kernel {

// Rows of one sequence are neighbours: sequence b owns rows [sequence_begin[b],
// sequence_begin[b+1]) of the step. All arrays belong to the caller and stay valid during the
// replay.
struct StepInputs {
  int32_t n_rows = 0;                       // T
  int32_t n_sequences = 0;                  // B
  int32_t n_logits = 0;                     // L
  const int32_t* token_ids = nullptr;       // [T]
  const int32_t* positions = nullptr;       // [3][T]: axis a of row t is positions[a·T + t]
  const int32_t* row_sequence = nullptr;    // [T] → b
  const int32_t* sequence_begin = nullptr;  // [B+1]
  const int32_t* sequence_past = nullptr;   // [B] tokens that lie in the cache before this step
  // page_tables[b][p] = address of the page with tokens [p·page_tokens, (p+1)·page_tokens).
  std::byte* const* const* page_tables = nullptr;
  std::byte* const* rows = nullptr;  // [B] base address of the continuation row
  int32_t page_tokens = 128;
  const int32_t* logits_rows = nullptr;  // [L] ascending
  float* logits = nullptr;               // [L, logits_stride] out
  int64_t logits_stride = 0;
  const SampleParams* sampling = nullptr;  // [L]
  int32_t* sampled = nullptr;              // [L] out
  const int32_t* accepted = nullptr;       // [B] rows of each sequence that enter its states
  float* const* taps = nullptr;            // [number of taps] → [T, cols] out
};

}  // namespace flare::kernel
