// Changes of single logits touch their ids alone; everything else is a pass over the row.
#include "kernel/cpu/sample/draw.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernel/cpu/sample/filters.h"
#include "kernel/cpu/sample/ranking.h"

namespace flare::kernel::sampling {
namespace {

constexpr float kGreedyTemperature = 1e-4f;

uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

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

// An id that is out stays out, one that is in stays in: sums do not become infinite.
void set_logit(float& logit, float value) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (logit != kNever) logit = std::clamp(value, -kLargest, kLargest);
}

void apply_bias(const SampleParams& p, int64_t vocabulary, float* logits) {
  const auto known = [&](int32_t id) { return id >= 0 && id < vocabulary; };
  for (int32_t i = 0; i < p.n_bias; ++i) {
    const auto [id, value] = p.bias[i];
    if (known(id)) set_logit(logits[id], logits[id] + value);
  }
  for (int32_t i = 0; i < p.n_banned; ++i)
    if (known(p.banned[i])) logits[p.banned[i]] = kNever;
}

void apply_penalties(const SampleParams& p, int64_t vocabulary, const RowBuffers& buffers) {
  float* logits = buffers.logits;
  if (p.repetition_penalty != 1 && p.repeat_last_n != 0) {
    const int64_t n = p.repeat_last_n < 0 ? p.n_history : std::min(p.repeat_last_n, p.n_history);
    for_each_distinct(
        p.history + (p.n_history - n), n, vocabulary, buffers.counts, [&](int32_t id, int32_t) {
          const float l = logits[id];
          set_logit(logits[id], l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty);
        });
  }
  if (p.presence_penalty != 0 || p.frequency_penalty != 0)
    for_each_distinct(p.history + p.n_prompt, p.n_history - p.n_prompt, vocabulary, buffers.counts,
                      [&](int32_t id, int32_t count) {
                        const float taken =
                            p.presence_penalty + p.frequency_penalty * static_cast<float>(count);
                        set_logit(logits[id], logits[id] - taken);
                      });
  for (int32_t i = 0; i < p.n_extra; ++i) {
    const auto [id, value] = p.extra[i];
    if (id >= 0 && id < vocabulary) set_logit(logits[id], logits[id] - value);
  }
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
    const Candidate& c = ranking.at(out.n_top);
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

namespace {

// In (0, 1).
double uniform(const SampleParams& p, DrawPurpose purpose) {
  const auto word = static_cast<uint32_t>(purpose);
  const Philox random = philox4x32_10(p.seed, p.choice, p.position, word, 0);
  return (random.word[0] + 0.5) * 0x1p-32;
}

int32_t draw(const float* logits, int64_t legal, const SampleParams& p, const RowBuffers& buffers,
             const Passes& passes) {
  passes.copy(logits, p.mask, legal, buffers.logits);
  apply_bias(p, legal, buffers.logits);
  apply_penalties(p, legal, buffers);
  const float top = passes.largest(buffers.logits, legal);
  if (top == kNever) return -1;
  if (p.temperature <= kGreedyTemperature || p.top_p <= 0 || p.top_k == 1)
    return static_cast<int32_t>(passes.first(buffers.logits, legal, top));
  Ranking ranking(buffers, legal, passes, top, p.temperature);
  const double coin = p.xtc_probability > 0 ? uniform(p, DrawPurpose::kXtc) : 1;
  const Kept kept = apply_filters(ranking, p, coin);
  const double target = uniform(p, DrawPurpose::kToken) * kept.mass;
  double sum = 0;
  int64_t rank = kept.first;
  // Rounding may leave the sum short of the mass: the last rank takes what is left.
  while (kept.has(rank, ranking)) {
    sum += ranking.weight(rank++);
    if (sum >= target) break;
  }
  return ranking.at(rank - 1).id;
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
