// All but typical_p keep neighbours of the ranking, so that only its head is ever sorted.
#include "kernel/cpu/sample/filters.h"

#include <algorithm>
#include <cmath>

namespace flare::kernel::sampling {
namespace {

// XTC never acts above it: two ids cannot both be likelier than that.
constexpr float kXtcMost = 0.5f;

Kept top_k(Ranking& ranking, const SampleParams& p) {
  Kept kept;
  if (p.top_k <= 0) {
    const RowBuffers& row = ranking.buffers();
    kept.mass = ranking.passes().total(row.logits, ranking.row_size(), ranking.top(),
                                       1.0f / static_cast<float>(ranking.temperature()));
    return kept;
  }
  kept.last = 0;
  while (kept.last < p.top_k && ranking.has(kept.last)) kept.mass += ranking.weight(kept.last++);
  return kept;
}

// Mean of the scaled logits of what is left. Since log p = s − log mass, distances to the mean of
// log p are distances to the mean of s.
double mean_scaled(const Ranking& ranking, const Kept& kept) {
  double sum = 0;
  if (kept.last == Kept::kAll) {
    const RowBuffers& row = ranking.buffers();
    sum = ranking.passes().moment(row.logits, ranking.row_size(), ranking.top(),
                                  1.0f / static_cast<float>(ranking.temperature()));
  } else {
    for (int64_t r = kept.first; r < kept.last; ++r)
      sum += ranking.weight(r) * ranking.scaled(ranking.at(r).logit);
  }
  return sum / kept.mass;
}

// Brings the shortest run of candidates, by `less`, whose weights reach `wanted` to the front;
// returns its length, n if all of them fall short. Halves what is open, so time is linear in n.
template <typename Less>
int64_t lightest_prefix(const Ranking& ranking, Candidate* first, int64_t n, double wanted,
                        Less less, double* mass) {
  double before_open = 0;  // weights of [0, low)
  int64_t low = 0, high = n;
  double whole = 0;
  for (int64_t i = 0; i < n; ++i) whole += ranking.weight(first[i]);
  double up_to_high = whole;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    std::nth_element(first + low, first + middle, first + high, less);
    double part = 0;
    for (int64_t i = low; i < middle; ++i) part += ranking.weight(first[i]);
    if (before_open + part >= wanted) {
      high = middle;
      up_to_high = before_open + part;
    } else {
      low = middle;
      before_open += part;
    }
  }
  *mass = up_to_high;
  return high;
}

void typical_p(Ranking& ranking, const SampleParams& p, Kept* kept) {
  if (p.typical_p >= 1) return;
  const double mean = mean_scaled(ranking, *kept);
  const double wanted = p.typical_p * kept->mass;
  Candidate* first = ranking.buffers().candidates;
  const auto distance = [&](const Candidate& c) {
    return std::abs(ranking.scaled(c.logit) - mean);
  };
  const auto nearer = [&](const Candidate& a, const Candidate& b) {
    const double x = distance(a), y = distance(b);
    return x != y ? x < y : before(a, b);
  };
  if (kept->last != Kept::kAll) {
    kept->last = lightest_prefix(ranking, first, kept->last, wanted, nearer, &kept->mass);
    ranking.restrict_to(kept->last);
    return;
  }
  // Ids within a distance that grows until they hold enough.
  constexpr double kFirstDistance = 1, kGrowth = 3, kWidest = 100;
  for (double reach = kFirstDistance;; reach *= kGrowth) {
    const bool widest = reach > kWidest;
    const int64_t found =
        ranking.collect(widest ? -std::numeric_limits<double>::infinity() : mean - reach);
    const int64_t n =
        std::partition(first, first + found,
                       [&](const Candidate& c) { return widest || distance(c) <= reach; }) -
        first;
    double held = 0;
    for (int64_t i = 0; i < n; ++i) held += ranking.weight(first[i]);
    if ((held < wanted || n == 0) && !widest) continue;
    kept->last = lightest_prefix(ranking, first, n, wanted, nearer, &kept->mass);
    ranking.restrict_to(kept->last);
    return;
  }
}

void top_p(Ranking& ranking, const SampleParams& p, Kept* kept) {
  if (p.top_p >= 1) return;
  const double wanted = p.top_p * kept->mass;
  double sum = 0;
  int64_t n = 0;
  while (kept->has(n, ranking) && (sum < wanted || n == 0)) sum += ranking.weight(n++);
  kept->last = n;
  kept->mass = sum;
}

// Cuts where `stays` first fails; the first rank stays.
template <typename Stays>
void cut(Ranking& ranking, Kept* kept, Stays stays) {
  double sum = 0;
  int64_t n = 0;
  while (kept->has(n, ranking) && (n == 0 || stays(n))) sum += ranking.weight(n++);
  kept->last = n;
  kept->mass = sum;
}

void min_p(Ranking& ranking, const SampleParams& p, Kept* kept) {
  if (p.min_p <= 0 || !ranking.has(0)) return;
  const double floor = p.min_p * ranking.weight(int64_t{0});
  cut(ranking, kept, [&](int64_t rank) { return ranking.weight(rank) >= floor; });
}

void top_n_sigma(Ranking& ranking, const SampleParams& p, Kept* kept) {
  if (p.top_n_sigma <= 0 || !ranking.has(0)) return;
  const float largest = ranking.at(0).logit;
  double n = 0, sum = 0, squares = 0;  // of distances to the largest
  const auto add = [&](float logit) {
    if (logit == kNever) return;
    const double d = static_cast<double>(logit) - largest;
    n += 1;
    sum += d;
    squares += d * d;
  };
  if (kept->last == Kept::kAll) {
    const float* logits = ranking.buffers().logits;
    for (int64_t i = 0; i < ranking.row_size(); ++i) add(logits[i]);
  } else {
    for (int64_t r = 0; r < kept->last; ++r) add(ranking.at(r).logit);
  }
  const double mean = sum / n;
  const double sigma = std::sqrt(std::max(0.0, squares / n - mean * mean));
  const double floor = -p.top_n_sigma * sigma;
  cut(ranking, kept,
      [&](int64_t rank) { return static_cast<double>(ranking.at(rank).logit) - largest >= floor; });
}

void xtc(Ranking& ranking, const SampleParams& p, double coin, Kept* kept) {
  if (p.xtc_probability <= 0 || p.xtc_threshold > kXtcMost || coin > p.xtc_probability) return;
  const double floor = p.xtc_threshold * kept->mass;
  int64_t last = -1;  // of those likely enough
  while (kept->has(last + 1, ranking) && ranking.weight(last + 1) >= floor) ++last;
  if (last <= 0) return;
  // The new mass is summed up, not left over: what goes may be all but a rounding error of it.
  const float top = ranking.at(last).logit;
  if (kept->last == Kept::kAll) {
    const RowBuffers& row = ranking.buffers();
    for (int64_t r = 0; r < last; ++r) row.logits[ranking.at(r).id] = kNever;
    ranking.restart(top);
    kept->mass = ranking.passes().total(row.logits, ranking.row_size(), top,
                                        1.0f / static_cast<float>(ranking.temperature()));
    return;
  }
  ranking.weigh_from(top);
  kept->first = last;
  kept->mass = 0;
  for (int64_t r = last; r < kept->last; ++r) kept->mass += ranking.weight(r);
}

}  // namespace

Kept apply_filters(Ranking& ranking, const SampleParams& p, double coin) {
  Kept kept = top_k(ranking, p);
  typical_p(ranking, p, &kept);
  top_p(ranking, p, &kept);
  min_p(ranking, p, &kept);
  top_n_sigma(ranking, p, &kept);
  xtc(ranking, p, coin, &kept);
  return kept;
}

}  // namespace flare::kernel::sampling
