// Collection by a floor that falls, sorting by pieces that grow.
#include "kernel/cpu/sample/ranking.h"

#include <algorithm>
#include <limits>

namespace flare::kernel::sampling {
namespace {

// The first candidates lie within this many nats of the best; e^−10 of the mass of one id.
constexpr double kFirstReach = 10;
constexpr double kReachGrowth = 4;
constexpr double kLastReach = 100;  // e^−100: beyond it everything
constexpr int64_t kFirstSorted = 64;
constexpr int64_t kSortGrowth = 8;

}  // namespace

int64_t Ranking::collect(double floor) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const double logit = top_ + floor * temperature_;
  // Rounded down, so that nothing at the floor is lost.
  const float limit =
      logit <= kLowest ? kLowest : std::nextafter(static_cast<float>(logit), kLowest);
  return passes_.collect(buffers_.logits, n_, limit, buffers_.candidates);
}

bool Ranking::extend() {
  Candidate* first = buffers_.candidates;
  if (sorted_ == found_) {
    if (complete_) return false;
    // What was sorted lies above the old floor and stays a prefix of the larger set.
    reach_ = reach_ == 0 ? kFirstReach : reach_ * kReachGrowth;
    complete_ = reach_ > kLastReach;
    found_ = collect(complete_ ? -std::numeric_limits<double>::infinity() : -reach_);
    if (sorted_ > 0) {
      std::nth_element(first, first + (sorted_ - 1), first + found_, before);
      std::sort(first, first + sorted_, before);
    }
    return found_ > sorted_ || !complete_;
  }
  const int64_t wanted = std::min(found_, sorted_ == 0 ? kFirstSorted : sorted_ * kSortGrowth);
  if (wanted < found_)
    std::nth_element(first + sorted_, first + (wanted - 1), first + found_, before);
  std::sort(first + sorted_, first + wanted, before);
  sorted_ = wanted;
  return true;
}

}  // namespace flare::kernel::sampling
