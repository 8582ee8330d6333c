// The searches of gguf_k_search.h.
#include "codec/gguf_k_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/float_types.h"
#include "codec/group_math.h"
#include "codec/grouped_search.h"

namespace flare::codec {
namespace {

constexpr uint16_t kInfinity = 0x7c00;
// Shared numbers are tried that give the largest group integers from their limit down to this much
// below: a smaller largest one may suit the others better.
constexpr int kShared = 16;
constexpr int kRounds = 2;  // of refinement
constexpr int kRefits = 3;

float inverse_of(float step) { return step == 0 ? 0 : 1 / step; }

// Least squares of x ≈ a·p − b·q from its normal equations
// pp·a − pq·b = px, −pq·a + qq·b = −qx; with b >= 0.
struct Pair {
  double a = 0, b = 0;
};
Pair solve(double pp, double pq, double qq, double px, double qx) {
  const double determinant = pp * qq - pq * pq;
  if (determinant > 1e-9 * pp * qq) {
    const Pair found = {(px * qq - qx * pq) / determinant, (px * pq - qx * pp) / determinant};
    if (found.b >= 0) return found;
  }
  return {pp > 0 ? px / pp : 0, 0};
}

// One group's own best step and minimum (value: step·c − least), before they become integers.
struct Fit {
  float step = 0, least = 0;
  float error = INFINITY;
  float weight = 0, codes_squared = 0;  // Σ w, Σ w·c²
};

class AffineSearch {
 public:
  AffineSearch(const float* x, const float* w, int max_code, float largest)
      : math_(group_math()), w_(w), high_(static_cast<float>(max_code)), scaling_(largest) {
    scaling_.scale(x, kKValues, x_);
  }

  bool run(AffineBlock& out) {
    for (int u = 0; u < kGroups; ++u) fit_group(u);
    if (!choose_shared(out)) return false;
    best_error_ = total(out);
    refine_integers(out);
    for (int round = 0; round < kRounds && refine_shared(out); ++round) refine_integers(out);
    for (int u = 0; u < kGroups; ++u)
      math_.quantise(x_ + kValues * u, kValues, grid(out, u), out.codes + kValues * u);
    return true;
  }

 private:
  static constexpr int kGroups = 8, kValues = 32;
  static constexpr float kTop = 63;

  Grid grid(float step, float least) const { return {inverse_of(step), step, least, 0, high_}; }
  Grid grid(const AffineBlock& b, int u) const {
    return grid(shared(b.d) * b.scale[u], shared(b.dmin) * b.least[u]);
  }
  float shared(uint16_t word) const { return scaling_.there(fp16_to_f32(word)); }

  void try_fit(int u, float step, float least) {
    if (!(step > 0) || !std::isfinite(step)) return;
    const Grid g = grid(step, least);
    const float error = math_.error(x_ + kValues * u, w_ + kValues * u, kValues, g);
    if (!(error < fits_[u].error)) return;
    fits_[u].step = step;
    fits_[u].least = least;
    fits_[u].error = error;
  }

  // The codes that (inverse, shift) give, fitted by least squares: how much of Σ w·x² the fit takes
  // away, which ranks codes.
  struct Codes {
    Pair fit;
    double gain = -1;
  };
  Codes codes_of(int u, float inverse, float shift) const {
    const Grid g = {inverse, 0, shift, 0, high_};
    const GridSums s = math_.sums(x_ + kValues * u, w_ + kValues * u, kValues, g);
    const double xq = static_cast<double>(s.xq) - static_cast<double>(shift) * s.q;
    const Pair fit = solve(s.qq, s.q, sum_w_, xq, sum_wx_);
    return {fit, fit.a * xq - fit.b * sum_wx_};
  }

