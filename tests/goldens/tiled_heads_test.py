#!/usr/bin/python3
# GGUF files whose DeltaNet output projection is a 256-wide k-quant over tiled value heads (artifact
# feature input_columns), or in the blocks of MXFP4 or PQ2_0, which fit into a head; against twins in
# the layout of Hugging Face checkpoints: the same numbers, decoded here by numpy, with the heads
# grouped. Logits of the two must agree.
#
# usage: tiled_heads_test.py IGNITION [unittest arguments]
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: /usr/bin/python3 has no numpy")
    sys.exit(77)

IGNITION = sys.argv.pop(1)
# Twins run the same arithmetic on the same numbers; what is left is the order of sums.
EXACT = 1e-5
# As served the projection takes int8 activations, and random DeltaNets magnify rounding: eight such
# models came out up to 9.0e-2 away, and as q8 up to 1.8e-1. A wrong order is 1 away. Frozen at
# about twice the first.
SERVED, WRONG = 0.2, 0.8
TOKENS = np.random.default_rng(7).integers(0, 61, 37)

VOCAB, HIDDEN, INNER, LAYERS, HEADS, HEAD_DIM, CONV, EPS = 61, 64, 96, 4, 2, 32, 4, 1e-6
ROTARY, SECTIONS, THETA, DK = 8, [2, 1, 1], 1e7, 32
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5


def half(data, at):
    """The fp16 number at byte `at` of each block, as a column."""
    return data[:, at:at + 2].copy().view(np.float16).astype(np.float64)


def decode_q4_k(data):
    """Values of blocks [n, 144]: d, dmin; 12 bytes with eight 6-bit scales and minima; 128 bytes of
    codes, the low nibbles of 32 bytes before their high ones. d·scale·code − dmin·minimum.
    """
    n = len(data)
    low, middle, high = data[:, 4:8], data[:, 8:12], data[:, 12:16]
    scale = np.hstack([low & 63, (high & 15) | (low >> 6 << 4)]).astype(np.float64)
    least = np.hstack([middle & 63, (high >> 4) | (middle >> 6 << 4)]).astype(np.float64)
    runs = data[:, 16:].reshape(n, 4, 1, 32)
    code = np.concatenate([runs & 15, runs >> 4], axis=2).reshape(n, 8, 32).astype(np.float64)
    values = (half(data, 0) * scale)[:, :, None] * code - (half(data, 2) * least)[:, :, None]
    return values.reshape(n, 256)


def decode_q6_k(data):
    """Values of blocks [n, 210]: 128 bytes of low nibbles, 64 of high pairs, 16 signed scales, d.
    Each half of 128 values takes 64 bytes of nibbles and 32 of pairs. d·scale·(code − 32).
    """
    n = len(data)
    low, high = data[:, :128].reshape(n, 2, 64), data[:, 128:192].reshape(n, 2, 32)
    scale = data[:, 192:208].copy().view(np.int8).astype(np.float64)
    nibbles = np.concatenate([low & 15, low >> 4], axis=2)
    pairs = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    code = (nibbles | pairs << 4).reshape(n, 16, 16).astype(np.float64) - 32
    return ((half(data, 208) * scale)[:, :, None] * code).reshape(n, 256)


def decode_mxfp4(data):
    """Values of blocks [n, 17]: a power of two as its exponent + 127, 32 four-bit floats, the low
    nibbles of 16 bytes before their high ones.
    """
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    table = np.concatenate([magnitudes, -magnitudes])
    codes = np.hstack([data[:, 1:] & 15, data[:, 1:] >> 4])
    return np.exp2(data[:, :1].astype(np.float64) - 127) * table[codes]


def decode_pq2_0(data):
    """Values of blocks [n, 34]: d, 128 bit pairs, the lowest of a byte first. d·(pair − 1)."""
    pairs = (data[:, 2:, None] >> np.array([0, 2, 4, 6]) & 3).reshape(len(data), 128)
    return half(data, 0) * (pairs.astype(np.float64) - 1)


# Number in a file, values and bytes of a block, its fp16 fields with their usual size, decoder.
TYPES = {
    "q4_k": (12, 256, 144, {0: 2e-3, 2: 1.5e-2}, decode_q4_k),
    "q6_k": (14, 256, 210, {208: 1e-4}, decode_q6_k),
    "mxfp4": (39, 32, 17, {}, decode_mxfp4),
    "pq2_0": (142, 128, 34, {0: 0.1}, decode_pq2_0),
}


