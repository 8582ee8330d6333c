// GET /props: what a client may want to know of the model before it asks (serving.md S1, native).
#pragma once

#include <span>
#include <string>

#include "base/json/json.h"
#include "server/service/service.h"

namespace flare::server {

// Defaults, slots, template, special tokens, modalities, reasoning levels, tool format and build.
// Names are llama.cpp's where it has one. `names` are the served ones, the first is the usual.
// Any thread; takes no engine lock but that of its counters.
Json props_json(Service& service, std::span<const std::string> names);

}  // namespace flare::server
