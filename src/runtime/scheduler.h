// Which rows run in the next step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
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
// one that came first has half, a piece at least, so that it ends; the rest goes by what they lack,
// the shortest first, so that a short prompt does not wait behind a long one, and of equal ones
// each ends as early as it can.
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

// How much of prompts is read at once, judged by the clock. While answers run: pieces, computed
// launch by launch between steps of answers for so long that a usual token takes `slowdown` times
// what it takes alone; now and then a step of answers runs by itself to tell how long that is. Else
// as many rows as take kLongestStep: who cancels, or comes with a short prompt, waits for its end.
// Confined to the engine thread.
class PrefillPace {
 public:
  static constexpr double kLongestStep = 0.5;   // seconds
  static constexpr double kLongestHold = 10.0;  // the same: who waits longer thinks it hangs

  // slowdown >= 1.
  explicit PrefillPace(double slowdown) : slowdown_(slowdown) {}
  // A step of so many prompt rows and no answers.
  void record_alone(uint32_t rows, double seconds);
  // A step of answers, behind a part of a piece or by itself.
  void record_answers(double seconds, bool beside_piece);
  // A piece has ended; its usual longest launch took so long.
  void record_piece(uint32_t rows, double launch_seconds);
  // Prompt rows of a step that has no answers, and of a piece: 1 … chunk. The step takes half as
  // many again where nothing is left behind them of the `left` rows of all prompts: a short step
  // more would cost more.
  uint32_t rows_alone(uint64_t left, uint32_t chunk) const {
    const bool ends = left > alone_rows_ && left <= alone_rows_ + alone_rows_ / 2;
    return std::min(chunk, ends ? static_cast<uint32_t>(left) : alone_rows_);
  }
  uint32_t piece_rows(uint32_t chunk) const { return std::min(chunk, piece_rows_); }
  // How long an answer that has just begun may wait for prompts that came with it.
  double hold_seconds() const { return std::min(2 * kLongestStep * (slowdown_ - 1), kLongestHold); }
  // What a piece may take beside one step of answers.
  double piece_seconds() const;
  // Whether the piece waits for one step of answers.
  bool rests() const { return n_beside_ >= kRestAfter; }

 private:
  static constexpr uint32_t kRestAfter = 15;  // steps beside a piece

  const double slowdown_;
  RecentMedian<15> beside_seconds_;  // of steps of answers behind a part of a piece
  RecentMedian<7> answer_seconds_;   // of others
  uint32_t n_beside_ = 0;            // since the last of those
  uint32_t alone_rows_ = 64;
  uint32_t piece_rows_ = 16;
};

}  // namespace flare::runtime
