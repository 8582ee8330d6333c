// Component configs of version 1 and 2 artifacts, which hold none: from a checkpoint's config.json
// or from what is known of published models (spec/artifact.md §15.2, §17).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace flare::prepare {

// The config.json of a known model by the model_id of the old file; nullopt: unknown.
std::optional<Json> known_config(std::string_view model_id);

// The closed member sets of §15.2 from a config.json of the Qwen3.5 family, with its defaults.
// `where` names the file for messages. Errors: kBinding naming the member.
Json text_config(const Json& config, bool is_tied, bool with_attention, const std::string& where);
Json vision_config(const Json& config, const std::string& where);
Json mtp_config(const Json& text);
// dflash or dflash2 from the drafter's own config.json.
Json draft_config(const Json& config, bool is_second, const std::string& where);

}  // namespace flare::prepare
