// GGUF files of tiny models, for tests: counting numbers in every tensor.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/gguf_fixture.h"

namespace flare::prepare::test {

using checkpoint::test::GgufBuilder;
using checkpoint::test::GgufBytes;

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kQ4K = 12;

inline uint64_t product(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (uint64_t d : shape) n *= d;
  return n;
}

// Element i is first + i.
inline std::string counting(const std::vector<uint64_t>& shape, float first) {
  GgufBytes out;
  for (uint64_t i = 0; i < product(shape); ++i) out.number(first + static_cast<float>(i));
  return out.all();
}

inline void f32_tensor(GgufBuilder& b, const std::string& name, const std::vector<uint64_t>& shape,
                       float first = 0) {
  b.tensor(name, shape, kF32, counting(shape, first));
}

inline void common_keys(GgufBuilder& b, const std::string& architecture) {
  b.text("general.architecture", architecture);
  const std::string a = architecture + ".";
  b.u32(a + "block_count", 1).u32(a + "context_length", 64).u32(a + "embedding_length", 8);
  b.u32(a + "feed_forward_length", 12).u32(a + "attention.head_count", 2);
  b.u32(a + "attention.head_count_kv", 1).f32(a + "attention.layer_norm_rms_epsilon", 1e-5f);
  b.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "qwen2");
  b.texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<end>"});
  b.u32s("tokenizer.ggml.token_type", {1, 1, 1, 3});
  b.texts("tokenizer.ggml.merges", {"a b"}).u32("tokenizer.ggml.eos_token_id", 3);
}

inline void mlp(GgufBuilder& b, const std::string& layer) {
  f32_tensor(b, layer + "ffn_gate.weight", {12, 8});
  f32_tensor(b, layer + "ffn_up.weight", {12, 8});
  f32_tensor(b, layer + "ffn_down.weight", {8, 12});
}

inline GgufBuilder tiny_llama() {
  GgufBuilder b;
  common_keys(b, "llama");
  f32_tensor(b, "token_embd.weight", {4, 8});
  f32_tensor(b, "output_norm.weight", {8}, 1);
  f32_tensor(b, "blk.0.attn_norm.weight", {8}, 1);
  f32_tensor(b, "blk.0.attn_q.weight", {8, 8});
  f32_tensor(b, "blk.0.attn_k.weight", {4, 8}, 100);
  f32_tensor(b, "blk.0.attn_v.weight", {4, 8}, 200);
  f32_tensor(b, "blk.0.attn_output.weight", {8, 8});
  f32_tensor(b, "blk.0.ffn_norm.weight", {8}, 1);
  mlp(b, "blk.0.");
  return b;
}

// Two layers, of which the second sees everything.
inline GgufBuilder tiny_gemma3() {
  GgufBuilder b;
  common_keys(b, "gemma3");
  b.u32("gemma3.block_count", 2).u32("gemma3.attention.sliding_window", 16);
  b.u32("gemma3.attention.sliding_window_pattern", 2).f32("gemma3.rope.freq_base", 1e6f);
  f32_tensor(b, "token_embd.weight", {4, 8});
  f32_tensor(b, "output_norm.weight", {8}, 1);
  for (const std::string l : {"blk.0.", "blk.1."}) {
    f32_tensor(b, l + "attn_norm.weight", {8}, 11);
    f32_tensor(b, l + "attn_q.weight", {8, 8});
    f32_tensor(b, l + "attn_k.weight", {4, 8});
    f32_tensor(b, l + "attn_v.weight", {4, 8});
    f32_tensor(b, l + "attn_q_norm.weight", {4}, 21);
    f32_tensor(b, l + "attn_k_norm.weight", {4}, 31);
    f32_tensor(b, l + "attn_output.weight", {8, 8});
    f32_tensor(b, l + "post_attention_norm.weight", {8}, 41);
    f32_tensor(b, l + "ffn_norm.weight", {8}, 51);
    f32_tensor(b, l + "post_ffw_norm.weight", {8}, 61);
    mlp(b, l);
  }
  return b;
}

// Gated DeltaNet layers: nk key heads of 8, nv value heads of 32 unless told otherwise.
constexpr uint64_t kNk = 2, kNv = 4, kDk = 8, kDv = 32;
constexpr uint64_t kKeys = kNk * kDk, kValues = kNv * kDv, kChannels = 2 * kKeys + kValues;

