// Translation of GGUF metadata and names, and the way back from the converter's orders.
#include "prepare/import/gguf.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "prepare/import/gguf_repacked.h"
#include "prepare/import/tensor_pool.h"
#include "prepare/recipe/encode.h"

namespace flare::prepare {
namespace {

using checkpoint::GgufFile;
using checkpoint::GgufValue;

struct Family {
  std::string_view gguf;          // general.architecture
  std::string_view architecture;  // of config.json
  std::string_view model_type;
};
constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", "llama"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3"},
    {"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe"},
    {"qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text"},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text"},
    {"gpt-oss", "GptOssForCausalLM", "gpt_oss"},
};

// The keys of one architecture; finish() refuses those that nobody read.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(fmt::format("{}.", architecture)) {}

  const GgufFile& file() const { return file_; }
  std::optional<GgufValue> find(std::string_view key) {
    const std::string whole = prefix_ + std::string(key);
    read_.insert(whole);
    return file_.find(whole);
  }
  GgufValue at(std::string_view key) {
    find(key);
    return file_.at(prefix_ + std::string(key));
  }
  uint64_t count(std::string_view key) { return positive(at(key)); }
  uint64_t count_or(std::string_view key, uint64_t absent) {
    const auto value = find(key);
    return value ? positive(*value) : absent;
  }
  double real(std::string_view key) { return at(key).as_double(); }
  double real_or(std::string_view key, double absent) {
    const auto value = find(key);
    return value ? value->as_double() : absent;
  }
  void expect_count(std::string_view key, uint64_t expected, std::string_view what) {
    const auto value = find(key);
    if (value && value->as_u64() != expected)
      throw Error(Code::kSupport, "{} is {}, only {} {} is supported", value->where(),
                  value->as_u64(), what, expected);
  }
  void ignore(std::string_view key) { find(key); }
  void finish() const {
    for (const std::string_view key : file_.keys())
      if (key.starts_with(prefix_) && !read_.contains(key))
        throw Error(Code::kBinding,
                    "{}: unknown key {}; it may change the mathematics, expected only keys that "
                    "the architecture defines",
                    file_.path().string(), quote(key));
  }

 private:
  static uint64_t positive(const GgufValue& value) {
    const uint64_t n = value.as_u64();
    if (n == 0) throw Error(Code::kBinding, "{} is 0, a positive integer expected", value.where());
    return n;
  }
  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

const Family& family_of(const GgufFile& file) {
  const GgufValue value = file.at("general.architecture");
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.gguf == value.as_string()) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.gguf);
  }
  throw Error(Code::kSupport, "{} is {}, expected one of {}", value.where(),
              quote(value.as_string()), known);
}

uint64_t vocabulary_of(const checkpoint::Checkpoint& checkpoint) {
  constexpr std::string_view name = "token_embd.weight";
  const checkpoint::Tensor* table = checkpoint.find(name);
  if (table == nullptr || table->shape.size() != 2)
    throw Error(Code::kBinding, "{}: tensor '{}' is {}, expected a table with a row per token",
                checkpoint.gguf()->path().string(), name,
                table == nullptr ? "missing" : "of shape " + shape_text(table->shape));
  return table->shape[0];
}

