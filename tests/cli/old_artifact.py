# Files of the container's versions 1 and 2, made of the parameters of a golden checkpoint as the
# artifact specification (§17) describes them.
import json
import pathlib
import struct

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "shared/data/goldens/models/qwen3_5_vision"


class Checkpoint:
    """bf16 rows of a safetensors file."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        data = (folder / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        self.header = json.loads(data[8:8 + size])
        self.data = data[8 + size:]

    def words(self, name):
        """Shape, element type and bytes."""
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return entry["shape"], entry["dtype"], self.data[begin:end]

    def rows(self, name, begin=None, end=None):
        shape, _, data = self.words(name)
        width = len(data) // shape[0]
        begin, end = begin or 0, shape[0] if end is None else end
        return [data[r * width:(r + 1) * width] for r in range(begin, end)]


class OldWriter:
    """A version 1 or 2 file: 16 bytes, JSON, payload at a multiple of 4096."""

    def __init__(self, version):
        self.version, self.objects, self.payload = version, [], b""

    def tensor(self, name, shape, data, format="BF16", layout="contiguous-le-v1"):
        self.payload += bytes(-len(self.payload) % 256)
        self.objects.append(dict(name=name, kind="tensor", shape=shape, format=format, layout=layout,
                                 offset=len(self.payload), bytes=len(data)))
        self.payload += data

    def rows(self, name, rows):
        self.tensor(name, [len(rows), len(rows[0]) // 2], b"".join(rows))

    def resource(self, name, data):
        self.objects.append(dict(name=name, kind="resource", encoding="raw-bytes-v1",
                                 offset=len(self.payload), bytes=len(data)))
        self.payload += data

    def write(self, path, model_id="golden", **root):
        if self.version == 1:
            root = root or dict(model_id=model_id, objects=self.objects)
        else:
            root = root or dict(identity=dict(model_id=model_id, weights_id="bf16"), objects=self.objects)
        text = json.dumps(root).encode()
        head = b"NINFER\0" + bytes([self.version]) + struct.pack("<Q", len(text)) + text
        path.write_bytes(head + bytes(-len(head) % 4096) + self.payload)


def add_attention(old, ck, new, hf, heads, width, fused):
    """Per head of q_proj: `width` query rows, then as many gate rows."""
    q_proj = ck.rows(hf + "q_proj.weight")
    query = [r for h in range(heads) for r in q_proj[2 * width * h:2 * width * h + width]]
    gate = [r for h in range(heads) for r in q_proj[2 * width * h + width:2 * width * (h + 1)]]
    key, value = ck.rows(hf + "k_proj.weight"), ck.rows(hf + "v_proj.weight")
    if fused:
        old.rows(new + "query_key_gate_value", query + key + gate + value)
    else:
        old.rows(new + "query_key", query + key)
        old.rows(new + "gate_value", gate + value)
    for norm in ("q", "k"):
        shape, _, data = ck.words(f"{hf}{norm}_norm.weight")
        old.tensor(new + {"q": "query", "k": "key"}[norm] + "_norm", shape, data)
    old.rows(new + "output", ck.rows(hf + "o_proj.weight"))


def add_linear(old, ck, new, hf, text, fused):
    kg = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    for name, source in (("a_log", "A_log"), ("dt_bias", "dt_bias")):
        shape, dtype, data = ck.words(hf + source)
        if dtype == "BF16":  # the registry wants fp32
            data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
        old.tensor(new + name, shape, data, "FP32")
    (channels, _, taps), _, data = ck.words(hf + "conv1d.weight")
    words = [data[i:i + 2] for i in range(0, len(data), 2)]
    old.tensor(new + "convolution", [taps, channels],
               b"".join(words[c * taps + t] for t in range(taps) for c in range(channels)))
    old.rows(new + "a_b_projection", ck.rows(hf + "in_proj_a.weight") + ck.rows(hf + "in_proj_b.weight"))
    qkv, z = ck.rows(hf + "in_proj_qkv.weight"), ck.rows(hf + "in_proj_z.weight")
    if fused:
        old.rows(new + "query_key_value_z", qkv + z)
    else:
        old.rows(new + "query_key", qkv[:2 * kg])
        old.rows(new + "value_z", qkv[2 * kg:] + z)
    shape, _, data = ck.words(hf + "norm.weight")
    old.tensor(new + "norm", shape, data)
    old.rows(new + "output", ck.rows(hf + "out_proj.weight"))


def vector(old, ck, new, source):
    shape, _, data = ck.words(source)
    old.tensor(new, shape, data)


def add_feed_forward(old, ck, new, hf):
    vector(old, ck, new + "post_attention_norm", hf + "post_attention_layernorm.weight")
    old.rows(new + "mlp/gate_up", ck.rows(hf + "mlp.gate_proj.weight") + ck.rows(hf + "mlp.up_proj.weight"))
    old.rows(new + "mlp/down", ck.rows(hf + "mlp.down_proj.weight"))


def add_vision(old, ck, depth):
    hf = "model.visual."
    shape, _, data = ck.words(hf + "patch_embed.proj.weight")
    old.tensor("vision/patch_embedding", [shape[0], len(data) // 2 // shape[0]], data)
    vector(old, ck, "vision/patch_embedding_bias", hf + "patch_embed.proj.bias")
    vector(old, ck, "vision/position_embedding", hf + "pos_embed.weight")
    for i in range(depth):
        new, block = f"vision/layers/{i}/", f"{hf}blocks.{i}."
        for norm in ("norm1", "norm2"):
            for part in ("weight", "bias"):
                vector(old, ck, f"{new}{norm}/{part}", f"{block}{norm}.{part}")
        for name, source in (("attention/qkv", "attn.qkv"), ("attention/output", "attn.proj"),
                             ("mlp/fc1", "mlp.linear_fc1"), ("mlp/fc2", "mlp.linear_fc2")):
            vector(old, ck, new + name, block + source + ".weight")
            vector(old, ck, new + name + "_bias", block + source + ".bias")
    for part in ("weight", "bias"):
        vector(old, ck, f"vision/merger/norm/{part}", f"{hf}merger.norm.{part}")
        for fc in ("fc1", "fc2"):
            vector(old, ck, f"vision/merger/{fc}" + ("_bias" if part == "bias" else ""),
                   f"{hf}merger.linear_{fc}.{part}")


def old_file(version, path, fused, with_vision=True):
    ck = Checkpoint(GOLDEN)
    text = ck.config["text_config"]
    old = OldWriter(version)
    old.resource("frontend/generation_config.json", b'{"eos_token_id": 2}')
    old.resource("frontend/preprocessor_config.json", b'{"patch_size": 16}')
    vector(old, ck, "text/token_embedding", "model.language_model.embed_tokens.weight")
    vector(old, ck, "text/output_head", "lm_head.weight")
    vector(old, ck, "text/final_norm", "model.language_model.norm.weight")
    for i, kind in enumerate(text["layer_types"]):
        new, hf = f"text/layers/{i}/", f"model.language_model.layers.{i}."
        vector(old, ck, new + "input_norm", hf + "input_layernorm.weight")
        if kind == "full_attention":
            add_attention(old, ck, new + "attention/", hf + "self_attn.", text["num_attention_heads"],
                          text["head_dim"], fused)
        else:
            add_linear(old, ck, new + "gdn/", hf + "linear_attn.", text, fused)
        add_feed_forward(old, ck, new, hf)
    if with_vision:
        add_vision(old, ck, ck.config["vision_config"]["depth"])
    old.write(path)
    return old
