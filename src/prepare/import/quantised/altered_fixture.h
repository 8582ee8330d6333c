// Golden checkpoints with one thing changed, for tests of what quantised imports refuse.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "prepare/recipe/build.h"
#include "prepare/test_support.h"

namespace flare::prepare::test {

inline fs::path quantised_golden(const std::string& name) {
  return fs::path(FLARE_SOURCE_DIR) / "../shared/data/goldens/quantised" / name;
}

// A tensor of a checkpoint with bytes of its own.
struct OwnTensor {
  std::string name;
  checkpoint::DType dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};

// The parts of a golden folder in memory, to be changed and written elsewhere.
struct Altered {
  explicit Altered(const std::string& golden) {
    const auto checkpoint = checkpoint::Checkpoint::open(quantised_golden(golden));
    config = checkpoint.config();
    for (const auto& t : checkpoint.tensors())
      tensors.push_back({t.name, t.dtype, t.shape, {t.bytes.begin(), t.bytes.end()}});
  }
  OwnTensor& tensor(const std::string& name) {
    const auto found = std::ranges::find(tensors, name, &OwnTensor::name);
    if (found == tensors.end()) throw Error(Code::kInternal, "no tensor {}", name);
    return *found;
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const OwnTensor& t) { return t.name == name; });
  }
  Json& quantisation() {
    for (auto& [key, value] : config.mutable_object())
      if (key == "quantization_config") return value;
    throw Error(Code::kInternal, "no quantization_config");
  }
  void write(const fs::path& folder) const {
    write_file(folder / "config.json", config.to_text());
    std::vector<checkpoint::NamedTensor> named;
    for (const OwnTensor& t : tensors) named.push_back({t.name, t.dtype, t.shape, t.bytes});
    checkpoint::write_safetensors(folder / "model.safetensors", named, {}, true);
  }

  Json config;
  std::vector<OwnTensor> tensors;
};

// Builds an artifact of the altered checkpoint; what it throws, or kInternal "no error".
inline Error build_error(const std::string& golden, const std::function<void(Altered&)>& alter,
                         const std::string& recipe = "keep") {
  Altered altered(golden);
  alter(altered);
  const TemporaryFolder folder;
  altered.write(folder.path());
  return error_of([&] {
    BuildOptions options;
    options.recipe = recipe;
    build_artifact(folder.path(), folder / "out.ninfer", options);
  });
}

}  // namespace flare::prepare::test