// rope_freqs.weight holds what each frequency is divided by. Of the four numbers behind it all
// published files have low_freq_factor 1 and high_freq_factor 4; the others follow.
Json llama3_rope(const checkpoint::Tensor& divisors, double theta, const std::string& where) {
  constexpr double kLow = 1, kHigh = 4, kTolerance = 1e-5;
  const uint64_t n = codec::element_count(divisors.shape);
  if (divisors.dtype != checkpoint::DType::kF32)
    throw Error(Code::kSupport, "{}: tensor 'rope_freqs.weight' is {}, expected F32", where,
                checkpoint::dtype_name(divisors.dtype));
  const auto stored = [&](uint64_t i) -> double {
    return load_le<float>(divisors.bytes.data() + i * sizeof(float));
  };
  const auto turns = [&](uint64_t i) {  // rotations per token
    return std::pow(theta, -static_cast<double>(i) / static_cast<double>(n)) /
           (2 * std::numbers::pi);
  };
  bool all_one = true;
  for (uint64_t i = 0; i < n; ++i) all_one &= stored(i) == 1;
  if (all_one) return Json::object({{"rope_type", "default"}});
  const double factor = stored(n - 1);
  double context = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const double s = (1 / stored(i) - 1 / factor) / (1 - 1 / factor);
    // The ends of the ramp tell least; the first value well inside tells enough.
    if (s > 0.05 && s < 0.95 && context == 0)
      context = std::round((s * (kHigh - kLow) + kLow) / turns(i));
  }
  bool reproduced = context > 0 && context < 1e9 && factor > 1;
  for (uint64_t i = 0; reproduced && i < n; ++i) {
    const double s = std::clamp((context * turns(i) - kLow) / (kHigh - kLow), 0.0, 1.0);
    const double divisor = 1 / ((1 - s) / factor + s);
    reproduced = std::abs(divisor - stored(i)) <= kTolerance * divisor;
  }
  if (!reproduced)
    throw Error(Code::kSupport,
                "{}: tensor 'rope_freqs.weight' holds other divisors than the llama3 rule with "
                "low_freq_factor 1 and high_freq_factor 4 gives, only those are supported",
                where);
  return Json::object({{"rope_type", "llama3"},
                       {"factor", factor},
                       {"low_freq_factor", kLow},
                       {"high_freq_factor", kHigh},
                       {"original_max_position_embeddings", static_cast<uint64_t>(context)}});
}

Json read_rope(Keys& keys, const checkpoint::Checkpoint& checkpoint, double default_theta) {
  const double theta = keys.real_or("rope.freq_base", default_theta);
  const auto type = keys.find("rope.scaling.type");
  const std::string_view name = type ? type->as_string() : "none";
  Json rope = Json::object({{"rope_type", "default"}});
  if (const checkpoint::Tensor* divisors = checkpoint.find("rope_freqs.weight"))
    rope = llama3_rope(*divisors, theta, keys.file().path().string());
  if (name == "linear" || name == "yarn") {
    rope.set("rope_type", name);
    rope.set("factor", keys.real("rope.scaling.factor"));
  } else if (name != "none") {
    throw Error(Code::kSupport, "{} is {}, only none, linear and yarn are supported", type->where(),
                quote(name));
  }
  if (name == "yarn") {
    rope.set("original_max_position_embeddings",
             keys.count("rope.scaling.original_context_length"));
    rope.set("beta_fast", keys.real_or("rope.scaling.yarn_beta_fast", 32));
    rope.set("beta_slow", keys.real_or("rope.scaling.yarn_beta_slow", 1));
  }
  keys.ignore("rope.scaling.finetuned");
  keys.ignore("rope.scaling.original_context_length");
  rope.set("rope_theta", theta);
  return rope;
}

// Draft layers follow those of the text model and count as blocks.
uint64_t draft_layers(Keys& keys) {
  const auto count = keys.find("nextn_predict_layers");
  return count ? count->as_u64() : 0;
}

// What every family has.
void read_common(Keys& keys, const Family& family, const checkpoint::Checkpoint& checkpoint,
                 GgufConfig& out) {
  out.mtp_layers = draft_layers(keys);
  const uint64_t blocks = keys.count("block_count");
  // Layers are listed before their tensors are looked up.
  if (const size_t tensors = checkpoint.tensors().size(); blocks > tensors)
    throw Error(Code::kBinding,
                "{}: {} layers but {} tensors in all, expected at least one per layer",
                keys.at("block_count").where(), blocks, tensors);
  if (out.mtp_layers >= blocks)
    throw Error(Code::kBinding, "{}: {} layers of which {} are MTP layers, expected fewer",
                keys.file().path().string(), blocks, out.mtp_layers);
  out.layers = blocks - out.mtp_layers;
  const uint64_t hidden = keys.count("embedding_length");
  const uint64_t heads = keys.count("attention.head_count");
  out.head_dim = keys.count_or("attention.key_length", hidden / heads);
  keys.expect_count("attention.value_length", out.head_dim, "the key length");
  keys.ignore("vocab_size");
  keys.ignore("tensor_data_layout");
  if (const auto causal = keys.find("attention.causal"); causal && !causal->as_bool())
    throw Error(Code::kSupport, "{} is false, only true is supported", causal->where());
  out.config =
      Json::object({{"architectures", Json::array({family.architecture})},
                    {"model_type", family.model_type},
                    {"hidden_size", hidden},
                    {"num_hidden_layers", out.layers},
                    {"num_attention_heads", heads},
                    {"num_key_value_heads", keys.count_or("attention.head_count_kv", heads)},
                    {"head_dim", out.head_dim},
                    {"vocab_size", vocabulary_of(checkpoint)},
                    {"max_position_embeddings", keys.count("context_length")},
                    {"rms_norm_eps", keys.real("attention.layer_norm_rms_epsilon")},
                    {"tie_word_embeddings", checkpoint.find("output.weight") == nullptr}});
}

