// Oracle of sample: every step over the whole vocabulary, in the order of serving.md S8.1.
#include "kernel/sample_ref.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace flare::kernel {
namespace {

struct Entry {
  int32_t id;
  double logit;
  double weight = 0;
};

using Entries = std::vector<Entry>;

// Weights stay unnormalised: equal weights then have exact sums, and borders no luck of rounding.
double mass_of(const Entries& entries) {
  double sum = 0;
  for (const Entry& e : entries) sum += e.weight;
  return sum;
}

double uniform(const SampleParams& p, DrawPurpose purpose) {
  const auto word = static_cast<uint32_t>(purpose);
  return (philox4x32_10(p.seed, p.choice, p.position, word, 0).word[0] + 0.5) * 0x1p-32;
}

std::map<int32_t, double> as_map(const LogitChange* changes, int32_t n) {
  std::map<int32_t, double> out;
  for (int32_t i = 0; i < n; ++i) out[changes[i].id] += changes[i].value;
  return out;
}

// Ties are ties of binary32 numbers.
double rounded(double logit) { return static_cast<float>(logit); }

Entries legal_entries(const float* logits, int64_t vocabulary, const SampleParams& p) {
  std::map<int32_t, int> seen;
  std::map<int32_t, int> output;
  const int64_t begin = p.repeat_last_n < 0 ? 0 : std::max(0, p.n_history - p.repeat_last_n);
  for (int64_t i = begin; i < p.n_history; ++i) ++seen[p.history[i]];
  for (int64_t i = p.n_prompt; i < p.n_history; ++i) ++output[p.history[i]];
  const std::set<int32_t> banned(p.banned, p.banned + p.n_banned);
  std::map<int32_t, double> bias = as_map(p.bias, p.n_bias), extra = as_map(p.extra, p.n_extra);
  Entries entries;
  for (int32_t id = 0; id < vocabulary; ++id) {
    if (p.id_limit > 0 && id >= p.id_limit) break;
    if (banned.contains(id)) continue;
    if (p.mask != nullptr && (p.mask[id / 32] >> (id % 32) & 1) == 0) continue;
    double l = logits[id];
    if (!(l > -HUGE_VAL)) continue;
    l = rounded(l + bias[id]);
    if (seen.contains(id)) l = rounded(l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty);
    if (output.contains(id))
      l = rounded(l -
                  rounded(p.presence_penalty + rounded(double{p.frequency_penalty} * output[id])));
    entries.push_back({id, rounded(l - extra[id])});
  }
  return entries;
}

// The shortest run from the front that holds this share of the whole.
void keep_share(Entries& entries, double share) {
  const double wanted = share * mass_of(entries);
  double sum = 0;
  size_t n = 0;
  do sum += entries[n++].weight;
  while (n < entries.size() && sum < wanted);
  entries.resize(n);
}

// Entries come and go in descending order.
void keep_typical(Entries& entries, double temperature, double share) {
  const double mass = mass_of(entries);
  double mean = 0;  // of the logits over the temperature, under what is left
  for (const Entry& e : entries) mean += e.weight / mass * (e.logit / temperature);
  const auto distance = [&](const Entry& e) { return std::abs(e.logit / temperature - mean); };
  const auto descending = [](const Entry& a, const Entry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return distance(a) < distance(b); });
  keep_share(entries, share);
  std::sort(entries.begin(), entries.end(), descending);
}

void keep_near_largest(Entries& entries, double n_sigma) {
  double mean = 0, variance = 0;
  for (const Entry& e : entries) mean += e.logit / static_cast<double>(entries.size());
  for (const Entry& e : entries)
    variance += (e.logit - mean) * (e.logit - mean) / static_cast<double>(entries.size());
  const double floor = entries[0].logit - n_sigma * std::sqrt(variance);
  std::erase_if(entries, [=, best = entries[0].logit](const Entry& e) {
    return e.logit < floor && e.logit != best;
  });
}

void exclude_top_choices(Entries& entries, double threshold) {
  const double floor = threshold * mass_of(entries);
  const auto n = std::ranges::count_if(entries, [&](const Entry& e) { return e.weight >= floor; });
  if (n > 1) entries.erase(entries.begin(), entries.begin() + (n - 1));
}

int32_t draw(const float* logits, int64_t vocabulary, const SampleParams& p) {
  Entries entries = legal_entries(logits, vocabulary, p);
  if (entries.empty()) return -1;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  if (p.temperature <= 1e-4f || p.top_p <= 0) return entries[0].id;
  for (Entry& e : entries) e.weight = std::exp((e.logit - entries[0].logit) / p.temperature);
  if (p.top_k > 0 && entries.size() > static_cast<size_t>(p.top_k)) entries.resize(p.top_k);
  if (p.typical_p < 1) keep_typical(entries, p.temperature, p.typical_p);
  if (p.top_p < 1) keep_share(entries, p.top_p);
  if (p.min_p > 0) {
    const double floor = p.min_p * entries[0].weight;
    std::erase_if(entries, [=](const Entry& e) { return e.weight < floor; });
  }
  if (p.top_n_sigma > 0) keep_near_largest(entries, p.top_n_sigma);
  if (p.xtc_threshold <= 0.5f && uniform(p, DrawPurpose::kXtc) <= p.xtc_probability)
    exclude_top_choices(entries, p.xtc_threshold);
  const double target = uniform(p, DrawPurpose::kToken) * mass_of(entries);
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
    sampled[l] =
        params[l].given >= 0 ? params[l].given : draw(logits.f32(l), logits.cols, params[l]);
}

}  // namespace flare::kernel
