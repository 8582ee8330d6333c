// Configs of real models, and weights made row by row.
#include "kernel/synthetic_model.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/checked.h"
#include "base/error.h"
#include "base/float_types.h"

namespace flare::bench {
namespace {

constexpr ModelShape kShapes[] = {
    {"qwen3-0.6b", R"({"architectures":["Qwen3ForCausalLM"],"hidden_size":1024,
      "intermediate_size":3072,"vocab_size":151936,"num_attention_heads":16,
      "num_key_value_heads":8,"head_dim":128,"rms_norm_eps":1e-6,"max_position_embeddings":40960,
      "tie_word_embeddings":true,"rope_parameters":{"rope_theta":1000000.0}})",
     28, 1},
    {"qwen3-1.7b", R"({"architectures":["Qwen3ForCausalLM"],"hidden_size":2048,
      "intermediate_size":6144,"vocab_size":151936,"num_attention_heads":16,
      "num_key_value_heads":8,"head_dim":128,"rms_norm_eps":1e-6,"max_position_embeddings":40960,
      "tie_word_embeddings":true,"rope_parameters":{"rope_theta":1000000.0}})",
     28, 1},
    {"qwen3-4b", R"({"architectures":["Qwen3ForCausalLM"],"hidden_size":2560,
      "intermediate_size":9728,"vocab_size":151936,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":128,"rms_norm_eps":1e-6,"max_position_embeddings":40960,
      "tie_word_embeddings":true,"rope_parameters":{"rope_theta":1000000.0}})",
     36, 1},
    {"qwen3.5-0.8b", R"({"architectures":["Qwen3_5ForCausalLM"],"hidden_size":1024,
      "intermediate_size":3584,"vocab_size":248320,"num_attention_heads":8,
      "num_key_value_heads":2,"head_dim":256,"linear_num_key_heads":16,
      "linear_num_value_heads":16,"linear_key_head_dim":128,"linear_value_head_dim":128,
      "linear_conv_kernel_dim":4,"rms_norm_eps":1e-6,"max_position_embeddings":262144,
      "tie_word_embeddings":true,"rope_parameters":{"rope_theta":10000000.0,
      "partial_rotary_factor":0.25,"mrope_section":[11,11,10]}})",
     24, 4},
    {"qwen3.5-4b", R"({"architectures":["Qwen3_5ForCausalLM"],"hidden_size":2560,
      "intermediate_size":9216,"vocab_size":248320,"num_attention_heads":16,
      "num_key_value_heads":4,"head_dim":256,"linear_num_key_heads":16,
      "linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,
      "linear_conv_kernel_dim":4,"rms_norm_eps":1e-6,"max_position_embeddings":262144,
      "tie_word_embeddings":true,"rope_parameters":{"rope_theta":10000000.0,
      "partial_rotary_factor":0.25,"mrope_section":[11,11,10]}})",
     32, 4},
    {"llama-3.2-1b", R"({"architectures":["LlamaForCausalLM"],"hidden_size":2048,
      "intermediate_size":8192,"vocab_size":128256,"num_attention_heads":32,
      "num_key_value_heads":8,"head_dim":64,"rms_norm_eps":1e-5,
      "max_position_embeddings":131072,"tie_word_embeddings":true,
      "rope_parameters":{"rope_theta":500000.0}})",
     16, 1},
};

uint64_t member(const Json& config, std::string_view name) { return config.at(name).as_u64(); }

Json parse_config(const ModelShape& shape) { return parse_json(shape.config, shape.name); }

// Kinds of layers where they differ: three linear ones before each of full attention.
void set_layers(Json& config, const ModelShape& shape, uint32_t layers) {
  config.set("num_hidden_layers", layers);
  if (shape.layer_step == 1) return;
  Json kinds = Json::array();
  for (uint32_t i = 0; i < layers; ++i)
    kinds.push_back((i + 1) % shape.layer_step == 0 ? "full_attention" : "linear_attention");
  config.set("layer_types", std::move(kinds));
}

// ggml's blocks have no encoder: random codes and scales of a plausible size.
struct BlockScales {
  codec::FormatId format;
  size_t bytes;                 // of a block
  std::vector<size_t> offsets;  // of its f16 scales
  float scale;
};
const BlockScales* block_scales(codec::FormatId format) {
  using enum codec::FormatId;
  static const std::vector<BlockScales> kTable = {{kGgufQ4_0, 18, {0}, 4e-3f},
                                                  {kGgufQ8_0, 34, {0}, 3e-4f},
                                                  {kGgufQ4K, 144, {0, 2}, 2e-4f},
                                                  {kGgufQ6K, 210, {208}, 1.5e-5f}};
  const auto row = std::ranges::find(kTable, format, &BlockScales::format);
  return row == kTable.end() ? nullptr : &*row;
}