void read_feed_forward(Keys& keys, std::string_view gguf, Json& config) {
  const bool is_oss = gguf == "gpt-oss";
  if (is_oss || gguf == "qwen35moe")
    keys.ignore("feed_forward_length");  // no layer is dense
  else
    config.set("intermediate_size", keys.count("feed_forward_length"));
  if (!is_oss && !gguf.ends_with("moe")) return;
  config.set("num_experts", keys.count("expert_count"));
  config.set("num_experts_per_tok", keys.count("expert_used_count"));
  config.set(is_oss ? "intermediate_size" : "moe_intermediate_size",
             keys.count("expert_feed_forward_length"));
  if (gguf == "qwen3moe") config.set("norm_topk_prob", true);  // the format knows no other
}

void read_llama(Keys& keys, const checkpoint::Checkpoint& checkpoint, const Family& family,
                GgufConfig& out) {
  keys.expect_count("rope.dimension_count", out.head_dim, "the head width");
  out.config.set("rope_parameters", read_rope(keys, checkpoint, 10000));
  if (family.gguf != "llama") return;
  out.rotary_rows = out.head_dim;
  if (const auto window = keys.find("attention.sliding_window")) {
    out.config.set("architectures", Json::array({"MistralForCausalLM"}));
    out.config.set("model_type", "mistral");
    out.config.set("sliding_window", window->as_u64());
  }
}

void read_qwen35(Keys& keys, const Family& family, GgufConfig& out) {
  out.norms_plus_one = true;
  if (family.gguf == "qwen35moe")
    out.config.set("shared_expert_intermediate_size",
                   keys.count("expert_shared_feed_forward_length"));
  out.nk = keys.count("ssm.group_count");
  out.nv = keys.count("ssm.time_step_rank");
  out.dk = keys.count("ssm.state_size");
  const uint64_t inner = keys.count("ssm.inner_size");
  if (inner % out.nv != 0)
    throw Error(Code::kBinding,
                "{}: ssm.inner_size is {}, a multiple of ssm.time_step_rank {} "
                "expected",
                keys.file().path().string(), inner, out.nv);
  out.dv = inner / out.nv;
  Json& config = out.config;
  config.set("linear_num_key_heads", out.nk);
  config.set("linear_num_value_heads", out.nv);
  config.set("linear_key_head_dim", out.dk);
  config.set("linear_value_head_dim", out.dv);
  config.set("linear_conv_kernel_dim", keys.count("ssm.conv_kernel"));
  config.set("full_attention_interval", keys.count_or("full_attention_interval", 4));
  if (const auto recurrent = keys.find("attention.recurrent_layers")) {
    const std::vector<bool> flags = recurrent->bools();
    if (flags.size() < out.layers)
      throw Error(Code::kBinding, "{} has {} items, expected one for each of {} layers",
                  recurrent->where(), flags.size(), out.layers);
    Json::Array types;
    for (uint64_t i = 0; i < out.layers; ++i)
      types.emplace_back(flags[i] ? "linear_attention" : "full_attention");
    config.set("layer_types", std::move(types));
  }
  Json::Array section;
  for (uint64_t n : keys.at("rope.dimension_sections").u64s())
    if (section.size() < 3) section.emplace_back(n);
  const double rotary = static_cast<double>(keys.count("rope.dimension_count"));
  config.set("rope_parameters",
             Json::object({{"rope_theta", keys.real_or("rope.freq_base", 1e7)},
                           {"partial_rotary_factor", rotary / static_cast<double>(out.head_dim)},
                           {"mrope_section", std::move(section)}}));
}