  void fit_group(int u) {
    const float* x = x_ + kValues * u;
    const float* w = w_ + kValues * u;
    math_.moments(x, w, kValues, &sum_w_, &sum_wx_);
    const auto [lowest, highest] = std::minmax_element(x, x + kValues);
    const float least = std::max(0.0f, -*lowest);
    const float span = *highest + least;
    Fit& fit = fits_[u];
    if (span <= 0) {  // one value for all
      fit.least = least;
      fit.error = 0;
    } else {
      // From one code less than the span has to one more; then the codes of the best fit, while
      // they are better.
      Codes best;
      for (int i = -5; i <= 5; ++i) {
        const Codes codes = codes_of(u, (high_ + 0.2f * static_cast<float>(i)) / span, least);
        if (codes.gain > best.gain) best = codes;
      }
      try_fit(u, span / high_, least);
      for (int i = 0; i < kRefits; ++i) {
        const float before = fit.error;
        try_fit(u, static_cast<float>(best.fit.a), static_cast<float>(best.fit.b));
        if (!(fit.error < before)) break;
        best = codes_of(u, 1 / fit.step, fit.least);
      }
    }
    fit.weight = sum_w_;
    fit.codes_squared = math_.sums(x, w, kValues, grid(fit.step, fit.least)).qq;
  }

  // The fp16 word whose multiples 0..63 come nearest to the wanted numbers, weighted.
  template <typename Wanted, typename Weight>
  uint16_t choose_word(Wanted wanted, Weight weight) const {
    float top = 0;
    for (int u = 0; u < kGroups; ++u) top = std::max(top, wanted(u));
    if (top == 0) return 0;
    uint16_t best = 0, last = 0;
    double best_error = INFINITY;
    for (int i = 0; i < kShared; ++i) {
      const uint16_t word = f32_to_fp16(scaling_.back(top / (kTop - static_cast<float>(i))));
      if (word >= kInfinity) return kInfinity;
      if (word == last || word == 0) continue;
      last = word;
      const float unit = shared(word);
      double error = 0;
      for (int u = 0; u < kGroups; ++u) {
        const double miss = wanted(u) - unit * std::min(kTop, std::nearbyint(wanted(u) / unit));
        error += weight(u) * miss * miss;
      }
      if (error < best_error) {
        best_error = error;
        best = word;
      }
    }
    return best;
  }

  bool choose_shared(AffineBlock& out) const {
    out.d = choose_word([&](int u) { return fits_[u].step; },
                        [&](int u) { return static_cast<double>(fits_[u].codes_squared); });
    out.dmin = choose_word([&](int u) { return fits_[u].least; },
                           [&](int u) { return static_cast<double>(fits_[u].weight); });
    if (out.d >= kInfinity || out.dmin >= kInfinity) return false;
    const float step = inverse_of(shared(out.d)), least = inverse_of(shared(out.dmin));
    for (int u = 0; u < kGroups; ++u) {
      out.scale[u] = static_cast<uint8_t>(std::min(kTop, std::nearbyint(fits_[u].step * step)));
      out.least[u] = static_cast<uint8_t>(std::min(kTop, std::nearbyint(fits_[u].least * least)));
    }
    return true;
  }

  float group_error(const AffineBlock& b, int u) const {
    return math_.error(x_ + kValues * u, w_ + kValues * u, kValues, grid(b, u));
  }
  double total(const AffineBlock& b) const {
    double sum = 0;
    for (int u = 0; u < kGroups; ++u) sum += group_error(b, u);
    return sum;
  }

  // Every group's integers and their neighbours, under the shared numbers as they are.
  void refine_integers(AffineBlock& b) {
    for (int u = 0; u < kGroups; ++u) {
      const int scale = b.scale[u], least = b.least[u];
      float best = group_error(b, u);
      std::pair<uint8_t, uint8_t> chosen = {b.scale[u], b.least[u]};
      for (int ds = -1; ds <= 1; ++ds)
        for (int dl = -1; dl <= 1; ++dl) {
          if (scale + ds < 0 || scale + ds > kTop || least + dl < 0 || least + dl > kTop) continue;
          b.scale[u] = static_cast<uint8_t>(scale + ds);
          b.least[u] = static_cast<uint8_t>(least + dl);
          const float error = group_error(b, u);
          if (!(error < best)) continue;
          best = error;
          chosen = {b.scale[u], b.least[u]};
        }
      std::tie(b.scale[u], b.least[u]) = chosen;
    }
    best_error_ = total(b);
  }

