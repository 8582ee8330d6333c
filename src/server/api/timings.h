// The `timings` object (serving.md S13.4).
#pragma once

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// As of that event: of the last one for a whole answer, of each with `timings_per_token`.
Json timings_json(const TextEvent& event);

}  // namespace flare::server
