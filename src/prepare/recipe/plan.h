// The plan of an artifact to be built: its directory, and which parameter rows fill each object.
#pragma once

#include <map>
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
  std::vector<Encoder> encoders;     // of the members
  std::vector<std::string> sources;  // of each member, by name; empty: the model planned
};

// An auxiliary of uses (§10.3): int32 words, or fp32 ones.
struct AuxiliaryPlan {
  size_t object = 0;  // index into Directory::objects
  std::vector<int32_t> words;
};

struct Resource {
  std::string role;
  std::string bytes;  // nonempty
  std::string component = "text";
};

// `directory` is complete except for `files`, metadata and provenance; objects are placed.
struct ArtifactPlan {
  artifact::Directory directory;
  std::vector<ParentPlan> parents;         // ascending offset
  std::vector<AuxiliaryPlan> auxiliaries;  // behind them, ascending offset
  std::vector<Resource> resources;         // object i of the directory is resource i
};

// A checkpoint that rules may take parameters from, by the name they give it.
using NamedModels = std::map<std::string, const ImportedModel*>;

// Order, names, packing groups, bindings and uses of §14.6 and §15 for these components. What
// `sources` hold must be named by the rules. Models and chooser must outlive the plan. Errors:
// kUsage (rules), kSupport and kEncoding (formats), kBinding (a source without the parameter).
ArtifactPlan plan_artifact(const ImportedModel& model, Chooser& chooser,
                           const std::vector<std::string>& components,
                           std::vector<Resource> resources, const NamedModels& sources = {});

}  // namespace flare::prepare
