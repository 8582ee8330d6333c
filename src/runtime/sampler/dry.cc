// The Z function over the window read backwards, capped at the last breaker.
#include "runtime/sampler/dry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flare::runtime {
namespace {

// z[k]: how far the sequence from k on agrees with its beginning (Gusfield, "Algorithms on Strings,
// Trees, and Sequences", 1.3). at(i), 0 <= i < n. z[0] is not set.
template <typename At>
void z_function(At at, int64_t n, std::vector<int32_t>& z) {
  z.assign(static_cast<size_t>(n), 0);
  int64_t left = 0, right = 0;  // [left, right): the agreement that reaches farthest
  for (int64_t k = 1; k < n; ++k) {
    int64_t length = k < right ? std::min<int64_t>(right - k, z[static_cast<size_t>(k - left)]) : 0;
    while (k + length < n && at(length) == at(k + length)) ++length;
    z[static_cast<size_t>(k)] = static_cast<int32_t>(length);
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}

float penalty_of(const DrySettings& s, int32_t run) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const double value = s.multiplier * std::pow(double{s.base}, run - s.allowed_length);
  return static_cast<float>(std::min<double>(value, kLargest));
}

}  // namespace

bool DryPenalty::is_breaker(int32_t id) const {
  const auto at = static_cast<size_t>(id);
  return breakers_ && id >= 0 && at / 32 < breakers_->size() &&
         ((*breakers_)[at / 32] >> (at % 32) & 1) != 0;
}

std::span<const kernel::LogitChange> DryPenalty::penalties(std::span<const int32_t> history) {
  penalties_.clear();
  longest_.clear();
  auto n = static_cast<int64_t>(history.size());
  if (settings_.penalty_last_n >= 0) n = std::min<int64_t>(n, settings_.penalty_last_n);
  if (settings_.multiplier <= 0 || n <= settings_.allowed_length) return {};
  // Backwards: 0 is the last id.
  const auto at = [&](int64_t i) { return history[history.size() - 1 - static_cast<size_t>(i)]; };
  int64_t limit = 0;  // ids behind the last breaker
  while (limit < n && !is_breaker(at(limit))) ++limit;
  if (limit < settings_.allowed_length) return {};
  z_function(at, n, repeats_);
  for (int64_t k = 1; k < n; ++k) {
    const auto run =
        static_cast<int32_t>(std::min<int64_t>(repeats_[static_cast<size_t>(k)], limit));
    if (run < settings_.allowed_length) continue;
    int32_t& longest = longest_.try_emplace(at(k - 1), run).first->second;
    longest = std::max(longest, run);
  }
  for (const auto& [id, run] : longest_)
    if (!is_breaker(id)) penalties_.push_back({id, penalty_of(settings_, run)});
  return penalties_;
}

}  // namespace flare::runtime
