// Which rows run in the next step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace flare::runtime {

struct ScheduleLimits {
  uint32_t max_rows = 0;       // in one step
  uint32_t prefill_chunk = 0;  // prompt rows in one step, over all sequences; >= piece
  // Prompts are cut at multiples of this many rows from their beginning alone, so that their bits
  // do not depend on what else runs: the rows given are a multiple of it, or what is left of a
  // prompt if that is less.
  uint32_t piece = 1;
};

// remaining[i]: rows that sequence i has yet to compute (1 while decoding, more while its prompt is
// read), in order of arrival. Returns the rows each sequence runs in this step, 0 for none. Decode
// rows come first, so a running answer never waits for a prompt. Of what is left for prompts the
// one that came first has half, a piece at least, so that it ends; the others follow by what they
// lack, the shortest first, so that a short prompt does not wait behind a long one.
std::vector<uint32_t> schedule_rows(std::span<const uint32_t> remaining,
                                    const ScheduleLimits& limits);

// The median of the last N values: what a step usually takes, whatever else the machine does now
// and then.
template <size_t N>
class RecentMedian {
 public:
  void add(double value) { values_[n_++ % N] = value; }
  void clear() { n_ = 0; }
  size_t size() const { return std::min(n_, N); }
  // The lower one of two; 0 without values.
  double get() const {
    std::array<double, N> sorted = values_;
    if (size() == 0) return 0;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>((size() - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<ptrdiff_t>(size()));
    return *middle;
  }

 private:
  std::array<double, N> values_{};
  size_t n_ = 0;
};

// How many prompt rows a step may take. While answers run: as many as make a usual step last less
// than `slowdown` times a usual step of answers alone, judged by the steps before, by classes of
// rows: a step's time does not grow evenly, since weights are read once for all of them. Else as
// many as take kLongestStep at most: who cancels, or comes with a short prompt, waits for its end.
// Confined to the engine thread.
class PrefillPace {
 public:
  static constexpr double kLongestStep = 0.5;  // seconds

  // slowdown >= 1.
  explicit PrefillPace(double slowdown) : slowdown_(slowdown) {}
  // A step of that many rows of answers and prompts took so long.
  void record(uint32_t decode_rows, uint32_t prompt_rows, double seconds);
  // At least two, so that prompts go on; at most `chunk` >= 1.
  uint32_t rows(uint32_t decode_rows, uint32_t chunk) const;

 private:
  static constexpr uint32_t kEdges[] = {4,   8,   12,  16,  24,  32,  48,   64,   96,
                                        128, 192, 256, 384, 512, 768, 1024, 1536, 2048};
  static constexpr size_t kClasses = std::size(kEdges);
  struct Class {
    RecentMedian<9> seconds;
    uint64_t closed_until = 0;  // step
  };
  static size_t class_of(uint32_t rows);
  double limit() const;

  const double slowdown_;
  RecentMedian<15> decode_seconds_;  // of a step of answers alone
  uint32_t alone_rows_ = 64;         // of prompts where nobody answers
  Class classes_[kClasses];          // of steps with prompt rows, by all their rows
  uint64_t steps_ = 0;               // with prompt rows beside answers
};

}  // namespace flare::runtime
