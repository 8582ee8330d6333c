// The values of JSON Schema's `format` that are enforced, as languages.
#pragma once

#include <optional>
#include <string_view>

#include "frontend/grammar/language.h"

namespace flare::frontend::grammar {

// nullopt if the format is not enforced.
std::optional<Lang> format_language(Languages& languages, std::string_view format);

}  // namespace flare::frontend::grammar
