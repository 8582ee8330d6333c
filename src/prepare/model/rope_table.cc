// The four frequency rules, computed in double and rounded once.
#include "prepare/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace flare::prepare {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

void apply_llama3(const Config& rope, std::vector<double>& f) {
  const double factor = rope.positive_real("factor");
  const double low = rope.positive_real("low_freq_factor");
  const double high = rope.positive_real("high_freq_factor");
  const double context = rope.positive_real("original_max_position_embeddings");
  if (!(low < high))
    throw Error(Code::kBinding, "low_freq_factor is {}, less than high_freq_factor {} expected",
                low, high);
  for (double& fi : f) {
    const double wavelength = kTwoPi / fi;
    if (wavelength < context / high) continue;
    if (wavelength > context / low) {
      fi /= factor;
    } else {
      const double s = (context / wavelength - low) / (high - low);
      fi = (1 - s) * fi / factor + s * fi;
    }
  }
}

double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

// Returns the factor on cos and sin.
double apply_yarn(const Config& rope, double theta, uint32_t dims, std::vector<double>& f) {
  const double factor = rope.positive_real("factor");
  const double context = rope.positive_real("original_max_position_embeddings");
  const auto correction = [&](double rotations) {
    return dims * std::log(context / (rotations * kTwoPi)) / (2 * std::log(theta));
  };
  double low = correction(rope.positive_real_or("beta_fast", 32));
  double high = correction(rope.positive_real_or("beta_slow", 1));
  if (rope.flag_or("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1.0);
  if (low == high) high += 0.001;  // the reference's guard against a step of width zero
  for (size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / factor * ramp + f[i] * (1 - ramp);
  }
  if (rope.has("attention_factor")) return rope.positive_real("attention_factor");
  if (rope.has("mscale") && rope.has("mscale_all_dim"))
    return yarn_magnitude(factor, rope.positive_real("mscale")) /
           yarn_magnitude(factor, rope.positive_real("mscale_all_dim"));
  return yarn_magnitude(factor, 1);
}

}  // namespace

RopeTable make_rope_table(const Config& rope, uint32_t rotary_dims) {
  const double theta = rope.real("rope_theta");
  if (!(theta > 1)) throw Error(Code::kBinding, "rope_theta is {}, more than 1 expected", theta);
  std::vector<double> f(rotary_dims / 2);
  for (size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(theta, -2.0 * static_cast<double>(i) / rotary_dims);
  RopeTable table;
  const std::string type = rope.text_or("rope_type", "default");
  if (type == "linear") {
    const double factor = rope.positive_real("factor");
    for (double& fi : f) fi /= factor;
  } else if (type == "llama3") {
    apply_llama3(rope, f);
  } else if (type == "yarn") {
    table.factor = apply_yarn(rope, theta, rotary_dims, f);
  } else if (type != "default") {
    throw Error(Code::kSupport, "rope_type {}: default, linear, llama3 or yarn expected",
                quote(type));
  }
  table.frequencies.assign(f.begin(), f.end());
  return table;
}

}  // namespace flare::prepare
