// The plan of an artifact to be built: its directory, and which parameter rows fill each object.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "artifact/directory.h"
#include "prepare/import/imported_model.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {

// One parent: an object whose rows are its members' rows in order.
struct ParentPlan {
  size_t object = 0;  // index into Directory::objects
  codec::FormatId format = codec::FormatId::kBf16;
  codec::Geometry geometry;
  std::vector<const ImportedParameter*> members;
  std::vector<Encoder> encoders;  // of the members
};

// An auxiliary of uses (§10.3): int32 words, or fp32 ones.
struct AuxiliaryPlan {
  size_t object = 0;  // index into Directory::objects
  std::vector<int32_t> words;
};

struct TextResource {
  std::string role;
  std::string bytes;  // nonempty
};

// `directory` is complete except for `files`, metadata and provenance; objects are placed.
struct ArtifactPlan {
  artifact::Directory directory;
  std::vector<ParentPlan> parents;         // ascending offset
  std::vector<AuxiliaryPlan> auxiliaries;  // behind them, ascending offset
  std::vector<TextResource> resources;     // object i of the directory is resource i
};

// Order, names, packing groups, bindings and uses of §14.6 and §15. `model` must outlive the plan.
ArtifactPlan plan_artifact(const ImportedModel& model, const Recipe& recipe,
                           std::vector<TextResource> resources);

}  // namespace flare::prepare
