// The candidates of a row in descending order, found on demand.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernel/cpu/sample/draw.h"

namespace flare::kernel::sampling {

// The logit of an id that must not be drawn.
inline constexpr float kNever = -__builtin_inff();

// Higher logit first, then lower id.
inline bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Keeps a sorted prefix of the candidates and extends it only as far as a filter or the draw asks:
// of 250,000 ids a few dozen matter. Works in buffers.candidates.
class Ranking {
 public:
  // Of all ids of a row: buffers.logits [n], `top` its largest.
  Ranking(const RowBuffers& buffers, int64_t n, const Passes& passes, float top, double temperature)
      : buffers_(buffers), n_(n), passes_(passes), top_(top), temperature_(temperature) {}

  // False past the last one.
  bool has(int64_t rank) {
    while (rank >= sorted_)
      if (!extend()) return false;
    return true;
  }
  // has(rank) was true.
  const Candidate& at(int64_t rank) const { return buffers_.candidates[rank]; }
  // e^((logit − top)/temperature), 1 for the largest of the row.
  double weight(const Candidate& c) const { return std::exp(scaled(c.logit)); }
  double weight(int64_t rank) const { return weight(at(rank)); }
  double scaled(float logit) const { return (static_cast<double>(logit) - top_) / temperature_; }

  // Collects every id whose scaled logit is at least `floor` in front of the candidates, in no
  // order, and tells how many: for restrict_to(). The ranking itself is lost.
  int64_t collect(double floor);
  // The first n candidates, in whatever order they stand, are all there is from now on.
  void restrict_to(int64_t n) {
    found_ = n;
    sorted_ = 0;
    complete_ = true;
  }
  // The row has changed: everything from the start, `top` its largest.
  void restart(float top) {
    top_ = top;
    reach_ = 0;
    complete_ = false;
    found_ = sorted_ = 0;
  }
  // Weights are relative to this logit from now on; for candidates that are restricted or sorted.
  void weigh_from(float top) { top_ = top; }

  const RowBuffers& buffers() const { return buffers_; }
  const Passes& passes() const { return passes_; }
  int64_t row_size() const { return n_; }
  float top() const { return top_; }
  double temperature() const { return temperature_; }

 private:
  bool extend();

  const RowBuffers& buffers_;
  const int64_t n_;
  const Passes& passes_;
  float top_;
  const double temperature_;
  double reach_ = 0;  // in scaled logits, of what was collected
  bool complete_ = false;
  int64_t found_ = 0;
  int64_t sorted_ = 0;
};

}  // namespace flare::kernel::sampling
