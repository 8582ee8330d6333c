// The sampling fields that every generating endpoint shares (serving.md S8).
#pragma once

#include <string_view>

#include "server/api/fields.h"
#include "server/service/service.h"

namespace flare::server {

// Overrides `settings` with what the request gives: sampling, seed, stop ids, ignore_eos. Throws
// ApiError; unsupported_parameter for filters that this build does not run.
void read_sampling(const Fields& fields, const Service& service, GenerateSettings* settings);

// `prompt_logprobs` of serving.md S8.9; nullopt: not asked for. Throws ApiError
// prompt_logprobs_unavailable.
std::optional<int32_t> read_prompt_logprobs(const Fields& fields, const Service& service);

// `stop`: a string, or at most 16 of them, each nonempty and at most 256 bytes.
std::vector<std::string> read_stop(const Fields& fields, std::string_view name);

}  // namespace flare::server
