// Decode rows first, then prompt chunks; what is read of prompts follows the clock.
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
  std::ranges::stable_sort(prompts, {}, [&](size_t i) { return remaining[i]; });
  for (const size_t i : prompts) give(i, chunk);
  return rows;
}

namespace {

// What a machine does now and then adds to the 99th percentile, in usual tokens (measured: streams
// alone have it at 1.3 to 1.6 times their median, and with pieces beside them 0.5 to 0.6 above it).
// A slowdown leaves that much unused, or as much of itself.
constexpr double kSpare = 0.6;

// Fewer rows read the weights for too little, however slow the machine is.
constexpr uint32_t kLeastRows = 32, kMostRows = 1 << 16;
constexpr uint32_t kLeastPiece = 8, kMostPiece = 1 << 10;

// Of the time that a piece has beside a step: a launch that takes more leaves much of it unused, or
// takes more than all of it; where it takes less, larger pieces cost fewer reads of what they need.
constexpr double kLongLaunch = 0.5, kShortLaunch = 0.2;

}  // namespace

void PrefillPace::record_alone(uint32_t rows, double seconds) {
  // By doubling and halving: a busy machine makes steps long whatever their rows, and is no reason
  // for many small ones.
  if (rows > alone_rows_) seconds *= static_cast<double>(alone_rows_) / rows;
  if (seconds > kLongestStep && rows >= alone_rows_ / 2)
    alone_rows_ = std::max(alone_rows_ / 2, kLeastRows);
  else if (seconds < kLongestStep / 2 && rows >= alone_rows_ && alone_rows_ < kMostRows)
    alone_rows_ *= 2;
}

void PrefillPace::record_piece(uint32_t rows, double launch_seconds) {
  const double most = piece_seconds();
  if (launch_seconds > kLongLaunch * most)
    piece_rows_ = std::max(piece_rows_ / 2, kLeastPiece);
  else if (launch_seconds < kShortLaunch * most && rows >= piece_rows_ && piece_rows_ < kMostPiece)
    piece_rows_ *= 2;
}

void PrefillPace::record_answers(double seconds, bool beside_piece) {
  if (beside_piece) {
    beside_seconds_.add(seconds);
    ++n_beside_;
    return;
  }
  // What was true beside a piece of another time need not be so beside the next.
  if (n_beside_ == 0) beside_seconds_.clear();
  answer_seconds_.add(seconds);
  n_beside_ = 0;
}

// A step behind a part of a piece takes longer than one by itself: its keys and values are no
// longer in any cache. Where answers became fewer since the last step by itself, the other bound
// holds.
double PrefillPace::piece_seconds() const {
  const double share = std::max(slowdown_ - kSpare, 1 + (1 - kSpare) * (slowdown_ - 1));
  const double alone = answer_seconds_.get();
  if (beside_seconds_.size() == 0) return (share - 1) * alone;
  const double beside = beside_seconds_.get();
  return std::clamp(share * alone - beside, 0.0, (share - 1) * beside);
}

}  // namespace flare::runtime
