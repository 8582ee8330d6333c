// Building of an artifact from a checkpoint by a format recipe, row-streamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/writer.h"
#include "base/progress.h"
#include "prepare/import/imported_model.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {

struct BuildOptions {
  std::string recipe = "bf16";
  std::vector<std::string> components = {"text"};
  std::filesystem::path overrides;  // rules of the user (rule.h); empty: none
  // Checkpoints that rules name as `source`.
  std::vector<std::pair<std::string, std::filesystem::path>> sources;
  std::string name;  // metadata.name; empty: the source's own
  std::optional<uint64_t> max_file_bytes;
  std::optional<artifact::ArtifactId> artifact_id;  // random otherwise
  std::optional<Encoder> encoder;     // the recipe's otherwise; search with a calibration
  std::filesystem::path calibration;  // of `ignition calibrate`; empty: none
  int threads = 1;
  bool force = false;
  bool dry_run = false;  // plan and report, write nothing
  ProgressMode progress = ProgressMode::kNone;
  std::function<void()> check_stop;  // called between blocks; throws to end the build
};

struct FormatTotal {
  std::string format;
  uint64_t objects = 0;
  uint64_t weights = 0;
  uint64_t bytes = 0;
};

// What a search for scales gained: root of Σ w·(x − x')² / Σ w·x² with the format's default encoder
// and with the one that was used; w is the column's importance where calibrated, else 1.
struct EncodingError {
  std::string parameter, format, encoder;
  bool calibrated = false;
  double before = 0, after = 0;
};

// Objects of one format that hold the same parameters of different layers.
struct GroupTotal {
  std::string parameters;  // "text/layers/*/mlp/{gate,up}"
  std::string format;
  std::string encoder;
  uint64_t objects = 0;
  uint64_t weights = 0;
  uint64_t bytes = 0;
  double bits_per_weight() const {
    return weights == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
  }
};

// What a person wants to know about a conversion.
struct BuildReport {
  std::string name;
  std::string architecture;
  std::string recipe;
  std::vector<std::filesystem::path> files;  // written; empty after a dry run
  uint64_t parameters = 0;                   // logical parameters
  uint64_t weights = 0;                      // stored numbers, shared ones once
  uint64_t weight_bytes = 0;
  uint64_t payload_bytes = 0;
  std::vector<FormatTotal> formats;    // largest first
  std::vector<EncodingError> errors;   // of parameters whose scales were searched for, stored order
  std::vector<GroupTotal> groups;      // in the order of the file
  std::vector<std::string> resources;  // roles
  std::vector<SkippedComponent> skipped;
  std::vector<std::string> notes;
  double bits_per_weight() const {
    return weights == 0 ? 0
                        : 8.0 * static_cast<double>(weight_bytes) / static_cast<double>(weights);
  }
};

// Reads the source a block of rows at a time and hands its pages back, so that resident memory does
// not depend on the model's size. The output depends on source, recipe, name and artifact_id alone,
// not on the number of threads. Nothing is left at `target` after an error. Errors: those of
// Checkpoint::open, import_checkpoint and Writer; kUsage (recipe, encoder absmax with a
// calibration), those of read_calibration, kComponent, kValue.
BuildReport build_artifact(const std::filesystem::path& source, const std::filesystem::path& target,
                           const BuildOptions& options);

// The same from an artifact: numbers are decoded and encoded anew, words that already have the
// wanted format are copied. An empty list of components means all of them. Errors: those of Reader
// and import_artifact too.
BuildReport quantize_artifact(const std::filesystem::path& source,
                              const std::filesystem::path& target, const BuildOptions& options);

}  // namespace flare::prepare