// Which layers see a window only: a flag for each, or every n-th sees everything, `usual` where the
// file does not say it.
Json window_layer_types(Keys& keys, uint64_t layers, bool has_window, uint64_t usual) {
  std::vector<bool> slides(layers, false);
  const auto pattern = keys.find("attention.sliding_window_pattern");
  if (pattern && pattern->is_array()) {
    slides = pattern->bools();
    if (slides.size() < layers)
      throw Error(Code::kBinding, "{} has {} items, expected one for each of {} layers",
                  pattern->where(), slides.size(), layers);
  } else if (has_window) {
    const uint64_t every = pattern ? keys.count("attention.sliding_window_pattern") : usual;
    for (uint64_t i = 0; i < layers; ++i) slides[i] = (i + 1) % every != 0;
  }
  Json::Array types;
  for (uint64_t i = 0; i < layers; ++i)
    types.emplace_back(slides[i] && has_window ? "sliding_attention" : "full_attention");
  return types;
}

void read_gemma3(Keys& keys, const checkpoint::Checkpoint& checkpoint, GgufConfig& out) {
  out.norms_plus_one = true;
  keys.expect_count("rope.dimension_count", out.head_dim, "the head width");
  if (const auto cap = keys.find("final_logit_softcapping"); cap && cap->as_double() != 0)
    throw Error(Code::kSupport, "{} is {}, only 0 is supported", cap->where(), cap->as_double());
  const auto window = keys.find("attention.sliding_window");
  const bool has_window = window && window->as_u64() > 0;
  Json& config = out.config;
  config.set("layer_types", window_layer_types(keys, out.layers, has_window, 6));
  if (has_window) config.set("sliding_window", window->as_u64());
  Json full = read_rope(keys, checkpoint, 1e6);
  const double local = keys.real_or("rope.freq_base_swa", 10000);
  config.set("rope_parameters",
             Json::object({{"full_attention", std::move(full)},
                           {"sliding_attention", Json::object({{"rope_theta", local}})}}));
  // The file does not say it: the largest of the family alone scales by its width per head.
  constexpr uint64_t kLayersOf27B = 62;
  const uint64_t per_head =
      config.at("hidden_size").as_u64() / config.at("num_attention_heads").as_u64();
  config.set("query_pre_attn_scalar", out.layers == kLayersOf27B ? per_head : out.head_dim);
}

void read_gpt_oss(Keys& keys, const checkpoint::Checkpoint& checkpoint, GgufConfig& out) {
  keys.expect_count("rope.dimension_count", out.head_dim, "the head width");
  Json rope = read_rope(keys, checkpoint, 150000);
  const double theta = rope.at("rope_theta").as_double();
  if (const auto local = keys.find("rope.freq_base_swa"); local && local->as_double() != theta)
    throw Error(Code::kSupport, "{} is {}, only that of all layers, {}, is supported",
                local->where(), local->as_double(), theta);
  // No file says it: this family leaves the ends of the ramp unrounded.
  if (rope.at("rope_type").as_string() == "yarn") rope.set("truncate", false);
  out.config.set("rope_parameters", std::move(rope));
  out.config.set("layer_types", window_layer_types(keys, out.layers, true, 2));
  out.config.set("sliding_window", keys.count("attention.sliding_window"));
}

