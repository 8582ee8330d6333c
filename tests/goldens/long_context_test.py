#!/usr/bin/python3
# Case B026: logits do not depend on how long the pieces are in which a prompt is read, whatever the format of
# keys and values and however long the prompt. A Llama of one layer with random weights, against float64 in numpy.
#
# usage: long_context_test.py IGNITION [unittest arguments]
import json
import os
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
FULL = os.environ.get("FLARE_TEST_FULL") == "1"
VOCAB, HIDDEN, INNER, HEADS, KV_HEADS, DIM, EPS, THETA = 96, 64, 96, 4, 2, 32, 1e-6, 1e6
LENGTHS, CHUNKS = (100, 8192, 32768), (1, 31, 512, 4096)
# Relative distance of a row of logits: f32 sums alone; int8 activations, and keys and values rounded to 8 or to 3
# bits of fraction. A prompt without its first half is HALF away, one whose last row is one place too far SHIFTED.
BOUNDS = {"exact": 1e-4, "bf16": 0.02, "fp8_e4m3": 0.15}
HALF, SHIFTED = 0.3, 0.02


def model():
    """Weights as a checkpoint has them, already rounded to bf16."""
    rng = np.random.default_rng(26)
    tensors = {}

    def matrix(name, rows, columns, size=1.0):
        x = rng.normal(0, size * columns ** -0.5, (rows, columns)).astype("<f4")
        tensors[name] = (x.view("<u4") & np.uint32(0xFFFF0000)).view("<f4")

    layer = "model.layers.0."
    matrix("model.embed_tokens.weight", VOCAB, HIDDEN, 8)
    matrix("lm_head.weight", VOCAB, HIDDEN)
    matrix(layer + "self_attn.q_proj.weight", HEADS * DIM, HIDDEN, 1.5)
    matrix(layer + "self_attn.k_proj.weight", KV_HEADS * DIM, HIDDEN, 1.5)
    matrix(layer + "self_attn.v_proj.weight", KV_HEADS * DIM, HIDDEN, 4)
    matrix(layer + "self_attn.o_proj.weight", HIDDEN, HEADS * DIM, 4)
    matrix(layer + "mlp.gate_proj.weight", INNER, HIDDEN)
    matrix(layer + "mlp.up_proj.weight", INNER, HIDDEN)
    matrix(layer + "mlp.down_proj.weight", HIDDEN, INNER)
    for name in ("model.norm", layer + "input_layernorm", layer + "post_attention_layernorm"):
        tensors[name + ".weight"] = np.ones(HIDDEN, "<f4")
    return tensors


def write_checkpoint(folder, tensors):
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
        "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
        "vocab_size": VOCAB, "max_position_embeddings": LENGTHS[-1], "rms_norm_eps": EPS, "rope_theta": THETA,
        "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}))
    table, data = {}, b""
    for name, x in tensors.items():
        content = (x.view("<u4") >> 16).astype("<u2").tobytes()
        table[name] = {"dtype": "BF16", "shape": x.shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)


