// Round latency of a model: prompts really read, then a round timed again and again from the same
// state, each time behind another one as in a running engine (`ignition bench`, spec/cli.md §6).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "machine/launch_name.h"
#include "machine/step_work.h"
#include "runtime/step.h"

namespace flare::app {

struct RoundOptions {
  std::vector<uint32_t> batches;   // sequences in a round, ascending
  std::vector<uint32_t> contexts;  // tokens before the round, ascending
  uint32_t width = 1;              // rows of a sequence in a round
  uint32_t chunk = 512;            // prompt rows in a step
  uint32_t repetitions = 20;       // samples of a cell
  uint32_t warmup = 3;             // rounds before them
  uint64_t seed = 0;               // of the token ids
  bool launches = false;           // time the launches of a round too
};

// Order statistics of samples.
struct Spread {
  double median = 0, quartile1 = 0, quartile3 = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> samples);

// The launches of a step that do the same in every layer.
struct LaunchCell {
  std::string name;  // bench::LaunchName
  uint32_t count = 0;
  double seconds = 0;  // of all together: median over rounds
  bench::Work work;    // the same
};

// One round: a step of `batch` sequences of `width` rows and a greedy choice from every row.
struct RoundCell {
  uint32_t batch = 0, context = 0;
  Spread seconds;
  double sampling_s = 0;             // median of the choice alone, part of `seconds`
  bench::Work work;                  // of the step
  std::vector<LaunchCell> launches;  // in order of the plan, if asked for
};

// Reading the first `context` tokens of a sequence in chunks. One sample per sequence.
struct PrefillCell {
  uint32_t context = 0;
  Spread seconds;
  bench::Work work;   // of all chunks
  double roof_s = 0;  // sum of the chunks' roofs
};

struct RoundReport {
  bench::Peaks peaks;  // medians of measurements beside the cells
  std::vector<RoundCell> cells;
  std::vector<PrefillCell> prefill;
  double score_s = 0;  // unweighted mean of the cells' medians
};

// `runner` runs `model` with room for the largest batch and context. `cpu` is what it runs on: a
// second team of that size measures the peaks. `advance(n)` is told of every n tokens or rounds
// done of round_bench_total, and may throw to stop.
RoundReport measure_rounds(runtime::StepRunner& runner, const package::PreparedModel& model,
                           const kernel::CpuOptions& cpu, const RoundOptions& options,
                           const std::function<void(uint64_t)>& advance);
// Tokens that a sample adds to a context: of the round before and the timed one.
uint32_t round_tokens(const RoundOptions& options);
uint64_t round_bench_total(const RoundOptions& options);

}  // namespace flare::app
