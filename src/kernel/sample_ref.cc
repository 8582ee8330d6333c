// Oracle of sample: every step over the whole vocabulary, in the order of serving.md S8.1.
#include "kernel/sample_ref.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace flare::kernel {
namespace {

struct Entry {
  int32_t id;
  double logit;
  double weight = 0;
};

// Weights stay unnormalised: equal weights then have exact sums, and borders no luck of rounding.
double mass_of(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& e : entries) sum += e.weight;
  return sum;
}

std::vector<Entry> legal_entries(const float* logits, int64_t vocabulary, const SampleParams& p) {
  std::map<int32_t, int> seen;
  std::map<int32_t, int> output;
  const int64_t begin = p.repeat_last_n < 0 ? 0 : std::max(0, p.n_history - p.repeat_last_n);
  for (int64_t i = begin; i < p.n_history; ++i) ++seen[p.history[i]];
  for (int64_t i = p.n_prompt; i < p.n_history; ++i) ++output[p.history[i]];
  std::vector<Entry> entries;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (p.id_limit > 0 && id >= p.id_limit) break;
    if (p.mask != nullptr && (p.mask[id / 32] >> (id % 32) & 1) == 0) continue;
    double l = logits[id];
    if (!(l > -HUGE_VAL)) continue;
    if (seen.contains(id)) l = l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty;
    if (output.contains(id))
      l -= p.presence_penalty + static_cast<double>(p.frequency_penalty) * output[id];
    entries.push_back({id, l});
  }
  return entries;
}

int32_t draw(const float* logits, int64_t vocabulary, const SampleParams& p) {
  std::vector<Entry> entries = legal_entries(logits, vocabulary, p);
  if (entries.empty()) return -1;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  if (p.temperature <= 1e-4f || p.top_p <= 0) return entries[0].id;
  for (Entry& e : entries) e.weight = std::exp((e.logit - entries[0].logit) / p.temperature);
  if (p.top_k > 0 && entries.size() > static_cast<size_t>(p.top_k)) entries.resize(p.top_k);
  if (p.top_p < 1) {
    const double wanted = p.top_p * mass_of(entries);
    double sum = 0;
    size_t n = 0;
    while (n < entries.size() && sum < wanted) sum += entries[n++].weight;
    entries.resize(n);
  }
  if (p.min_p > 0) {
    const double floor = p.min_p * entries[0].weight;
    size_t n = 1;
    while (n < entries.size() && entries[n].weight >= floor) ++n;
    entries.resize(n);
  }
  const double u =
      (philox4x32_10(p.seed, p.choice, p.position, p.purpose, 0).word[0] + 0.5) * 0x1p-32;
  const double target = u * mass_of(entries);
  double sum = 0;
  for (const Entry& e : entries) {
    sum += e.weight;
    if (sum >= target) return e.id;
  }
  return entries.back().id;
}

}  // namespace

void sample_ref(const LaunchArgs& args) {
  const OperandView& logits = args.operands[0];
  const auto* params = reinterpret_cast<const SampleParams*>(args.operands[1].data);
  auto* sampled = reinterpret_cast<int32_t*>(args.operands[2].data);
  for (int64_t l = 0; l < logits.rows; ++l)
    sampled[l] = draw(logits.f32(l), logits.cols, params[l]);
}

}  // namespace flare::kernel
