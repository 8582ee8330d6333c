// Version 1 and 2 artifacts become version 3: the payload as it is, a new directory
// (spec/artifact.md §17).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/writer.h"

namespace flare::prepare {

struct LegacyOptions {
  artifact::WriteOptions write;
  // Folders or config.json files that give the configs: "" of the model, "dflash", "dflash2".
  std::vector<std::pair<std::string, std::filesystem::path>> configs;
};

struct LegacyReport {
  uint64_t version = 0;
  std::string model_id, weights_id;  // the second one of version 2
  std::vector<std::string> components;
  uint64_t objects = 0;
  uint64_t parameters = 0;
  uint64_t payload_bytes = 0;
};

// 1 or 2; 0: the file is no artifact of these versions. Errors: kNotFound, kRead.
uint64_t legacy_version(const std::filesystem::path& path);

// Keeps offsets, object names and every payload byte. Errors: kFraming, kDirectory and kRange for
// what the old file says, kEncoding for a format it may not have, kBinding for configs and shapes
// that do not go together, kComponent without text, kUsage where no config is known or given, those
// of Writer. `on_progress(bytes)` may be empty.
LegacyReport convert_legacy(const std::filesystem::path& source,
                            const std::filesystem::path& target, const LegacyOptions& options,
                            const std::function<void(uint64_t)>& on_progress);

}  // namespace flare::prepare
