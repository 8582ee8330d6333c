// Models of real shapes with made-up weights in one format: what the kernel benchmark prepares.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/format.h"
#include "machine/peaks.h"
#include "prepare/parameter_source.h"

namespace flare::bench {

struct ModelShape {
  std::string_view name;
  // Members of a text config (spec/artifact.md §15.2) without the number of layers.
  std::string_view config;
  uint32_t layers;      // of the real model
  uint32_t layer_step;  // layers after which the kinds of layers repeat
};
std::span<const ModelShape> model_shapes();

// A source of `layers` layers and `vocab` tokens whose matrices hold random values in `format`, in
// memory of its own; a tied head. Norms and tables are plausible constants. Linear uses allow int8
// activations where the format is quantised.
class SyntheticSource final : public prepare::ParameterSource {
 public:
  SyntheticSource(const ModelShape& shape, codec::FormatId format, uint32_t layers, uint32_t vocab);

  std::string name() const override { return name_; }
  std::filesystem::path path() const override { return name_; }
  std::vector<std::filesystem::path> files() const override { return {}; }
  const Json& config(std::string_view component) const override;
  bool has(std::string_view parameter) const override;
  std::vector<std::string> parameters(std::string_view component) const override;
  codec::Matrix matrix(std::string_view parameter, codec::Geometry geometry) override;
  std::vector<float> values(std::string_view parameter, uint64_t n) override;
  graph::Policy policy(std::string_view parameter, std::string_view input) const override;
  std::vector<int32_t> input_columns(std::string_view, std::string_view) override { return {}; }
  std::optional<std::string> resource(std::string_view role) const override;
  void fill() override {}
  void release(Bytes) override {}

 private:
  struct Stored {
    std::unique_ptr<HugeMemory> memory;
    codec::Matrix matrix;
  };
  const std::string name_;
  const codec::Format& format_;
  Json config_;
  std::map<std::string, Stored, std::less<>> stored_;
  std::vector<std::string> bound_;
};

// The vocabulary of a shape, and the bytes of one of its layers and of its embedding in a format.
uint32_t vocab_of(const ModelShape& shape);
uint64_t layer_bytes(const ModelShape& shape, codec::FormatId format);

}  // namespace flare::bench
