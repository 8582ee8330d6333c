// Selection keeps a sorted prefix of the candidates and extends it only as far as a filter or the
// draw asks: of 250,000 ids a few dozen matter.
#include "kernel/cpu/sample/draw.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace flare::kernel::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kGreedyTemperature = 1e-4f;
// The first candidates lie within this many nats of the best; e^−10 of the mass of one id.
constexpr double kFirstReach = 10;
constexpr int64_t kFirstSorted = 64;
constexpr int64_t kSortGrowth = 8;

uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Counts `ids` into counts, of which only these entries are touched.
template <typename Apply>
void for_each_distinct(const int32_t* ids, int64_t n, int64_t vocabulary, int32_t* counts,
                       Apply apply) {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocabulary; };
  for (int64_t i = 0; i < n; ++i)
    if (known(ids[i])) counts[ids[i]] = 0;
  for (int64_t i = 0; i < n; ++i)
    if (known(ids[i])) ++counts[ids[i]];
  for (int64_t i = 0; i < n; ++i)
    if (known(ids[i]) && counts[ids[i]] > 0) {
      apply(ids[i], counts[ids[i]]);
      counts[ids[i]] = 0;
    }
}

void apply_penalties(const SampleParams& p, int64_t vocabulary, const RowBuffers& buffers) {
  float* logits = buffers.logits;
  if (p.repetition_penalty != 1 && p.repeat_last_n != 0) {
    const int64_t n = p.repeat_last_n < 0 ? p.n_history : std::min(p.repeat_last_n, p.n_history);
    for_each_distinct(p.history + (p.n_history - n), n, vocabulary, buffers.counts,
                      [&](int32_t id, int32_t) {
                        float& l = logits[id];
                        l = l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty;
                      });
  }
  if (p.presence_penalty != 0 || p.frequency_penalty != 0)
    for_each_distinct(p.history + p.n_prompt, p.n_history - p.n_prompt, vocabulary, buffers.counts,
                      [&](int32_t id, int32_t count) {
                        logits[id] -=
                            p.presence_penalty + p.frequency_penalty * static_cast<float>(count);
                      });
}

// The candidates in descending order, found on demand.
class Ranking {
 public:
  Ranking(const RowBuffers& buffers, int64_t vocabulary, const Passes& passes, float top,
          double temperature)
      : buffers_(buffers),
        vocabulary_(vocabulary),
        passes_(passes),
        top_(top),
        temperature_(temperature) {}

  // False past the last legal id.
  bool has(int64_t rank) {
    while (rank >= sorted_)
      if (!extend()) return false;
    return true;
  }
  // has(rank) was true.
  int32_t id(int64_t rank) const { return buffers_.candidates[rank].id; }
  double weight(int64_t rank) const {
    return std::exp((static_cast<double>(buffers_.candidates[rank].logit) - top_) / temperature_);
  }

 private:
  bool extend() {
    Candidate* first = buffers_.candidates;
    if (sorted_ == found_) {
      if (complete_) return false;
      // What was sorted lies above the old floor and stays a prefix of the larger set.
      reach_ = reach_ == 0 ? kFirstReach : reach_ * 4;
      const double floor = top_ - reach_ * temperature_;
      complete_ = reach_ > 100 || floor <= std::numeric_limits<float>::lowest();
      found_ = passes_.collect(
          buffers_.logits, vocabulary_,
          complete_ ? std::numeric_limits<float>::lowest() : static_cast<float>(floor), first);
      if (sorted_ > 0)
        std::nth_element(first, first + (sorted_ - 1), first + found_, before),
            std::sort(first, first + sorted_, before);
      return found_ > sorted_ || !complete_;
    }
    const int64_t wanted = std::min(found_, sorted_ == 0 ? kFirstSorted : sorted_ * kSortGrowth);
    if (wanted < found_)
      std::nth_element(first + sorted_, first + (wanted - 1), first + found_, before);
    std::sort(first + sorted_, first + wanted, before);
    sorted_ = wanted;
    return true;
  }

  const RowBuffers& buffers_;
  const int64_t vocabulary_;
  const Passes& passes_;
  const float top_;
  const double temperature_;
  double reach_ = 0;
  bool complete_ = false;
  int64_t found_ = 0;
  int64_t sorted_ = 0;
};

