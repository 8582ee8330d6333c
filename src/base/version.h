// The version of this build, as programs print it and artifacts record it.
#pragma once

#include <string_view>

namespace flare {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace flare
