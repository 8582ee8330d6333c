// Which kind of source a path is.
#include "prepare/parameter_source.h"

#include <array>

#include "base/error.h"
#include "base/file.h"
#include "prepare/artifact_source.h"
#include "prepare/checkpoint_source.h"

namespace flare::prepare {
namespace {

namespace fs = std::filesystem;

bool starts_with_magic(const fs::path& path, std::string_view magic) {
  const File file = File::open(path);
  if (file.size() < magic.size()) return false;
  std::array<std::byte, 8> head{};
  file.read_at(0, MutableBytes(head).first(magic.size()));
  return as_text(Bytes(head).first(magic.size())) == magic;
}

}  // namespace

std::unique_ptr<ParameterSource> open_source(const fs::path& path, std::string_view recipe,
                                             int threads) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw Error(Code::kNotFound,
                "{}: no such file or folder, expected a checkpoint folder, a .safetensors file, a "
                "GGUF file or a .ninfer artifact",
                path.string());
  if (is_checkpoint(path)) return std::make_unique<CheckpointSource>(path, recipe, threads);
  const bool artifact = path.extension() == ".ninfer" || starts_with_magic(path, "NINFER");
  if (!artifact)
    throw Error(Code::kSupport,
                "{}: this is no supported kind of model file, expected a checkpoint folder, a "
                ".safetensors file, a GGUF file or a .ninfer artifact",
                path.string());
  if (!recipe.empty())
    throw Error(Code::kUsage,
                "{}: recipe {} was given for an artifact, which has its formats already; expected "
                "none",
                path.string(), quote(recipe));
  return std::make_unique<ArtifactSource>(path);
}

}  // namespace flare::prepare
