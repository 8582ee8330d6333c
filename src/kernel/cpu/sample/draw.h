// The part of sampling that does not depend on the ISA level: changes of single logits, the draw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/sample.h"

namespace flare::kernel::sampling {

struct Candidate {
  float logit = 0;
  int32_t id = 0;
};

// One member's workspace for a row of `vocabulary` logits.
struct RowBuffers {
  float* logits = nullptr;          // [V] a copy; −inf: not allowed
  Candidate* candidates = nullptr;  // [V]
  int32_t* counts = nullptr;        // [V]
};
uint64_t row_bytes(int64_t vocabulary);
RowBuffers row_buffers(std::byte* base, int64_t vocabulary);

// The passes over a whole row, one set per level.
struct Passes {
  // buffers.logits ← logits where legal, else −inf.
  void (*copy)(const float* logits, const uint32_t* mask, int64_t n, float* out);
  float (*largest)(const float* logits, int64_t n);
  // The first id with logit >= floor, which there is.
  int64_t (*first)(const float* logits, int64_t n, float floor);
  // Σ e^((logit − top)·inverse_temperature)
  double (*total)(const float* logits, int64_t n, float top, float inverse_temperature);
  // Σ s·e^s with s = (logit − top)·inverse_temperature
  double (*moment)(const float* logits, int64_t n, float top, float inverse_temperature);
  // Appends ids with logit >= floor, ascending; returns how many.
  int64_t (*collect)(const float* logits, int64_t n, float floor, Candidate* out);
};

// The sampled id, or −1 where nothing is legal. Does not allocate.
int32_t sample_row(const float* logits, int64_t vocabulary, const SampleParams& params,
                   const RowBuffers& buffers, const Passes& passes);

}  // namespace flare::kernel::sampling
