// Declaration of the sampling flags; what they may be is said once, where requests are read.
#include "flare/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "common/command_line.h"
#include "server/api/errors.h"
#include "server/api/sampling_fields.h"

namespace flare::app {
namespace {

struct NumberFlag {
  const char* name;  // with _ for -, and without --, a field of serving.md S8
  const char* text;
};

constexpr NumberFlag kNumbers[] = {
    {"--temperature", "0 is greedy (the model's)"},
    {"--top-k", "keep the likeliest tokens, 0 is off (the model's)"},
    {"--top-p", "keep the likeliest tokens up to this sum (the model's)"},
    {"--min-p", "drop tokens below this share of the likeliest (the model's)"},
    {"--typical-p", "keep the most typical tokens up to this sum (1, off)"},
    {"--top-n-sigma", "drop tokens so many deviations below the best (-1, off)"},
    {"--xtc-probability", "how often all but the last likely token are dropped (0)"},
    {"--xtc-threshold", "what is likely for that (0.1)"},
    {"--repetition-penalty", "divide what was said or asked (the model's)"},
    {"--repeat-last-n", "tokens that it looks back, -1 is all (64)"},
    {"--presence-penalty", "taken off what was said (the model's)"},
    {"--frequency-penalty", "the same for each time (the model's)"},
    {"--dry-multiplier", "penalty on what would go on a repetition (0, off)"},
    {"--dry-base", "its growth with every repeated token (1.75)"},
    {"--dry-allowed-length", "repeated tokens that are free (2)"},
    {"--dry-penalty-last-n", "tokens that it looks back, -1 is all (-1)"},
    {"--min-tokens", "the answer does not end before (0)"},
};

std::string field_of(std::string_view flag) {
  std::string field(flag.substr(2));
  std::ranges::replace(field, '-', '_');
  return field;
}

// 'top_p' → --top-p
std::string as_flag(const server::ApiError& error) {
  std::string message = error.message;
  std::string flag = error.param;
  std::ranges::replace(flag, '_', '-');
  const std::string quoted = "'" + error.param + "'";
  if (const size_t at = message.find(quoted); at != std::string::npos)
    message.replace(at, quoted.size(), flag);
  return message;
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingFlags* flags) {
  for (const NumberFlag& flag : kNumbers)
    app.add_option_function<double>(
           flag.name,
           [flags, field = field_of(flag.name)](const double& x) { flags->numbers[field] = x; },
           flag.text)
        ->type_name("X")
        ->check(check_finite)
        ->group("Sampling");
  app.add_option("--seed", flags->seed, "same seed, same answer (random)")
      ->type_name("N")
      ->check(check_integer<int64_t>)
      ->group("Sampling");
  app.add_option("--max-tokens", flags->max_tokens,
                 "length limit of an answer (rest of the context)")
      ->type_name("N")
      ->group("Sampling");
}

server::GenerateSettings settings_of(const SamplingFlags& flags, const server::Service& service) {
  Json fields = Json::object();
  for (const auto& [field, value] : flags.numbers) fields.set(field, value);
  if (flags.seed) fields.set("seed", *flags.seed);
  server::GenerateSettings settings = service.default_settings();
  try {
    server::read_sampling(server::Fields(fields, "--"), service, &settings);
  } catch (const server::ApiError& error) {
    throw Error(Code::kUsage, "{}", as_flag(error));
  }
  if (flags.max_tokens) {
    if (*flags.max_tokens < 0)
      throw Error(Code::kUsage, "--max-tokens is {}, expected 0 or more", *flags.max_tokens);
    settings.max_tokens = static_cast<uint32_t>(
        std::min<int64_t>(*flags.max_tokens, std::numeric_limits<uint32_t>::max()));
  }
  for (const std::string& stop : flags.stop)
    if (stop.empty()) throw Error(Code::kUsage, "--stop is empty, expected a text");
  settings.stop = flags.stop;
  return settings;
}

}  // namespace flare::app
