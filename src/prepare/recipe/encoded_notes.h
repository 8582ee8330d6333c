// What a report says of weights that came encoded: kept as which format, or decoded, and at what
// loss.
#pragma once

#include <string>
#include <vector>

#include "prepare/import/imported_model.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {

// One line for every way of storage, outcome and reason, in the order of the parameters.
std::vector<std::string> encoded_notes(const ImportedModel& model, Chooser& chooser);

}  // namespace flare::prepare