// A few rows of each plane, one behind the other.
using RowTile = std::vector<std::vector<std::byte>>;
constexpr uint64_t kTileRows = 16;

RowTile random_rows(const codec::Format& format, codec::Geometry g, const codec::Planes& planes) {
  std::mt19937 random(static_cast<uint32_t>(g.rows * 31 + g.cols));
  RowTile tile;
  std::byte* dst[codec::kMaxPlanes] = {};
  for (int i = 0; i < planes.count; ++i) {
    tile.emplace_back(kTileRows * planes.plane[i].row_bytes);
    dst[i] = tile.back().data();
  }
  if (const BlockScales* blocks = block_scales(format.id)) {
    for (std::byte& b : tile[0]) b = static_cast<std::byte>(1 + random() % 127);
    for (size_t at = 0; at < tile[0].size(); at += blocks->bytes)
      for (const size_t offset : blocks->offsets)
        store_le(tile[0].data() + at + offset, f32_to_fp16(blocks->scale));
    return tile;
  }
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(kTileRows * g.cols);
  for (float& value : values) value = normal(random);
  if (format.id == codec::FormatId::kInt32)
    for (float& value : values) value = std::round(value * 100);
  format.encode(values.data(), kTileRows, g, dst);
  return tile;
}

}  // namespace

std::span<const ModelShape> model_shapes() { return kShapes; }

uint32_t vocab_of(const ModelShape& shape) {
  return static_cast<uint32_t>(member(parse_config(shape), "vocab_size"));
}

uint64_t layer_bytes(const ModelShape& shape, codec::FormatId format) {
  const Json c = parse_config(shape);
  const uint64_t hidden = member(c, "hidden_size"), d = member(c, "head_dim");
  const uint64_t queries = member(c, "num_attention_heads") * d;
  const uint64_t keys = member(c, "num_key_value_heads") * d;
  const uint64_t weights = hidden * (2 * queries + 2 * keys + 3 * member(c, "intermediate_size"));
  return static_cast<uint64_t>(static_cast<double>(weights) *
                               codec::format(format).bits_per_weight / 8);
}

SyntheticSource::SyntheticSource(const ModelShape& shape, codec::FormatId format, uint32_t layers,
                                 uint32_t vocab)
    : name_(shape.name), format_(codec::format(format)), config_(parse_config(shape)) {
  set_layers(config_, shape, layers);
  config_.set("vocab_size", vocab);
}

const Json& SyntheticSource::config(std::string_view component) const {
  if (component != "text") throw Error(Code::kComponent, "{}: text alone", name_);
  return config_;
}

bool SyntheticSource::has(std::string_view parameter) const {
  return !parameter.ends_with("_bias") || parameter.ends_with("dt_bias");
}

std::vector<std::string> SyntheticSource::parameters(std::string_view) const { return bound_; }

codec::Matrix SyntheticSource::matrix(std::string_view parameter, codec::Geometry geometry) {
  bound_.emplace_back(parameter);
  // Tied: one table.
  const std::string_view key = parameter == "text/output_head" ? "text/token_embedding" : parameter;
  Stored& stored = stored_[std::string(key)];
  if (stored.memory != nullptr) return stored.matrix;
  const codec::Planes planes = format_.planes(geometry);
  stored.memory = std::make_unique<HugeMemory>(planes.total_bytes);
  std::byte* const object = stored.memory->data();
  const RowTile tile = random_rows(format_, geometry, planes);
  for (int i = 0; i < planes.count; ++i)
    for (uint64_t row = 0; row < geometry.rows; row += kTileRows)
      std::memcpy(object + planes.plane[i].offset + row * planes.plane[i].row_bytes,
                  tile[static_cast<size_t>(i)].data(),
                  std::min(kTileRows, geometry.rows - row) * planes.plane[i].row_bytes);
  codec::append_segment(stored.matrix,
                        {object, geometry, format_.id, format_.layout, 0, geometry.rows});
  return stored.matrix;
}

std::vector<float> SyntheticSource::values(std::string_view parameter, uint64_t n) {
  bound_.emplace_back(parameter);
  const bool is_norm = parameter.find("norm") != std::string_view::npos;
  return std::vector<float>(n, is_norm ? 1.0f : 0.25f);
}

graph::Policy SyntheticSource::policy(std::string_view, std::string_view) const {
  return format_.quantised ? graph::Policy::kAllowA8 : graph::Policy::kA16Only;
}

std::optional<std::string> SyntheticSource::resource(std::string_view) const {
  return std::nullopt;
}

}  // namespace flare::bench
