// From template source to syntax tree.
#pragma once

#include <string_view>

#include "frontend/template/ast.h"

namespace flare::frontend::jinja {

// Parses with jinja2's grammar and precedence, the loop controls and {% generation %}. Unknown
// tags, filters and tests are errors here. Errors: kInvalid "where: line N: …".
Ast parse_template(std::string_view source, std::string_view where);

}  // namespace flare::frontend::jinja