inline void qwen35_layer(GgufBuilder& b, const std::string& layer, uint64_t dv) {
  const uint64_t values = kNv * dv, channels = 2 * kKeys + values;
  f32_tensor(b, layer + "attn_norm.weight", {8}, 1);
  f32_tensor(b, layer + "post_attention_norm.weight", {8}, 1);
  f32_tensor(b, layer + "attn_qkv.weight", {channels, 8});
  f32_tensor(b, layer + "attn_gate.weight", {values, 8});
  f32_tensor(b, layer + "ssm_alpha.weight", {kNv, 8});
  f32_tensor(b, layer + "ssm_beta.weight", {kNv, 8}, 500);
  GgufBytes decay;
  for (uint64_t i = 0; i < kNv; ++i) decay.number(-std::exp(static_cast<float>(i)));
  b.tensor(layer + "ssm_a", {kNv}, kF32, decay.all());
  f32_tensor(b, layer + "ssm_dt.bias", {kNv}, 30);
  f32_tensor(b, layer + "ssm_conv1d.weight", {channels, 4});
  f32_tensor(b, layer + "ssm_norm.weight", {dv}, 7);
  mlp(b, layer);
}

// All but the tensors blk.N.ssm_out.weight.
inline GgufBuilder qwen35_without_output(uint32_t layers, uint64_t dv) {
  GgufBuilder b;
  common_keys(b, "qwen35");
  b.u32("qwen35.block_count", layers);
  b.u32("qwen35.ssm.conv_kernel", 4).u32("qwen35.ssm.state_size", kDk);
  b.u32("qwen35.ssm.group_count", kNk).u32("qwen35.ssm.time_step_rank", kNv);
  b.u32("qwen35.ssm.inner_size", static_cast<uint32_t>(kNv * dv));
  b.u32("qwen35.rope.dimension_count", 4);
  b.u32s("qwen35.rope.dimension_sections", {1, 1, 0, 0});
  b.flags("qwen35.attention.recurrent_layers", std::vector<bool>(layers, true));
  f32_tensor(b, "token_embd.weight", {4, 8});
  f32_tensor(b, "output_norm.weight", {8}, 1);
  for (uint32_t i = 0; i < layers; ++i) qwen35_layer(b, "blk." + std::to_string(i) + ".", dv);
  return b;
}

// One layer whose output is q8_0: a block for each head.
inline GgufBuilder tiny_qwen35() {
  GgufBuilder b = qwen35_without_output(1, kDv);
  GgufBytes blocks;
  for (uint64_t row = 0; row < 8; ++row)
    for (uint64_t head = 0; head < kNv; ++head) {
      blocks.number<uint16_t>(0x3C00);  // 1
      for (uint64_t i = 0; i < kDv; ++i)
        blocks.number(static_cast<int8_t>((row * 40 + head * 32 + i) % 120));
    }
  b.tensor("blk.0.ssm_out.weight", {8, kValues}, kQ8_0, blocks.all());
  return b;
}

// The same with a draft layer behind it, whose norms are `norm` everywhere.
inline GgufBuilder tiny_qwen35_with_draft(float norm) {
  GgufBuilder b = tiny_qwen35();
  b.u32("qwen35.block_count", 2).u32("qwen35.nextn_predict_layers", 1);
  const auto norms = [&](const std::string& name, uint64_t n) {
    GgufBytes bytes;
    for (uint64_t i = 0; i < n; ++i) bytes.number(norm);
    b.tensor("blk.1." + name, {n}, kF32, bytes.all());
  };
  f32_tensor(b, "blk.1.nextn.eh_proj.weight", {8, 16}, 700);
  for (const char* name :
       {"nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm", "attn_norm", "post_attention_norm"})
    norms(std::string(name) + ".weight", 8);
  norms("attn_q_norm.weight", 4);
  norms("attn_k_norm.weight", 4);
  f32_tensor(b, "blk.1.attn_q.weight", {16, 8}, 800);
  f32_tensor(b, "blk.1.attn_k.weight", {4, 8}, 900);
  f32_tensor(b, "blk.1.attn_v.weight", {4, 8});
  f32_tensor(b, "blk.1.attn_output.weight", {8, 8});
  mlp(b, "blk.1.");
  return b;
}

// Two layers whose outputs are q4_k: four heads of 64 fill a block, a row. Stored column c of row r
// is (r + 1)·floor(c/16), in both layers.
constexpr uint64_t kWideDv = 64, kWideValues = kNv * kWideDv;

inline std::string wide_output_blocks() {
  constexpr uint16_t rows[] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
  GgufBytes blocks;
  for (const uint16_t scale : rows) {  // 1 … 8
    blocks.number(scale).number<uint16_t>(0);
    for (const uint8_t factor : {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}) blocks.number(factor);
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l)
        blocks.number(static_cast<uint8_t>((64 * pair + l) / 16 | (64 * pair + 32 + l) / 16 << 4));
  }
  return blocks.all();
}

inline GgufBuilder wide_qwen35() {
  GgufBuilder b = qwen35_without_output(2, kWideDv);
  for (const char* layer : {"blk.0.", "blk.1."})
    b.tensor(std::string(layer) + "ssm_out.weight", {8, kWideValues}, kQ4K, wide_output_blocks());
  return b;
}

// Four experts of width 6 and one that every token takes; `fused` gate and up in one stack.
constexpr uint64_t kExperts = 4, kExpertWidth = 6;

