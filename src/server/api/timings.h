// The `timings` object (serving.md S13.4).
#pragma once

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

Json timings_json(const TextEvent& last);

}  // namespace flare::server
