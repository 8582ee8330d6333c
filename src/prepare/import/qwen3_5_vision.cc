// The vision tower of the Qwen3.5 family as parameters (spec/artifact.md §15.2, §15.4).
#include "base/checked.h"
#include "base/error.h"
#include "prepare/import/adapters.h"
#include "prepare/import/builder.h"

namespace flare::prepare {
namespace {

struct Sizes {
  uint64_t depth, hidden, intermediate, heads, patch, temporal_patch, merge, positions;
  // Inputs of the merger: a square of merge × merge patches.
  uint64_t merged() const {
    return checked_mul(checked_mul(merge, merge, "merged width"), hidden, "merged width");
  }
  uint64_t patch_values() const {
    return checked_mul(3 * temporal_patch, checked_mul(patch, patch, "patch"), "patch");
  }
};

bool is_square(uint64_t n) {
  uint64_t root = 0;
  while (root * root < n) ++root;
  return root * root == n;
}

Sizes read_sizes(ConfigReader& config, uint64_t text_hidden, const TensorPool& tensors) {
  Sizes s{};
  s.depth = config.count("depth");
  check_layer_count(s.depth, tensors, config.where());
  s.hidden = config.count("hidden_size");
  s.intermediate = config.count("intermediate_size");
  s.heads = config.count("num_heads");
  s.patch = config.count("patch_size");
  s.temporal_patch = config.count("temporal_patch_size");
  s.merge = config.count("spatial_merge_size");
  s.positions = config.count("num_position_embeddings");
  if (s.hidden % s.heads != 0 || s.hidden / s.heads % 4 != 0)
    throw Error(Code::kBinding, "{}: hidden_size {} with {} heads, a head width in fours expected",
                config.where(), s.hidden, s.heads);
  if (!is_square(s.positions))
    throw Error(Code::kBinding, "{}: num_position_embeddings is {}, a square expected",
                config.where(), s.positions);
  const uint64_t out = config.count_or("out_hidden_size", text_hidden);
  if (out != text_hidden)
    throw Error(Code::kBinding, "{}: out_hidden_size is {}, expected the text model's {}",
                config.where(), out, text_hidden);
  return s;
}

void add_block(ComponentBuilder& build, const Sizes& s, uint64_t i) {
  const std::string v = fmt::format("vision/layers/{}/", i);
  const std::string hf = fmt::format("model.visual.blocks.{}.", i);
  for (const char* norm : {"norm1", "norm2"})
    for (const char* which : {"weight", "bias"})
      build.plain(fmt::format("{}{}_{}", v, norm, which), fmt::format("{}{}.{}", hf, norm, which),
                  {s.hidden});
  const uint64_t rows = checked_mul(3, s.hidden, "attn.qkv rows");
  const char* const thirds[] = {"query", "key", "value"};
  for (uint64_t t = 0; t < 3; ++t) {
    build.row_projection(v + "attention/" + thirds[t], v + "attention_input",
                         hf + "attn.qkv.weight", {rows, s.hidden},
                         {{t * s.hidden, (t + 1) * s.hidden}});
    build.part_of_vector(fmt::format("{}attention/{}_bias", v, thirds[t]), hf + "attn.qkv.bias",
                         rows, t * s.hidden, s.hidden);
  }
  build.projection(v + "attention/output", v + "attention_output", hf + "attn.proj.weight",
                   s.hidden, s.hidden);
  build.plain(v + "attention/output_bias", hf + "attn.proj.bias", {s.hidden});
  build.projection(v + "mlp/fc1", v + "mlp_input", hf + "mlp.linear_fc1.weight", s.intermediate,
                   s.hidden);
  build.plain(v + "mlp/fc1_bias", hf + "mlp.linear_fc1.bias", {s.intermediate});
  build.projection(v + "mlp/fc2", v + "mlp_activation", hf + "mlp.linear_fc2.weight", s.hidden,
                   s.intermediate);
  build.plain(v + "mlp/fc2_bias", hf + "mlp.linear_fc2.bias", {s.hidden});
  build.packing_group(v + "attention/", {"query", "key", "value"});
  build.packing_group(v + "attention/", {"query_bias", "key_bias", "value_bias"});
}

}  // namespace

void import_qwen3_5_vision(std::string_view family, const Json& json, const std::string& where,
                           uint64_t hidden, TensorPool& tensors, ImportedModel& model) {
  ConfigReader config(json, where);
  const std::string type = fmt::format("{}_vision", family);
  config.expect("model_type", {family, type});
  const Sizes s = read_sizes(config, hidden, tensors);
  config.expect("in_channels", {3});
  config.expect("hidden_act", {"gelu_pytorch_tanh"});
  config.expect("deepstack_visual_indexes", {Json::array()});
  constexpr std::string_view fixed[] = {"rope_parameters"};  // axial, theta 10000
  config.ignore(fixed);
  config.ignore(neutral_keys());
  config.finish();
  ImportedComponent& vision = model.components.emplace_back();
  vision.id = "vision";
  vision.target = "text";
  vision.config = Json::object({{"model_type", type},
                                {"depth", s.depth},
                                {"hidden_size", s.hidden},
                                {"intermediate_size", s.intermediate},
                                {"num_heads", s.heads},
                                {"patch_size", s.patch},
                                {"temporal_patch_size", s.temporal_patch},
                                {"spatial_merge_size", s.merge},
                                {"num_position_embeddings", s.positions}});
  ComponentBuilder build(tensors, vision);
  const std::string hf = "model.visual.";
  ImportedParameter& patches = build.plain("vision/patch_embedding", hf + "patch_embed.proj.weight",
                                           {s.hidden, 3, s.temporal_patch, s.patch, s.patch});
  patches.shape = {s.hidden, s.patch_values()};
  patches.pieces.front().row_end = s.hidden;
  patches.kind = ParameterKind::kProjection;
  patches.inputs.emplace_back("vision/patch_input");
  build.plain("vision/patch_embedding_bias", hf + "patch_embed.proj.bias", {s.hidden});
  build.plain("vision/position_embedding", hf + "pos_embed.weight", {s.positions, s.hidden});
  for (uint64_t i = 0; i < s.depth; ++i) add_block(build, s, i);
  const uint64_t m = s.merged();
  build.plain("vision/merger/norm_weight", hf + "merger.norm.weight", {s.hidden});
  build.plain("vision/merger/norm_bias", hf + "merger.norm.bias", {s.hidden});
  build.projection("vision/merger/fc1", "vision/merger/input", hf + "merger.linear_fc1.weight", m,
                   m);
  build.plain("vision/merger/fc1_bias", hf + "merger.linear_fc1.bias", {m});
  build.projection("vision/merger/fc2", "vision/merger/activation", hf + "merger.linear_fc2.weight",
                   hidden, m);
  build.plain("vision/merger/fc2_bias", hf + "merger.linear_fc2.bias", {hidden});
}

}  // namespace flare::prepare
