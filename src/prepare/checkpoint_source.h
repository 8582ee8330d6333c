// Parameters straight from a checkpoint: stored words in place, or encoded in memory by a recipe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/team.h"
#include "checkpoint/safetensors.h"
#include "prepare/import/imported_model.h"
#include "prepare/parameter_source.h"
#include "prepare/recipe/recipe.h"

namespace flare::prepare {

// With recipe keep a matrix points into the mapped file, at any alignment; with other recipes into
// memory that fill() encodes into, tied parameters once. Transposed parameters are always copies.
class CheckpointSource final : public ParameterSource {
 public:
  // Errors: those of Checkpoint::open and import_checkpoint; kUsage for an unknown recipe.
  CheckpointSource(const std::filesystem::path& path, std::string_view recipe, int threads);

  std::string name() const override { return name_; }
  std::filesystem::path path() const override { return path_; }
  std::vector<std::filesystem::path> files() const override { return checkpoint_.paths(); }
  const Json& config(std::string_view component) const override;
  bool has(std::string_view parameter) const override;
  std::vector<std::string> parameters(std::string_view component) const override;
  codec::Matrix matrix(std::string_view parameter, codec::Geometry geometry) override;
  std::vector<float> values(std::string_view parameter, uint64_t n) override;
  graph::Policy policy(std::string_view parameter, std::string_view input) const override;
  std::vector<int32_t> input_columns(std::string_view parameter, std::string_view input) override;
  std::optional<std::string> resource(std::string_view role) const override;
  void fill() override;
  void release(Bytes part) override;

 private:
  struct Entry {
    const ImportedParameter* parameter;
    FormatChoice choice;
  };
  const Entry& find(std::string_view parameter) const;
  // The entry of a parameter that has a use at `input`.
  const Entry& find_use(std::string_view parameter, std::string_view input) const;
  bool in_place(const Entry& entry) const;
  // Memory for an encoded parameter.
  struct Encoded {
    const Entry* entry = nullptr;
    Buffer memory;
    bool filled = false;
  };
  Encoded& encoded(const Entry& entry);
  void fill(Encoded& encoded);

  std::filesystem::path path_;
  std::string name_;
  checkpoint::Checkpoint checkpoint_;
  ImportedModel model_;
  std::map<std::string, Entry, std::less<>> entries_;
  // By name of the parameter that owns the data.
  std::map<std::string, Encoded, std::less<>> encoded_;
  Team team_;
};

// A folder, a .safetensors file, or a GGUF file by its name or first bytes.
bool is_checkpoint(const std::filesystem::path& path);

// What a checkpoint is called where nobody named it: its folder, or its file unless that is
// model.safetensors.
std::string checkpoint_name(const std::filesystem::path& path);

// A text resource of a checkpoint by role (§11.1); the chat template may also stand in
// tokenizer_config.json.
std::optional<std::string> checkpoint_resource(const checkpoint::Checkpoint& checkpoint,
                                               std::string_view role);

}  // namespace flare::prepare
