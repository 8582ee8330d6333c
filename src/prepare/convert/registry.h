// The parameter registry as far as names alone tell it: order and inputs (spec/artifact.md §15).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flare::prepare {

// Mathematical inputs of a parameter in an artifact with these components; empty: no projection.
std::vector<std::string> registry_inputs(const std::string& parameter,
                                         const std::vector<std::string>& components);

// Registry order: components, inside them the order of the tables, layers ascending. Unknown names
// come last, by name.
bool registry_before(const std::string& a, const std::string& b);

}  // namespace flare::prepare
