// Which rows run in the next step.
#pragma once

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

// How many prompt rows a step may take. While answers run: as many as make it last `slowdown` times
// a step of answers alone, judged by the steps before, by classes of rows: a step's time does not
// grow evenly, since weights are read once for all of them. Else as many as take kLongestStep: who
// cancels, or comes with a short prompt, waits for the step's end. Confined to the engine thread.
class PrefillPace {
 public:
  static constexpr double kLongestStep = 0.5;  // seconds

  // slowdown >= 1.
  explicit PrefillPace(double slowdown) : slowdown_(slowdown) {}
  // A step of that many rows of answers and prompts took so long.
  void record(uint32_t decode_rows, uint32_t prompt_rows, double seconds);
  // At least one, so that prompts go on; at most `chunk` >= 1.
  uint32_t rows(uint32_t decode_rows, uint32_t chunk) const;

 private:
  static constexpr uint32_t kEdges[] = {4,   8,   12,  16,  24,  32,  48,   64,   96,
                                        128, 192, 256, 384, 512, 768, 1024, 1536, 2048};
  static constexpr size_t kClasses = std::size(kEdges);
  static size_t class_of(uint32_t rows);

  const double slowdown_;
  double decode_seconds_ = 0;      // of a step of answers alone, a moving average; 0: none yet
  double row_seconds_ = 0;         // of a prompt row where nobody answers; 0: unknown
  double seconds_[kClasses] = {};  // of a step with prompt rows, by all its rows
};

}  // namespace flare::runtime