struct Name {
  std::string_view hugging_face, gguf;
};
constexpr Name kGlobalNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};
// Behind "model.layers.N." and "blk.N."; of two rows with one name, the first that is there.
constexpr Name kLayerNames[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"self_attn.o_proj.bias", "attn_output.bias"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.router.weight", "ffn_gate_inp.weight"},
    {"mlp.router.bias", "ffn_gate_inp.bias"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
    {"mlp.experts.up_proj", "ffn_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.experts.gate_proj_bias", "ffn_gate_exps.bias"},
    {"mlp.experts.up_proj_bias", "ffn_up_exps.bias"},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
};

// Of the draft layer, behind "mtp." and "blk.N."; the others follow kLayerNames.
constexpr Name kDraftNames[] = {
    {"fc.weight", "nextn.eh_proj.weight"},
    {"pre_fc_norm_embedding.weight", "nextn.enorm.weight"},
    {"pre_fc_norm_hidden.weight", "nextn.hnorm.weight"},
    {"norm.weight", "nextn.shared_head_norm.weight"},
};

// Where the file keeps the tensor of a layer, whether it has it or not; empty for unknown names.
std::string layer_tensor(std::string_view layer, std::string_view name,
                         const checkpoint::Checkpoint& checkpoint) {
  std::string found;
  for (const Name& row : kLayerNames) {
    if (row.hugging_face != name) continue;
    found = fmt::format("blk.{}.{}", layer, row.gguf);
    if (checkpoint.find(found) != nullptr) return found;
  }
  return found;
}

std::string draft_tensor(std::string_view name, const checkpoint::Checkpoint& checkpoint) {
  const GgufFile& file = *checkpoint.gguf();
  Keys keys(file, file.at("general.architecture").as_string());
  const std::string layer = std::to_string(keys.count("block_count") - draft_layers(keys));
  for (const Name& row : kDraftNames)
    if (row.hugging_face == name) return fmt::format("blk.{}.{}", layer, row.gguf);
  constexpr std::string_view block = "layers.0.";
  return name.starts_with(block) ? layer_tensor(layer, name.substr(block.size()), checkpoint) : "";
}

// Rows of heads whose halves were interleaved: row p·d/2 + j of a head is stored row 2j + p.
std::vector<Piece> unpaired(const Piece& all, uint64_t head_rows) {
  std::vector<Piece> out;
  for (uint64_t head = all.row_begin; head < all.row_end; head += head_rows)
    for (uint64_t p = 0; p < 2; ++p)
      for (uint64_t j = 0; j < head_rows / 2; ++j) {
        const uint64_t row = head + 2 * j + p;
        out.push_back({all.tensor, row, row + 1, all.encoded});
      }
  return out;
}

// Value heads of one key head, neighbours here, are nk heads apart in the file: head g·r + i is
// stored at i·nk + g. Calls body(first, end) in units of `unit` from `begin`.
template <typename Body>
void for_each_value_head(const GgufConfig& c, uint64_t begin, uint64_t unit, Body body) {
  const uint64_t per_key = c.nv / c.nk;
  for (uint64_t g = 0; g < c.nk; ++g)
    for (uint64_t i = 0; i < per_key; ++i) {
      const uint64_t first = begin + (i * c.nk + g) * unit;
      body(first, first + unit);
    }
}

void regroup_rows(const GgufConfig& c, uint64_t unit, ImportedParameter& parameter) {
  const Piece all = parameter.pieces.front();
  parameter.pieces.clear();
  for_each_value_head(c, all.row_begin, unit, [&](uint64_t begin, uint64_t end) {
    parameter.pieces.push_back({all.tensor, begin, end, all.encoded});
  });
}

void regroup_columns(const GgufConfig& c, uint64_t begin, uint64_t unit,
                     ImportedParameter& parameter) {
  if (begin > 0) parameter.columns.push_back({0, begin});
  for_each_value_head(c, begin, unit, [&](uint64_t first, uint64_t end) {
    parameter.columns.push_back({first, end});
  });
  Piece& piece = parameter.pieces.front();
  if (piece.encoded == nullptr) return;
  const auto reordered = reorder_repacked(*piece.encoded, parameter.columns);
  if (reordered == nullptr) return;
  piece.encoded = reordered;
  parameter.columns.clear();
}

void regroup_value_heads(const GgufConfig& c, std::string_view role, ImportedParameter& parameter) {
  if (role == "gdn/value" || role == "gdn/z") regroup_rows(c, c.dv, parameter);
  if (role == "gdn/a_projection" || role == "gdn/b_projection") regroup_rows(c, 1, parameter);
  if (role == "gdn/a_log" || role == "gdn/dt_bias") regroup_columns(c, 0, 1, parameter);
  if (role == "gdn/convolution") regroup_columns(c, 2 * c.nk * c.dk, c.dv, parameter);
  // Columns that cannot leave their block stay there: recipe/encode.h, input_columns.
  if (role == "gdn/output") regroup_columns(c, 0, c.dv, parameter);
}

bool is_offset_norm(std::string_view role) {
  return role == "input_norm" || role == "post_attention_norm" || role == "final_norm" ||
         role == "attention/query_norm" || role == "attention/key_norm" ||
         role == "attention_output_norm" || role == "ffn_output_norm" || role == "embedding_norm" ||
         role == "hidden_norm";
}

// "gdn/value" of "text/layers/3/gdn/value", "final_norm" of "mtp/final_norm".
std::string_view role_of(std::string_view name) {
  name.remove_prefix(name.find('/') + 1);
  constexpr std::string_view layers = "layers/";
  if (!name.starts_with(layers)) return name;
  name.remove_prefix(layers.size());
  return name.substr(name.find('/') + 1);
}

void check_vector(const std::string& where, const ImportedParameter& parameter) {
  const checkpoint::Tensor& tensor = *parameter.pieces.front().tensor;
  if (checkpoint::dtype_bits(tensor.dtype) == 0 && parameter.inputs.empty() &&
      parameter.kind == ParameterKind::kPlain)
    throw Error(Code::kSupport, "{}: tensor '{}' is {}, expected F32, F16 or BF16", where,
                tensor.name, checkpoint::dtype_name(tensor.dtype));
}

// Whether the norms of a draft layer are stored as 1 + w like the others of the file, which its
// exporter decides (spec/artifact.md §15.3). w lies around 0, a norm by itself may be anywhere: the
// median of their means tells.
bool draft_norms_plus_one(const ImportedComponent& mtp) {
  std::vector<double> means;
  for (const ImportedParameter& parameter : mtp.parameters) {
    if (!is_offset_norm(role_of(parameter.name))) continue;
    std::vector<float> values(codec::element_count(parameter.shape));
    read_rows(parameter, 0, geometry_of(parameter).rows, values.data());
    const double sum = std::reduce(values.begin(), values.end(), 0.0);
    if (std::isfinite(sum)) means.push_back(sum / static_cast<double>(values.size()));
  }
  std::ranges::sort(means);
  return means.empty() || means[means.size() / 2] >= 0.5;
}

// Keys that say that weights are stored in another basis, which the architecture's keys do not
// tell.
void refuse_rotations(const GgufFile& file) {
  constexpr std::string_view kRotation = "prism.hadamard.";
  for (const std::string_view key : file.keys())
    if (key.starts_with(kRotation))
      throw Error(Code::kSupport,
                  "{}: key {}: the weights are stored rotated, and no op here rotates what they "
                  "are multiplied with; expected a file without keys of {}*",
                  file.path().string(), quote(key), kRotation);
}

}  // namespace