  // The shared numbers that fit the codes best; true if that is better.
  bool refine_shared(AffineBlock& b) {
    double pp = 0, pq = 0, qq = 0, px = 0, qx = 0;
    for (int u = 0; u < kGroups; ++u) {
      const Grid g = grid(b, u);
      const GridSums s = math_.sums(x_ + kValues * u, w_ + kValues * u, kValues, g);
      float sum_w, sum_wx;
      math_.moments(x_ + kValues * u, w_ + kValues * u, kValues, &sum_w, &sum_wx);
      const double scale = b.scale[u], least = b.least[u];
      const double xq = static_cast<double>(s.xq) - static_cast<double>(g.shift) * s.q;
      pp += scale * scale * s.qq;
      pq += scale * least * s.q;
      qq += least * least * sum_w;
      px += scale * xq;
      qx += least * sum_wx;
    }
    const Pair found = solve(pp, pq, qq, px, qx);
    AffineBlock other = b;
    other.d = f32_to_fp16(scaling_.back(static_cast<float>(std::max(0.0, found.a))));
    other.dmin = f32_to_fp16(scaling_.back(static_cast<float>(found.b)));
    if (other.d >= kInfinity || other.dmin >= kInfinity) return false;
    const double error = total(other);
    if (!(error < best_error_)) return false;
    best_error_ = error;
    b.d = other.d;
    b.dmin = other.dmin;
    return true;
  }

  const GroupMath& math_;
  const float* w_;
  float high_;
  Scaling scaling_;
  alignas(64) float x_[kKValues];
  Fit fits_[kGroups];
  float sum_w_ = 0, sum_wx_ = 0;  // of the group being fitted
  double best_error_ = INFINITY;
};

class SignedSearch {
 public:
  SignedSearch(const float* x, const float* w, float largest)
      : math_(group_math()), w_(w), scaling_(largest) {
    scaling_.scale(x, kKValues, x_);
  }

  bool run(SignedBlock& out) {
    for (int s = 0; s < kGroups; ++s) fit_group(s);
    if (!choose_shared(out)) return false;
    refine_integers(out);
    for (int round = 0; round < kRounds && refine_shared(out); ++round) refine_integers(out);
    for (int s = 0; s < kGroups; ++s)
      math_.quantise(x_ + kValues * s, kValues, grid(step(out, s)), out.codes + kValues * s);
    return true;
  }

 private:
  static constexpr int kGroups = 16, kValues = 16;

  static Grid grid(float step) { return {inverse_of(step), step, 0, -32, 31}; }
  float shared(uint16_t word) const { return scaling_.there(fp16_to_f32(word)); }
  float step(const SignedBlock& b, int s) const { return shared(b.d) * b.scale[s]; }
  float error(int s, float step) const {
    return math_.error(x_ + kValues * s, w_ + kValues * s, kValues, grid(step));
  }

  void fit_group(int s) {
    const float* x = x_ + kValues * s;
    const int32_t top = math_.top(x, kValues);
    if (top == 0) return;
    const float largest = std::bit_cast<float>(top);
    const float* w = w_ + kValues * s;
    double best = -1;
    // Codes reach further below zero than above: either sign of the step may be the better.
    for (const float sign : {1.0f, -1.0f})
      for (int i = 0; i < 8; ++i) {
        const float first = sign * largest / (30.0f + 0.5f * static_cast<float>(i));
        const GridSums sums = math_.sums(x, w, kValues, grid(first));
        const double gain = sums.qq > 0 ? static_cast<double>(sums.xq) * sums.xq / sums.qq : 0;
        if (gain <= best) continue;
        best = gain;
        steps_[s] = sums.qq > 0 ? sums.xq / sums.qq : first;
      }
    if (!std::isfinite(1 / steps_[s])) steps_[s] = 0;  // too small beside the block's largest
    weights_[s] = math_.sums(x, w, kValues, grid(steps_[s])).qq;
  }

