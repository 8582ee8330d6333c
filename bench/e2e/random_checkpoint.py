#!/usr/bin/python3
"""Writes a checkpoint of a real model's shape with random bf16 weights, for benchmarks.

Usage: random_checkpoint.py SHAPE FOLDER      SHAPE: qwen3-0.6b, qwen3-1.7b, llama3.2-1b, qwen3.5-0.8b
Needs numpy. The text such a model writes is noise; its speed is that of the real one.
"""
import json
import os
import struct
import sys

import numpy as np

QWEN3 = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", vocab_size=151936, head_dim=128,
             num_key_value_heads=8, num_attention_heads=16, num_hidden_layers=28, rms_norm_eps=1e-6,
             max_position_embeddings=40960, tie_word_embeddings=True, rope_theta=1000000.0,
             attention_bias=False, hidden_act="silu")
SHAPES = {
    "qwen3-0.6b": dict(QWEN3, hidden_size=1024, intermediate_size=3072),
    "qwen3-1.7b": dict(QWEN3, hidden_size=2048, intermediate_size=6144),
    "llama3.2-1b": dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=128256,
                        head_dim=64, num_key_value_heads=8, num_attention_heads=32,
                        num_hidden_layers=16, rms_norm_eps=1e-5, max_position_embeddings=131072,
                        tie_word_embeddings=True, rope_theta=500000.0, hidden_size=2048,
                        intermediate_size=8192, attention_bias=False, mlp_bias=False,
                        hidden_act="silu"),
    "qwen3.5-0.8b": dict(architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text",
                         vocab_size=248320, hidden_size=1024, intermediate_size=3584,
                         num_hidden_layers=24, num_attention_heads=8, num_key_value_heads=2,
                         head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16,
                         linear_key_head_dim=128, linear_value_head_dim=128,
                         linear_conv_kernel_dim=4, rms_norm_eps=1e-6,
                         max_position_embeddings=262144, tie_word_embeddings=True,
                         attention_bias=False, hidden_act="silu",
                         layer_types=["full_attention" if i % 4 == 3 else "linear_attention"
                                      for i in range(24)],
                         rope_parameters=dict(rope_type="default", rope_theta=1e7,
                                              partial_rotary_factor=0.25,
                                              mrope_section=[11, 11, 10], mrope_interleaved=True)),
}


def tensors(c):
    hidden, inner, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    yield "model.embed_tokens.weight", [c["vocab_size"], hidden]
    kinds = c.get("layer_types", ["full_attention"] * c["num_hidden_layers"])
    gated = c["model_type"] == "qwen3_5_text"
    for i, kind in enumerate(kinds):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", [hidden]
        yield p + "post_attention_layernorm.weight", [hidden]
        if kind == "full_attention":
            yield p + "self_attn.q_proj.weight", [heads * d * (2 if gated else 1), hidden]
            yield p + "self_attn.k_proj.weight", [kv * d, hidden]
            yield p + "self_attn.v_proj.weight", [kv * d, hidden]
            yield p + "self_attn.o_proj.weight", [hidden, heads * d]
            if c["model_type"] != "llama":
                yield p + "self_attn.q_norm.weight", [d]
                yield p + "self_attn.k_norm.weight", [d]
        else:
            key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
            value = c["linear_num_value_heads"] * c["linear_value_head_dim"]
            n = c["linear_num_value_heads"]
            yield p + "linear_attn.in_proj_qkv.weight", [2 * key + value, hidden]
            yield p + "linear_attn.in_proj_z.weight", [value, hidden]
            yield p + "linear_attn.in_proj_a.weight", [n, hidden]
            yield p + "linear_attn.in_proj_b.weight", [n, hidden]
            yield p + "linear_attn.conv1d.weight", [2 * key + value, 1, 4]
            yield p + "linear_attn.A_log", [n]
            yield p + "linear_attn.dt_bias", [n]
            yield p + "linear_attn.norm.weight", [c["linear_value_head_dim"]]
            yield p + "linear_attn.out_proj.weight", [hidden, value]
        yield p + "mlp.gate_proj.weight", [inner, hidden]
        yield p + "mlp.up_proj.weight", [inner, hidden]
        yield p + "mlp.down_proj.weight", [hidden, inner]
    yield "model.norm.weight", [hidden]


def main(shape, folder):
    config = SHAPES[shape]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    header, offset = {}, 0
    for name, dims in tensors(config):
        size = 2 * int(np.prod(dims))
        header[name] = dict(dtype="BF16", shape=dims, data_offsets=[offset, offset + size])
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, dims in tensors(config):
            left = int(np.prod(dims))
            while left > 0:
                n = min(left, 1 << 22)
                block = rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)
                f.write((block.view(np.uint32) >> 16).astype(np.uint16).tobytes())
                left -= n
    print(f"{folder}: {offset / 2**30:.2f} GiB")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
