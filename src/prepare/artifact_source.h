// Parameters of an opened `.ninfer` artifact.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "artifact/reader.h"
#include "base/file.h"
#include "prepare/parameter_source.h"

namespace flare::prepare {

class ArtifactSource final : public ParameterSource {
 public:
  // Errors: those of artifact::Reader::open; kBinding for a use without a known policy.
  explicit ArtifactSource(const std::filesystem::path& entry);

  std::string name() const override;
  std::filesystem::path path() const override { return reader_.path(); }
  std::vector<std::filesystem::path> files() const override { return reader_.file_paths(); }
  const artifact::Directory& directory() const { return reader_.directory(); }
  const Json& config(std::string_view component) const override;
  bool has(std::string_view parameter) const override;
  std::vector<std::string> parameters(std::string_view component) const override;
  codec::Matrix matrix(std::string_view parameter, codec::Geometry geometry) override;
  std::vector<float> values(std::string_view parameter, uint64_t n) override;
  graph::Policy policy(std::string_view parameter, std::string_view input) const override;
  std::vector<int32_t> input_columns(std::string_view parameter, std::string_view input) override;
  std::optional<std::string> resource(std::string_view role) const override;
  void fill() override {}  // everything is mapped
  void release(Bytes part) override { release_mapped(part); }

 private:
  const artifact::Binding& binding(std::string_view parameter) const;
  const artifact::Use& use(std::string_view parameter, std::string_view input) const;
  // Words of an input_columns auxiliary of `k` columns; `where` begins every message.
  std::vector<int32_t> read_columns(const artifact::Binding& columns, uint64_t k,
                                    const std::string& where);
  // The contract of activation_input_divisor.
  void check_divisor(const artifact::Binding& divisor, const std::string& where);
  artifact::Reader reader_;
  // (parameter, input) → use.
  std::map<std::pair<std::string, std::string>, const artifact::Use*> uses_;
};

}  // namespace flare::prepare
