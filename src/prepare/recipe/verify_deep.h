// An artifact against the checkpoint it was made from: every number, within the bound of what made
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace flare::prepare {

// Parameters of one format that were made in the same way.
struct DeepTotal {
  std::string format;
  std::string how;  // "copied", "cast", "encoded", "searched"
  uint64_t parameters = 0;
  uint64_t weights = 0;
  double worst = 0;     // largest error as a share of its bound; at most 1
  double relative = 0;  // sqrt(Σ error² / Σ number²)
};

struct DeepReport {
  std::vector<DeepTotal> totals;
  uint64_t parameters = 0;
  uint64_t weights = 0;
};

// Decodes every parameter of the artifact and of the source and compares them. The bounds
// (docs/recipes.md) follow from the source's numbers; which of them holds, from format and from
// whether provenance names a search. Resident memory does not depend on the model's size, the
// report not on `threads`. `on_progress(weights)` may be empty. Errors: kValue naming parameter,
// row and column of a number beyond its bound; kBinding for parameters that are in one only, or in
// another shape; kSupport for a format without a bound; those of readers and importers.
DeepReport verify_deep(const std::filesystem::path& artifact, const std::filesystem::path& source,
                       int threads, const std::function<void(uint64_t)>& on_progress);

}  // namespace flare::prepare
