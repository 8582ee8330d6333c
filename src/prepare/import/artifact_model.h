// An artifact seen as a checkpoint: its parameters can be planned and encoded anew.
#pragma once

#include <string>
#include <vector>

#include "artifact/reader.h"
#include "prepare/import/imported_model.h"

namespace flare::prepare {

// Components `components`, or all where the list is empty; text comes first. Order, inputs, configs
// and shapes are the artifact's, kinds and packing groups those of the registry's names. `reader`
// must outlive the model. Errors: those of Reader; kBinding for a parameter whose parts are no
// whole rows; kSupport for an auxiliary that cannot be carried over; kComponent.
ImportedModel import_artifact(artifact::Reader& reader, const std::vector<std::string>& components);

}  // namespace flare::prepare
