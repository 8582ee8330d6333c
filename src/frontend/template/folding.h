// What jinja2 computes while it compiles a template.
#pragma once

#include <optional>

#include "frontend/template/ast.h"

namespace flare::frontend::jinja {

// Whether `e` is true, if it is a literal.
std::optional<bool> literal_truth(const Expr& e);

// Whether jinja2 computes `e`, whose parts are noted, while it compiles; it stands where `escape`
// holds.
bool folds(const Expr& e, Escape escape);

}  // namespace flare::frontend::jinja