// How many ranks pass the filters, or −1 for all of them; `mass` becomes their weight.
int64_t kept_ranks(Ranking& ranking, const SampleParams& p, double& mass) {
  int64_t kept = -1;
  if (p.top_k > 0) {
    mass = 0;
    for (kept = 0; kept < p.top_k && ranking.has(kept); ++kept) mass += ranking.weight(kept);
  }
  if (p.top_p < 1) {
    const double wanted = p.top_p * mass;
    double sum = 0;
    int64_t n = 0;
    while ((kept < 0 || n < kept) && sum < wanted && ranking.has(n)) sum += ranking.weight(n++);
    kept = n;
    mass = sum;
  }
  if (p.min_p > 0) {
    double sum = 0;
    int64_t n = 0;
    while ((kept < 0 || n < kept) && ranking.has(n) && (n == 0 || ranking.weight(n) >= p.min_p))
      sum += ranking.weight(n++);
    kept = n;
    mass = sum;
  }
  return kept;
}

// buffers.logits holds the raw row. The candidates are free again afterwards.
void rank_raw(int64_t n, const SampleParams& p, const RowBuffers& buffers, const Passes& passes,
              double& log_mass) {
  RowLogprobs& out = *p.logprobs;
  out.n_top = 0;
  const float top = passes.largest(buffers.logits, n);
  log_mass = top == kNever ? 0 : top + std::log(passes.total(buffers.logits, n, top, 1));
  if (top == kNever) return;
  Ranking ranking(buffers, n, passes, top, 1);
  const int32_t wanted = std::min(p.top_logprobs, RowLogprobs::kMaxTop);
  for (; out.n_top < wanted && ranking.has(out.n_top); ++out.n_top) {
    const Candidate& c = buffers.candidates[out.n_top];
    out.top[out.n_top] = {c.id, static_cast<float>(c.logit - log_mass)};
  }
}

float logprob_of(const float* logits, int64_t n, int32_t id, double log_mass) {
  // The same clean-up as in the copy: NaN is no number, +∞ the largest.
  if (id < 0 || id >= n || !(logits[id] > kNever)) return RowLogprobs::kImpossible;
  return static_cast<float>(std::min(logits[id], std::numeric_limits<float>::max()) - log_mass);
}

}  // namespace

uint64_t row_bytes(int64_t vocabulary) {
  const uint64_t n = static_cast<uint64_t>(vocabulary);
  return 2 * aligned(n * sizeof(float)) + aligned(n * sizeof(Candidate));
}

RowBuffers row_buffers(std::byte* base, int64_t vocabulary) {
  const uint64_t n = static_cast<uint64_t>(vocabulary);
  RowBuffers buffers;
  buffers.logits = reinterpret_cast<float*>(base);
  buffers.counts = reinterpret_cast<int32_t*>(base + aligned(n * sizeof(float)));
  buffers.candidates = reinterpret_cast<Candidate*>(base + 2 * aligned(n * sizeof(float)));
  return buffers;
}

double uniform(const SampleParams& p) {
  const Philox random = philox4x32_10(p.seed, p.choice, p.position, p.purpose, 0);
  return (random.word[0] + 0.5) * 0x1p-32;
}

namespace {

int32_t draw(const float* logits, int64_t legal, const SampleParams& p, const RowBuffers& buffers,
             const Passes& passes) {
  passes.copy(logits, p.mask, legal, buffers.logits);
  apply_penalties(p, legal, buffers);
  const float top = passes.largest(buffers.logits, legal);
  if (top == kNever) return -1;
  if (p.temperature <= kGreedyTemperature || p.top_p <= 0 || p.top_k == 1)
    return static_cast<int32_t>(passes.first(buffers.logits, legal, top));
  Ranking ranking(buffers, legal, passes, top, p.temperature);
  double mass = p.top_k > 0 ? 0 : passes.total(buffers.logits, legal, top, 1.0f / p.temperature);
  const int64_t kept = kept_ranks(ranking, p, mass);
  const double target = uniform(p) * mass;
  double sum = 0;
  int64_t rank = 0;
  // Rounding may leave the sum short of the mass: the last rank takes what is left.
  while ((kept < 0 || rank < kept) && ranking.has(rank)) {
    sum += ranking.weight(rank++);
    if (sum >= target) break;
  }
  return ranking.id(rank - 1);
}

}  // namespace

int32_t sample_row(const float* logits, int64_t vocabulary, const SampleParams& p,
                   const RowBuffers& buffers, const Passes& passes) {
  const int64_t legal = p.id_limit > 0 ? std::min<int64_t>(p.id_limit, vocabulary) : vocabulary;
  double log_mass = 0;
  if (p.logprobs != nullptr) {
    passes.copy(logits, nullptr, legal, buffers.logits);
    rank_raw(legal, p, buffers, passes, log_mass);
  }
  const int32_t id = p.given >= 0 ? p.given : draw(logits, legal, p, buffers, passes);
  if (p.logprobs != nullptr) p.logprobs->drawn = logprob_of(logits, legal, id, log_mass);
  return id;
}

}  // namespace flare::kernel::sampling
