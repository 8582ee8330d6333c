// The objects `timings` (serving.md S13.4) and `prompt_progress` (S2.6).
#pragma once

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// As of that event: of the last one for a whole answer, of each with `timings_per_token`.
Json timings_json(const TextEvent& event);

// Of an event that has `progress`.
Json progress_json(const TextEvent& event);

}  // namespace flare::server
