// Synthetic checkpoints for the tests of prepare.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "base/test_support.h"

namespace flare::prepare::test {

namespace fs = std::filesystem;

using flare::TemporaryFolder;

inline void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

using Shapes = std::vector<std::pair<std::string, std::vector<uint64_t>>>;

// config.json and a model.safetensors whose bf16 tensors are zeros in a sparse file.
inline void write_checkpoint(const fs::path& folder, const Json& config, const Shapes& tensors) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const auto& [name, shape] : tensors) {
    uint64_t bytes = 2;
    Json::Array dimensions;
    for (uint64_t n : shape) {
      bytes *= n;
      dimensions.emplace_back(n);
    }
    header.set(name, Json::object({{"dtype", "BF16"},
                                   {"shape", dimensions},
                                   {"data_offsets", Json::array({offset, offset + bytes})}}));
    offset += bytes;
  }
  std::string text = header.to_text();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i)
    head[static_cast<size_t>(i)] = static_cast<char>(text.size() >> 8 * i);
  write_file(folder / "config.json", config.to_text());
  write_file(folder / "model.safetensors", head + text);
  fs::resize_file(folder / "model.safetensors", head.size() + text.size() + offset);
}

inline Json tiny_llama_config() {
  return parse_json(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",
    "hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":2,
    "num_key_value_heads":1,"vocab_size":16,"max_position_embeddings":64,"rms_norm_eps":1e-5,
    "rope_theta":10000.0,"hidden_act":"silu","tie_word_embeddings":true})",
                    "config");
}

inline Shapes tiny_llama_tensors() {
  const std::string l = "model.layers.0.";
  return {{"model.embed_tokens.weight", {16, 8}},
          {l + "input_layernorm.weight", {8}},
          {l + "self_attn.q_proj.weight", {8, 8}},
          {l + "self_attn.k_proj.weight", {4, 8}},
          {l + "self_attn.v_proj.weight", {4, 8}},
          {l + "self_attn.o_proj.weight", {8, 8}},
          {l + "post_attention_layernorm.weight", {8}},
          {l + "mlp.gate_proj.weight", {12, 8}},
          {l + "mlp.up_proj.weight", {12, 8}},
          {l + "mlp.down_proj.weight", {8, 12}},
          {"model.norm.weight", {8}}};
}

// The one full-attention layer of spec/artifact.md §18.1 as a checkpoint.
inline Json one_layer_qwen3_5_config() {
  return parse_json(R"({"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text",
    "hidden_size":128,"vocab_size":248320,"num_hidden_layers":1,"max_position_embeddings":4096,
    "tie_word_embeddings":false,"rms_norm_eps":1e-6,"layer_types":["full_attention"],
    "num_attention_heads":1,"num_key_value_heads":1,"head_dim":128,"intermediate_size":256,
    "rope_parameters":{"rope_type":"default","rope_theta":10000000,"partial_rotary_factor":0.25,
    "mrope_section":[6,5,5]}})",
                    "config");
}

inline Shapes one_layer_qwen3_5_tensors() {
  const std::string l = "model.layers.0.";
  return {{"model.embed_tokens.weight", {248320, 128}},
          {"lm_head.weight", {248320, 128}},
          {"model.norm.weight", {128}},
          {l + "input_layernorm.weight", {128}},
          {l + "self_attn.q_proj.weight", {256, 128}},
          {l + "self_attn.k_proj.weight", {128, 128}},
          {l + "self_attn.v_proj.weight", {128, 128}},
          {l + "self_attn.q_norm.weight", {128}},
          {l + "self_attn.k_norm.weight", {128}},
          {l + "self_attn.o_proj.weight", {128, 128}},
          {l + "post_attention_layernorm.weight", {128}},
          {l + "mlp.gate_proj.weight", {256, 128}},
          {l + "mlp.up_proj.weight", {256, 128}},
          {l + "mlp.down_proj.weight", {128, 256}}};
}

}  // namespace flare::prepare::test