inline void mixture(GgufBuilder& b, const std::string& architecture, const std::string& layer,
                    bool fused) {
  for (const char* role : {"gate", "up", "down"})
    b.remove_tensor(layer + "ffn_" + role + ".weight");
  const std::string a = architecture + ".";
  b.u32(a + "expert_count", kExperts).u32(a + "expert_used_count", 2);
  b.u32(a + "expert_feed_forward_length", kExpertWidth);
  f32_tensor(b, layer + "ffn_gate_inp.weight", {kExperts, 8}, 70);
  if (fused) {
    f32_tensor(b, layer + "ffn_gate_up_exps.weight", {kExperts, 2 * kExpertWidth, 8}, 1000);
  } else {
    f32_tensor(b, layer + "ffn_gate_exps.weight", {kExperts, kExpertWidth, 8}, 1000);
    f32_tensor(b, layer + "ffn_up_exps.weight", {kExperts, kExpertWidth, 8}, 2000);
  }
  f32_tensor(b, layer + "ffn_down_exps.weight", {kExperts, 8, kExpertWidth}, 3000);
}

inline GgufBuilder tiny_qwen35moe(bool fused = false) {
  GgufBuilder dense = tiny_qwen35();
  dense.rename("qwen35.", "qwen35moe.").text("general.architecture", "qwen35moe");
  mixture(dense, "qwen35moe", "blk.0.", fused);
  dense.remove("qwen35moe.feed_forward_length");
  dense.u32("qwen35moe.expert_shared_feed_forward_length", 5);
  f32_tensor(dense, "blk.0.ffn_gate_inp_shexp.weight", {8}, 90);
  f32_tensor(dense, "blk.0.ffn_gate_shexp.weight", {5, 8}, 4000);
  f32_tensor(dense, "blk.0.ffn_up_shexp.weight", {5, 8}, 5000);
  f32_tensor(dense, "blk.0.ffn_down_shexp.weight", {8, 5}, 6000);
  return dense;
}

inline GgufBuilder tiny_qwen3moe() {
  GgufBuilder b = tiny_llama();
  b.rename("llama.", "qwen3moe.").text("general.architecture", "qwen3moe");
  f32_tensor(b, "blk.0.attn_q_norm.weight", {4}, 21);
  f32_tensor(b, "blk.0.attn_k_norm.weight", {4}, 31);
  mixture(b, "qwen3moe", "blk.0.", false);
  return b;
}

// Two layers, of which the first sees a window only.
inline GgufBuilder tiny_gpt_oss() {
  GgufBuilder b;
  common_keys(b, "gpt-oss");
  b.u32("gpt-oss.block_count", 2).u32("gpt-oss.attention.sliding_window", 16);
  b.u32("gpt-oss.attention.key_length", 4).u32("gpt-oss.attention.value_length", 4);
  b.f32("gpt-oss.rope.freq_base", 150000).text("gpt-oss.rope.scaling.type", "yarn");
  b.f32("gpt-oss.rope.scaling.factor", 32);
  b.u32("gpt-oss.rope.scaling.original_context_length", 4096);
  f32_tensor(b, "token_embd.weight", {4, 8});
  f32_tensor(b, "output.weight", {4, 8});
  f32_tensor(b, "output_norm.weight", {8}, 1);
  for (const std::string l : {"blk.0.", "blk.1."}) {
    f32_tensor(b, l + "attn_norm.weight", {8}, 21);
    f32_tensor(b, l + "post_attention_norm.weight", {8}, 31);
    f32_tensor(b, l + "attn_q.weight", {8, 8});
    f32_tensor(b, l + "attn_k.weight", {4, 8});
    f32_tensor(b, l + "attn_v.weight", {4, 8});
    f32_tensor(b, l + "attn_output.weight", {8, 8});
    f32_tensor(b, l + "attn_q.bias", {8}, 11);
    f32_tensor(b, l + "attn_k.bias", {4}, 12);
    f32_tensor(b, l + "attn_v.bias", {4}, 13);
    f32_tensor(b, l + "attn_output.bias", {8}, 14);
    f32_tensor(b, l + "attn_sinks.weight", {2}, 15);
    mixture(b, "gpt-oss", l, false);
    f32_tensor(b, l + "ffn_gate_inp.bias", {kExperts}, 80);
    f32_tensor(b, l + "ffn_gate_exps.bias", {kExperts, kExpertWidth}, 4000);
    f32_tensor(b, l + "ffn_up_exps.bias", {kExperts, kExpertWidth}, 5000);
    f32_tensor(b, l + "ffn_down_exps.bias", {kExperts, 8}, 6000);
  }
  return b;
}

// Where the file keeps value head `head` of the parameter (quantised_checkpoints.md §8.5).
inline uint64_t tiled(uint64_t head) {
  const uint64_t per_key = kNv / kNk;
  return head % per_key * kNk + head / per_key;
}

}  // namespace flare::prepare::test
