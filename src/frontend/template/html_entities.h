// The named characters of HTML.
#pragma once

#include <string_view>

namespace flare::frontend::jinja {

// UTF-8 of "amp;", "amp", "NotEqualTilde;", …; empty if there is no such name.
std::string_view html_entity(std::string_view name);

}  // namespace flare::frontend::jinja
