// The sampling flags of generate and chat.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "server/service/service.h"

namespace flare::app {

struct SamplingFlags {
  std::map<std::string, double> numbers;  // what was given, by the name of a request's field
  std::optional<int64_t> seed, max_tokens;
  std::vector<std::string> stop;
};

void add_sampling_flags(CLI::App& app, SamplingFlags* flags);

// The model's defaults with the given flags on top: ranges and meaning are those of a request's
// fields. Errors: kUsage naming flag, value and range.
server::GenerateSettings settings_of(const SamplingFlags& flags, const server::Service& service);

}  // namespace flare::app
