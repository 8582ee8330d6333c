// What the golden tests share: artifacts made for them.
#pragma once

#include <filesystem>
#include <string>

#include "prepare/recipe/build.h"

namespace flare {

// An artifact of `source` by `recipe`, made anew by every call.
inline std::filesystem::path artifact_of(const std::filesystem::path& source,
                                         const std::string& recipe) {
  const std::filesystem::path folder = std::filesystem::path(FLARE_BINARY_DIR) / "test_artifacts";
  std::filesystem::create_directories(folder);
  const std::filesystem::path target =
      folder / (source.filename().string() + "-" + recipe + ".ninfer");
  prepare::BuildOptions options;
  options.recipe = recipe;
  options.force = true;
  options.threads = 2;
  prepare::build_artifact(source, target, options);
  return target;
}

}  // namespace flare
