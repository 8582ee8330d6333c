// Declaration and ranges (serving.md S8) of the sampling flags.
#include "flare/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "base/error.h"

namespace flare::app {
namespace {

template <typename T>
void check_range(std::string_view flag, const std::optional<T>& value, T low, T high) {
  if (value && !(*value >= low && *value <= high))
    throw Error(Code::kUsage, "{} is {}, expected {}..{}", flag, *value, low, high);
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags* flags) {
  const auto add = [&](const char* name, auto& value, const char* text, const char* type) {
    return app.add_option(name, value, text)->type_name(type)->group("Sampling");
  };
  add("--temperature", flags->temperature, "0 is greedy (the model's)", "X");
  add("--top-k", flags->top_k, "keep the K likeliest tokens, 0 is off (the model's)", "K");
  add("--top-p", flags->top_p, "keep the likeliest tokens up to this sum (the model's)", "X");
  add("--min-p", flags->min_p, "drop tokens below this share of the likeliest (the model's)", "X");
  add("--seed", flags->seed, "same seed, same answer (random)", "N")->check(check_integer<int64_t>);
  add("--max-tokens", flags->max_tokens, "length limit of an answer (rest of the context)", "N");
}

server::GenerateSettings settings_of(const SamplingFlags& flags, const server::Service& service) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  check_range("--temperature", flags.temperature, 0.0, 100.0);
  check_range("--top-p", flags.top_p, 0.0, 1.0);
  check_range("--min-p", flags.min_p, 0.0, 1.0);
  check_range<int64_t>("--top-k", flags.top_k, -1, kMaxInt);
  check_range<int64_t>("--max-tokens", flags.max_tokens, 0, std::numeric_limits<int64_t>::max());
  server::GenerateSettings settings = service.default_settings();
  runtime::SamplingSettings& s = settings.sampling;
  if (flags.temperature) s.temperature = static_cast<float>(*flags.temperature);
  if (flags.top_p) s.top_p = static_cast<float>(*flags.top_p);
  if (flags.min_p) s.min_p = static_cast<float>(*flags.min_p);
  if (flags.top_k) s.top_k = static_cast<int32_t>(std::max<int64_t>(*flags.top_k, 0));
  if (flags.seed) s.seed = static_cast<uint64_t>(*flags.seed);
  if (flags.max_tokens)
    settings.max_tokens = static_cast<uint32_t>(
        std::min<int64_t>(*flags.max_tokens, std::numeric_limits<uint32_t>::max()));
  for (const std::string& stop : flags.stop)
    if (stop.empty()) throw Error(Code::kUsage, "--stop is empty, expected a text");
  settings.stop = flags.stop;
  server::make_greedy_if_asked(&s);
  return settings;
}

}  // namespace flare::app
