// A histogram: counts of observations by ascending bounds, and their sum.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace flare {

// A plain value; copying it allocates nothing. Not locked.
class Histogram {
 public:
  static constexpr size_t kMostBounds = 24;

  // `bounds` ascend, are at most kMostBounds and outlive the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {
    FLARE_ASSERT(bounds.size() <= kMostBounds);
  }

  // The same value several times over. What is no number, or below 0, counts as 0: a sum of
  // durations never falls.
  void record(double value, uint64_t times = 1) {
    if (!(value > 0)) value = 0;
    const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
    counts_[static_cast<size_t>(at)] += times;
    count_ += times;
    sum_ += value * static_cast<double>(times);
  }

  std::span<const double> bounds() const { return bounds_; }
  // Class i holds values above bounds()[i - 1] and up to bounds()[i]; the last one has no bound.
  uint64_t count_in(size_t i) const { return counts_[i]; }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::array<uint64_t, kMostBounds + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace flare