  bool choose_shared(SignedBlock& out) const {
    float top = 0;
    for (const float step : steps_)
      if (std::fabs(step) > std::fabs(top)) top = step;
    if (top == 0) return true;
    double best_error = INFINITY;
    for (int i = 0; i < kShared; ++i) {
      // The largest step becomes an integer near −128 or 127.
      for (const float limit : {-128.0f + static_cast<float>(i), 127.0f - static_cast<float>(i)}) {
        const uint16_t word = f32_to_fp16(scaling_.back(top / limit));
        if ((word & 0x7fffu) >= kInfinity) return false;
        if ((word & 0x7fffu) == 0) continue;
        const float unit = shared(word);
        SignedBlock other{.d = word};
        double sum = 0;
        for (int s = 0; s < kGroups; ++s) {
          const float integer = std::clamp(std::nearbyint(steps_[s] / unit), -128.0f, 127.0f);
          other.scale[s] = static_cast<int8_t>(integer);
          const double miss = steps_[s] - unit * integer;
          sum += weights_[s] * miss * miss;
        }
        if (!(sum < best_error)) continue;
        best_error = sum;
        out = other;
      }
    }
    return true;
  }

  double total(const SignedBlock& b) const {
    double sum = 0;
    for (int s = 0; s < kGroups; ++s) sum += error(s, step(b, s));
    return sum;
  }

  void refine_integers(SignedBlock& b) {
    for (int s = 0; s < kGroups; ++s) {
      const int scale = b.scale[s];
      float best = error(s, step(b, s));
      for (const int other : {scale - 1, scale + 1}) {
        if (other < -128 || other > 127) continue;
        const float e = error(s, shared(b.d) * static_cast<float>(other));
        if (!(e < best)) continue;
        best = e;
        b.scale[s] = static_cast<int8_t>(other);
      }
    }
    best_error_ = total(b);
  }

  bool refine_shared(SignedBlock& b) {
    double pp = 0, px = 0;
    for (int s = 0; s < kGroups; ++s) {
      const GridSums sums =
          math_.sums(x_ + kValues * s, w_ + kValues * s, kValues, grid(step(b, s)));
      const double scale = b.scale[s];
      pp += scale * scale * sums.qq;
      px += scale * sums.xq;
    }
    if (!(pp > 0)) return false;
    SignedBlock other = b;
    other.d = f32_to_fp16(scaling_.back(static_cast<float>(px / pp)));
    if ((other.d & 0x7fffu) >= kInfinity) return false;
    const double error = total(other);
    if (!(error < best_error_)) return false;
    best_error_ = error;
    b.d = other.d;
    return true;
  }

  const GroupMath& math_;
  const float* w_;
  Scaling scaling_;
  alignas(64) float x_[kKValues];
  float steps_[kGroups] = {};
  float weights_[kGroups] = {};
  double best_error_ = INFINITY;
};

}  // namespace

bool search_affine(const float* x, const float* w, int max_code, AffineBlock& out) {
  const int32_t top = group_math().top(x, kKValues);
  if (top >= 0x7f800000) return false;
  out = {};
  return top == 0 || AffineSearch(x, w, max_code, std::bit_cast<float>(top)).run(out);
}

bool search_signed(const float* x, const float* w, SignedBlock& out) {
  const int32_t top = group_math().top(x, kKValues);
  if (top >= 0x7f800000) return false;
  out = {};
  return top == 0 || SignedSearch(x, w, std::bit_cast<float>(top)).run(out);
}

}  // namespace flare::codec
