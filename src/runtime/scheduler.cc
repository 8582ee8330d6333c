// Decode rows first, then prompt chunks; the chunk follows the clock.
#include "runtime/scheduler.h"

#include <algorithm>
#include <numeric>

namespace flare::runtime {

std::vector<uint32_t> schedule_rows(std::span<const uint32_t> remaining,
                                    const ScheduleLimits& limits) {
  std::vector<uint32_t> rows(remaining.size(), 0);
  uint32_t left = limits.max_rows;
  std::vector<size_t> prompts;
  for (size_t i = 0; i < remaining.size(); ++i) {
    if (remaining[i] > 1) prompts.push_back(i);
    if (remaining[i] == 1 && left > 0) {
      rows[i] = 1;
      --left;
    }
  }
  if (prompts.empty()) return rows;
  uint32_t chunk = std::min(left, limits.prefill_chunk);
  const auto give = [&](size_t i, uint32_t most) {
    const uint32_t before = rows[i], all = remaining[i];
    rows[i] = std::min(all, before + most);
    if (all >= limits.piece)
      rows[i] = rows[i] / limits.piece * limits.piece;
    else if (rows[i] < all)
      rows[i] = before;
    chunk -= rows[i] - before;
  };
  give(prompts.front(), std::max(std::min(limits.piece, chunk), (chunk + 1) / 2));
  std::stable_sort(prompts.begin() + 1, prompts.end(),
                   [&](size_t a, size_t b) { return remaining[a] < remaining[b]; });
  for (size_t k = 1; k < prompts.size(); ++k) give(prompts[k], chunk);
  give(prompts.front(), chunk);
  return rows;
}

namespace {

// The newest figure counts a quarter: a machine changes its speed within seconds.
void average(double& mean, double value) { mean = mean == 0 ? value : 0.75 * mean + 0.25 * value; }

// A class that was too slow is tried again after some hundreds of steps: rarely enough to stay out
// of the 99th percentile.
constexpr double kForgetting = 0.999;

// Fewer rows read the weights for too little, however slow the machine is.
constexpr uint32_t kLeastRows = 32;
// Until the first step was measured.
constexpr uint32_t kFirstRows = 64;

}  // namespace

size_t PrefillPace::class_of(uint32_t rows) {
  const auto* const edge = std::ranges::lower_bound(kEdges, rows);
  return std::min<size_t>(static_cast<size_t>(edge - kEdges), kClasses - 1);
}

void PrefillPace::record(uint32_t decode_rows, uint32_t prompt_rows, double seconds) {
  if (decode_rows == 0) {
    if (prompt_rows >= kLeastRows) average(row_seconds_, seconds / prompt_rows);
    return;
  }
  if (prompt_rows == 0) return average(decode_seconds_, seconds);
  for (double& other : seconds_) other *= kForgetting;
  double& mean = seconds_[class_of(decode_rows + prompt_rows)];
  if (seconds > slowdown_ * decode_seconds_) mean = 0;  // one step too slow is one too many
  average(mean, seconds);
}

uint32_t PrefillPace::rows(uint32_t decode_rows, uint32_t chunk) const {
  if (decode_rows == 0) {
    if (row_seconds_ == 0) return std::min(chunk, kFirstRows);
    const double fit = kLongestStep / row_seconds_;
    if (fit >= chunk) return chunk;
    const auto rows = static_cast<uint32_t>(fit) / kLeastRows * kLeastRows;
    return std::min(chunk, std::max(rows, kLeastRows));
  }
  uint32_t best = 1;
  for (size_t i = 0; i < kClasses; ++i) {
    if (kEdges[i] <= decode_rows) continue;
    if (seconds_[i] > slowdown_ * decode_seconds_ && decode_seconds_ > 0) break;
    best = std::min(chunk, kEdges[i] - decode_rows);
    if (seconds_[i] == 0) break;  // one class further than what was measured
  }
  return best;
}

}  // namespace flare::runtime