GgufConfig read_gguf_config(const checkpoint::Checkpoint& checkpoint) {
  const GgufFile& file = *checkpoint.gguf();
  const Family& family = family_of(file);
  refuse_rotations(file);
  Keys keys(file, family.gguf);
  GgufConfig out;
  read_common(keys, family, checkpoint, out);
  read_feed_forward(keys, family.gguf, out.config);
  if (family.gguf.starts_with("qwen35"))
    read_qwen35(keys, family, out);
  else if (family.gguf == "gemma3")
    read_gemma3(keys, checkpoint, out);
  else if (family.gguf == "gpt-oss")
    read_gpt_oss(keys, checkpoint, out);
  else
    read_llama(keys, checkpoint, family, out);
  keys.finish();
  return out;
}

std::string gguf_tensor_name(std::string_view name, const checkpoint::Checkpoint& checkpoint) {
  for (const Name& row : kGlobalNames)
    if (row.hugging_face == name) return std::string(row.gguf);
  constexpr std::string_view layers = "model.layers.", draft = "mtp.";
  std::string found;
  if (name.starts_with(draft)) {
    found = draft_tensor(name.substr(draft.size()), checkpoint);
  } else if (name.starts_with(layers)) {
    const std::string_view rest = name.substr(layers.size());
    if (const size_t dot = rest.find('.'); dot != std::string_view::npos)
      found = layer_tensor(rest.substr(0, dot), rest.substr(dot + 1), checkpoint);
  }
  return found.empty() ? std::string(name) : found;
}

void restore_gguf_orders(const GgufConfig& config, const std::string& where, ImportedModel& model) {
  for (ImportedComponent& component : model.components) {
    for (const ImportedParameter& parameter : component.parameters) check_vector(where, parameter);
    bool plus_one = config.norms_plus_one;
    if (component.id == "mtp" && !draft_norms_plus_one(component)) {
      plus_one = false;
      model.notes.emplace_back("norms of the MTP layer are stored as w, those of others as 1 + w");
    }
    for (ImportedParameter& parameter : component.parameters) {
      const std::string_view role = role_of(parameter.name);
      if (config.rotary_rows != 0 && (role == "attention/query" || role == "attention/key"))
        parameter.pieces = unpaired(parameter.pieces.front(), config.rotary_rows);
      if (plus_one && is_offset_norm(role)) parameter.transform = Transform::kMinusOne;
      if (role == "gdn/a_log") parameter.transform = Transform::kLogNegated;
      if (config.nv != config.nk) regroup_value_heads(config, role, parameter);
    }
  }
}

}  // namespace flare::prepare
