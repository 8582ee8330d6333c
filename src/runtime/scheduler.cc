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

// Of the slowdown that is allowed: the rest is for what a machine does now and then, so that the
// 99th percentile keeps to it too where the machine is quiet.
constexpr double kUsualShare = 0.85;
// Steps until a class that was too slow is tried again: rarely enough that its steps stay out of
// the 99th percentile.
constexpr uint64_t kClosed = 400;
// The same behind a single slow step, which may have been the machine's.
constexpr uint64_t kDoubted = 20;
// Steps of a class before the next larger one is tried.
constexpr size_t kKnown = 3;

// Fewer rows read the weights for too little, however slow the machine is.
constexpr uint32_t kLeastRows = 32, kMostRows = 1 << 16;

// Prompt rows beside answers, however slow: the first one costs the reading of all that the prompt
// has stored, a second one little more. Qwen3-0.6B q4, two cores of AVX2: 4 rows 19.0 ms, 5 rows
// 26.5, 6 rows 27.4, 8 rows 34.4.
constexpr uint32_t kLeastBeside = 2;

}  // namespace

size_t PrefillPace::class_of(uint32_t rows) {
  const auto* const edge = std::ranges::lower_bound(kEdges, rows);
  return std::min<size_t>(static_cast<size_t>(edge - kEdges), kClasses - 1);
}

// 0: unknown.
double PrefillPace::limit() const {
  return std::max(1.0, kUsualShare * slowdown_) * decode_seconds_.get();
}

void PrefillPace::record(uint32_t decode_rows, uint32_t prompt_rows, double seconds) {
  if (decode_rows == 0) {
    // By doubling and halving: a busy machine makes steps long whatever their rows, and is no
    // reason for many small ones.
    if (seconds > kLongestStep && prompt_rows >= alone_rows_ / 2)
      alone_rows_ = std::max(alone_rows_ / 2, kLeastRows);
    else if (seconds < kLongestStep / 2 && prompt_rows >= alone_rows_ && alone_rows_ < kMostRows)
      alone_rows_ *= 2;
    return;
  }
  if (prompt_rows == 0) return decode_seconds_.add(seconds);
  ++steps_;
  Class& c = classes_[class_of(decode_rows + prompt_rows)];
  c.seconds.add(seconds);
  if (c.seconds.get() <= limit()) return;
  if (c.seconds.size() == 1) {
    c.closed_until = steps_ + kDoubted;
  } else {
    c.closed_until = steps_ + kClosed;
    c.seconds.clear();
  }
}

uint32_t PrefillPace::rows(uint32_t decode_rows, uint32_t chunk) const {
  if (decode_rows == 0) return std::min(chunk, alone_rows_);
  uint32_t best = std::min(chunk, kLeastBeside);
  for (size_t i = 0; i < kClasses; ++i) {
    if (kEdges[i] <= decode_rows) continue;
    if (classes_[i].closed_until > steps_ && limit() > 0) break;
    best = std::min(chunk, kEdges[i] - decode_rows);
    if (classes_[i].seconds.size() < kKnown) break;  // one class further than what is known
  }
  return best;
}

}  // namespace flare::runtime
