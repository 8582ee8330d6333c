// The sampling flags of generate and chat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "server/service/service.h"

namespace flare::app {

struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p;
  std::optional<int64_t> top_k, seed, max_tokens;
  std::vector<std::string> stop;
};

void add_sampling_flags(CLI::App& app, SamplingFlags* flags);

// The model's defaults with the given flags on top. Errors: kUsage naming flag, value and range.
server::GenerateSettings settings_of(const SamplingFlags& flags, const server::Service& service);

}  // namespace flare::app