def random_blocks(rng, n, type_name):
    _, _, n_bytes, halves, _ = TYPES[type_name]
    data = rng.integers(0, 256, (n, n_bytes), np.uint8)
    if type_name == "mxfp4":
        data[:, 0] = rng.integers(122, 125, n)
    if type_name == "pq2_0":  # no pair is 3
        data[:, 2:] = rng.integers(0, 3, (n, n_bytes - 2, 4)) @ np.array([1, 4, 16, 64])
    for at, size in halves.items():
        data[:, at:at + 2] = (size * rng.uniform(0.5, 1.5, (n, 1))).astype("<f2").view(np.uint8)
    return data


class Model:
    """Random numbers in the checkpoint's order, and the output projection as it is in the file."""

    def __init__(self, nk, nv, dv, type_name, seed):
        self.nk, self.nv, self.dv = nk, nv, dv
        rng = np.random.default_rng(seed)
        self.number, n_values, _, _, decode = TYPES[type_name]
        self.tensors, self.blocks, self.tiled = {}, {}, {}
        keys, values = nk * DK, nv * dv

        def matrix(name, *shape):
            self.tensors[name] = rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

        def norm(name, n):  # 1 + w loses no bit
            self.tensors[name] = (rng.integers(-200, 200, n) / 1024).astype(np.float32)

        matrix("model.embed_tokens.weight", VOCAB, HIDDEN)
        matrix("lm_head.weight", VOCAB, HIDDEN)
        norm("model.norm.weight", HIDDEN)
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            norm(p + "input_layernorm.weight", HIDDEN)
            norm(p + "post_attention_layernorm.weight", HIDDEN)
            matrix(p + "mlp.gate_proj.weight", INNER, HIDDEN)
            matrix(p + "mlp.up_proj.weight", INNER, HIDDEN)
            matrix(p + "mlp.down_proj.weight", HIDDEN, INNER)
            if i == LAYERS - 1:
                matrix(p + "self_attn.q_proj.weight", 2 * HEADS * HEAD_DIM, HIDDEN)
                matrix(p + "self_attn.k_proj.weight", HEAD_DIM, HIDDEN)
                matrix(p + "self_attn.v_proj.weight", HEAD_DIM, HIDDEN)
                matrix(p + "self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM)
                norm(p + "self_attn.q_norm.weight", HEAD_DIM)
                norm(p + "self_attn.k_norm.weight", HEAD_DIM)
                continue
            p += "linear_attn."
            matrix(p + "in_proj_qkv.weight", 2 * keys + values, HIDDEN)
            matrix(p + "in_proj_z.weight", values, HIDDEN)
            matrix(p + "in_proj_a.weight", nv, HIDDEN)
            matrix(p + "in_proj_b.weight", nv, HIDDEN)
            matrix(p + "conv1d.weight", 2 * keys + values, 1, CONV)
            decay = -np.exp(rng.uniform(-1, 1, nv)).astype(np.float32)
            self.tensors[p + "A_log"] = np.log(-decay.astype(np.float64)).astype(np.float32)
            self.blocks[p + "A_log"] = decay
            self.tensors[p + "dt_bias"] = rng.uniform(-1, 1, nv).astype(np.float32)
            self.tensors[p + "norm.weight"] = rng.uniform(0.5, 1.5, dv).astype(np.float32)
            name = p + "out_proj.weight"
            self.blocks[name] = random_blocks(rng, HIDDEN * values // n_values, type_name)
            decoded = decode(self.blocks[name])
            self.tiled[name] = decoded.reshape(HIDDEN, values).astype(np.float32)
            self.tensors[name] = self.tiled[name][:, self.tiled_index(dv)]

    def tiled_index(self, unit):
        """For each place of the grouped order (head g·r + i) its place in the file (i·nk + g)."""
        r = self.nv // self.nk
        heads = [i * self.nk + g for g in range(self.nk) for i in range(r)]
        return np.concatenate([np.arange(h * unit, (h + 1) * unit) for h in heads])

    def grouped_index(self, unit):
        return np.argsort(self.tiled_index(unit))

    def in_file(self, name):
        """The tensor as a GGUF file keeps it: type number, shape, data."""
        x = self.tensors[name]
        keys = 2 * self.nk * DK
        if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
            x = x + np.float32(1)
        elif name.endswith("out_proj.weight"):
            return self.number, x.shape, self.blocks[name].tobytes()
        elif name.endswith("in_proj_z.weight"):
            x = x[self.grouped_index(self.dv)]
        elif name.endswith(("in_proj_a.weight", "in_proj_b.weight", "dt_bias")):
            x = x[self.grouped_index(1)]
        elif name.endswith("A_log"):
            x = self.blocks[name][self.grouped_index(1)]
        elif name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
            x = np.concatenate([x[:keys], x[keys:][self.grouped_index(self.dv)]])
            x = x.reshape(len(x), -1)
        return 0, x.shape, np.ascontiguousarray(x).tobytes()


NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "lm_head.weight": "output.weight",
    "model.norm.weight": "output_norm.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
}


def gguf_name(name):
    if not name.startswith("model.layers."):
        return NAMES[name]
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[rest]}"


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def pair(key, kind, value):
    head = text(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + text(value)
    if kind == ARRAY:
        return head + struct.pack(f"<IQ{len(value)}i", I32, len(value), *value)
    return head + struct.pack({U32: "<I", F32: "<f"}[kind], value)


def write_gguf(path, model):
    a = "qwen35."
    pairs = [pair("general.architecture", STRING, "qwen35")]
    for key, value in {
            "block_count": LAYERS, "context_length": 256, "embedding_length": HIDDEN,
            "feed_forward_length": INNER, "attention.head_count": HEADS,
            "attention.head_count_kv": 1, "attention.key_length": HEAD_DIM,
            "attention.value_length": HEAD_DIM, "rope.dimension_count": ROTARY,
            "ssm.conv_kernel": CONV, "ssm.state_size": DK, "ssm.group_count": model.nk,
            "ssm.time_step_rank": model.nv, "ssm.inner_size": model.nv * model.dv,
            "full_attention_interval": LAYERS}.items():
        pairs.append(pair(a + key, U32, value))
    pairs.append(pair(a + "attention.layer_norm_rms_epsilon", F32, EPS))
    pairs.append(pair(a + "rope.freq_base", F32, THETA))
    pairs.append(pair(a + "rope.dimension_sections", ARRAY, SECTIONS + [0]))
    table, data = b"", b""
    for name in model.tensors:
        number, shape, content = model.in_file(name)
        table += text(gguf_name(name))
        table += struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        table += struct.pack("<IQ", number, len(data))
        data += content + b"\0" * (-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(model.tensors), len(pairs)) + b"".join(pairs) + table
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def write_twin(folder, model, output_in_file_order=False):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
        "hidden_size": HIDDEN, "vocab_size": VOCAB, "num_hidden_layers": LAYERS,
        "max_position_embeddings": 256, "tie_word_embeddings": False, "rms_norm_eps": EPS,
        "layer_types": ["linear_attention"] * (LAYERS - 1) + ["full_attention"],
        "num_attention_heads": HEADS, "num_key_value_heads": 1, "head_dim": HEAD_DIM,
        "intermediate_size": INNER, "linear_num_key_heads": model.nk,
        "linear_key_head_dim": DK, "linear_num_value_heads": model.nv,
        "linear_value_head_dim": model.dv, "linear_conv_kernel_dim": CONV,
        "rope_parameters": {"rope_type": "default", "rope_theta": THETA,
                            "partial_rotary_factor": ROTARY / HEAD_DIM,
                            "mrope_section": SECTIONS}}))
    tensors = model.tensors | (model.tiled if output_in_file_order else {})
    table, data = {}, b""
    for name, x in tensors.items():
        content = np.ascontiguousarray(x).tobytes()
        table[name] = {"dtype": "F32", "shape": x.shape,
                       "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)


def ignition(*words):
    done = subprocess.run([IGNITION, *map(str, words)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"ignition {words}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


class TiledHeads(unittest.TestCase):
    def logits(self, model, *flags):
        out = self.folder / "logits.safetensors"
        out.unlink(missing_ok=True)
        ignition("logits", model, "--tokens", ",".join(map(str, TOKENS)), "--output", out,
                 "--threads", 2, *flags)
        data = out.read_bytes()
        size = struct.unpack_from("<Q", data)[0]
        begin, end = json.loads(data[8:8 + size])["logits"]["data_offsets"]
        return np.frombuffer(data[8 + size + begin:8 + size + end], "<f4").astype(np.float64)

    @staticmethod
    def distance(got, want):
        return np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))

    def assert_near(self, got, want, bound, what):
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(self.distance(got, want), bound, what)

    def check(self, nk, nv, dv, type_name):
        model = Model(nk, nv, dv, type_name, seed=nv)
        gguf, twin, wrong = (self.folder / n for n in ("model.gguf", "twin", "wrong"))
        write_gguf(gguf, model)
        write_twin(twin, model)
        write_twin(wrong, model, output_in_file_order=True)
        kept, built = self.folder / "kept.ninfer", self.folder / "q8.ninfer"
        ignition("build", gguf, "--output", kept, "--recipe", "keep")
        ignition("verify", kept)
        ignition("build", gguf, "--output", built, "--recipe", "q8")
        want = self.logits(twin, "--exact")
        self.assertGreater(self.distance(self.logits(wrong, "--exact"), want), WRONG,
                           "the order of columns hardly matters to this model")
        served = self.logits(gguf)
        self.assert_near(served, want, SERVED, "served")
        self.assertEqual(self.logits(kept).tobytes(), served.tobytes())
        for path in (gguf, kept):
            self.assert_near(self.logits(path, "--exact"), want, EXACT, f"{path.name} exact")
            self.assert_near(self.logits(path, "--exact", "--chunk", 5), want, EXACT,
                             f"{path.name} in chunks")
        # Encoded anew, the columns are back in order.
        want = self.logits(twin, "--exact", "--recipe", "q8")
        self.assert_near(self.logits(gguf, "--exact", "--recipe", "q8"), want, EXACT, "gguf as q8")
        self.assert_near(self.logits(built, "--exact"), want, EXACT, "q8 artifact")
        return kept, built

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_numpy_decodes_as_specified(self):
        # spec/artifact.md §18.10
        for name, digest in ("q4_k", "63f7001c611b94e6"), ("q6_k", "a1a75fd4282ec112"):
            _, _, n_bytes, halves, decode = TYPES[name]
            block = (37 * np.arange(n_bytes) + 11).astype(np.uint8).reshape(1, -1)
            for at, word in zip(halves, (0x3400, 0x2C00)):
                block[0, at:at + 2] = word & 255, word >> 8
            values = decode(block).astype("<f4") + np.float32(0)  # −0 as +0
            self.assertEqual(hashlib.sha256(values.tobytes()).hexdigest()[:16], digest)

    def test_blocks_of_two_heads_q4_k(self):
        kept, built = self.check(nk=2, nv=6, dv=128, type_name="q4_k")
        uses = json.loads(ignition("--json", "inspect", kept, "--uses"))["result"]["uses"]
        found = [u["auxiliaries"] for u in uses if "auxiliaries" in u]
        self.assertEqual(found, [{"input_columns": {"object": "auxiliary/000000"}}] * (LAYERS - 1))
        shown = ignition("inspect", kept, "--uses", "--objects")
        self.assertEqual(shown.count("input_columns"), LAYERS - 1)
        self.assertRegex(shown, r"auxiliary/000000 +int32 +\[768\]")
        self.assertNotIn("input_columns", ignition("inspect", built, "--uses"))

    def test_blocks_of_two_heads_q6_k(self):
        self.check(nk=2, nv=6, dv=128, type_name="q6_k")

    def test_blocks_of_four_heads_q4_k(self):
        self.check(nk=2, nv=4, dv=64, type_name="q4_k")

    def test_blocks_of_four_heads_q6_k(self):
        self.check(nk=2, nv=4, dv=64, type_name="q6_k")

    def check_in_order(self, type_name, format_name):
        kept, _ = self.check(nk=2, nv=6, dv=128, type_name=type_name)
        objects = ignition("inspect", kept, "--uses", "--objects")
        self.assertNotIn("input_columns", objects)
        self.assertIn(format_name, objects)

    def test_blocks_within_a_head_mxfp4(self):
        self.check_in_order("mxfp4", "mxfp4")

    def test_blocks_within_a_head_pq2_0(self):
        self.check_in_order("pq2_0", "t2_g128_fp16")


if __name__ == "__main__":
    unittest.main()