class Oracle:
    """One layer needs nothing of a row but its keys and values, so any row's logits cost one pass over them."""

    def __init__(self, tensors, tokens, first_position=0):
        self.w = {name.removeprefix("model.layers.0."): x.astype(np.float64) for name, x in tensors.items()}
        self.x = self.w["model.embed_tokens.weight"][tokens]
        self.position = first_position + np.arange(len(tokens))
        h = self.norm(self.x)
        self.q = self.rotate((h @ self.w["self_attn.q_proj.weight"].T).reshape(-1, HEADS, DIM))
        self.k = self.rotate((h @ self.w["self_attn.k_proj.weight"].T).reshape(-1, KV_HEADS, DIM))
        self.v = (h @ self.w["self_attn.v_proj.weight"].T).reshape(-1, KV_HEADS, DIM)

    @staticmethod
    def norm(x):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPS)

    def rotate(self, x):
        angle = self.position[:, None, None] * THETA ** (-np.arange(DIM // 2) / (DIM / 2))
        a, b = x[..., :DIM // 2], x[..., DIM // 2:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)

    def logits(self, row, begin=0):
        """Of one row, which sees the rows from `begin` on."""
        seen = slice(begin, row + 1)
        heads = []
        for head in range(HEADS):
            group = head * KV_HEADS // HEADS
            score = self.k[seen, group] @ self.q[row, head] / np.sqrt(DIM)
            weight = np.exp(score - score.max())
            heads.append(weight @ self.v[seen, group] / weight.sum())
        x = self.x[row] + self.w["self_attn.o_proj.weight"] @ np.concatenate(heads)
        h = self.norm(x)
        gate = self.w["mlp.gate_proj.weight"] @ h
        x = x + self.w["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (self.w["mlp.up_proj.weight"] @ h))
        return self.w["lm_head.weight"] @ self.norm(x)


def distance(got, want):
    return np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))


class LongContext(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.tensors = model()
        write_checkpoint(cls.folder, cls.tensors)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def logits(self, tokens, chunk, form):
        out, ids = self.folder / "logits.safetensors", self.folder / "ids"
        out.unlink(missing_ok=True)
        ids.write_text(",".join(map(str, tokens)))
        flags = ["--exact"] if form == "exact" else ["--kv-dtype", form]
        done = subprocess.run([IGNITION, "logits", self.folder, "--tokens", ids, "--output", out, "--chunk", str(chunk),
                               "--threads", "2", *flags], capture_output=True, text=True, timeout=1200)
        self.assertEqual(done.returncode, 0, done.stderr)
        data = out.read_bytes()
        size = struct.unpack_from("<Q", data)[0]
        begin, end = json.loads(data[8:8 + size])["logits"]["data_offsets"]
        return np.frombuffer(data[8 + size + begin:8 + size + end], "<f4").reshape(len(tokens), VOCAB).astype(np.float64)

    @staticmethod
    def rows_of(length):
        """All of a short prompt; of a long one its ends, borders of pieces and pages, and some between."""
        if length <= 128:
            return range(length)
        near = [at + d for at in (0, 128, 512, 4096, 8192, length // 2, length) for d in (-2, -1, 0, 1)]
        some = np.random.default_rng(length).integers(0, length, 60).tolist()
        return sorted({row for row in near + some if 0 <= row < length})

    def check(self, length):
        tokens = np.random.default_rng(length).integers(0, VOCAB, length)
        oracle = Oracle(self.tensors, tokens)
        rows = self.rows_of(length)
        want = {row: oracle.logits(row) for row in rows}
        last = length - 1
        self.assertGreater(distance(oracle.logits(last, length // 2), want[last]), HALF)
        oracle.q[last] = Oracle(self.tensors, tokens, 1).q[last]
        self.assertGreater(distance(oracle.logits(last), want[last]), SHIFTED)
        for chunk in CHUNKS:
            if chunk == 1 and length > 8192 and not FULL:
                continue
            for form, bound in BOUNDS.items():
                with self.subTest(length=length, chunk=chunk, form=form):
                    got = self.logits(tokens, chunk, form)
                    far = {row: distance(got[row], want[row]) for row in rows}
                    worst = max(far, key=far.get)
                    if os.environ.get("FLARE_SHOW"):
                        print(length, chunk, form, far[worst], np.median(list(far.values())))
                    self.assertLessEqual(far[worst], bound, f"row {worst}")
                    for row in rows:  # greedy
                        best = np.sort(want[row])
                        if best[-1] - best[-2] > 2 * bound * np.abs(best).max():
                            self.assertEqual(got[row].argmax(), want[row].argmax(), f"row {row}")

    def test_b026_a_short_prompt(self):
        self.check(100)

    def test_b026_a_prompt_of_8k(self):
        self.check(8192)

    def test_b026_a_prompt_of_32k(self):
        self.check(32768)


if __name__ == "__main__":
    unittest.main()
