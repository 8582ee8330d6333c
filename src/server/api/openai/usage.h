// `usage` of OpenAI's chat and text completions.
#pragma once

#include <cstdint>

#include "base/json/json.h"
#include "runtime/request.h"

namespace flare::server {

Json usage_json(const runtime::Usage& usage, uint64_t reasoning_tokens);

}  // namespace flare::server
