#!/usr/bin/python3
"""Writes a GGUF file of a real model's shape with random weights, for llama.cpp and for us.

Usage: random_gguf.py SHAPE TYPE FILE [VOCABULARY.gguf]
  SHAPE  qwen3-0.6b, qwen3-1.7b, llama3.2-1b
  TYPE   q4_0, q8_0, q4_k, q6_k: of every matrix, the embedding included (tied head)
  VOCABULARY.gguf  whose tokenizer it gets (../shared/data/tokenizers/gguf-vocab/ggml-vocab-gpt-2.gguf),
                   filled up with unused tokens to the model's vocabulary

Needs numpy. The same arguments give the same bytes. The text of such a model is noise; its speed is
that of the real one.
"""
import os
import struct
import sys

import numpy as np

SHARED = os.path.join(os.path.dirname(__file__), "../../../shared/data/tokenizers/gguf-vocab")
VOCABULARY = os.path.join(SHARED, "ggml-vocab-gpt-2.gguf")
ALIGNMENT = 32
WEIGHT_SIZE = 0.02  # root mean square of the weights

QWEN3 = dict(arch="qwen3", vocab=151936, layers=28, heads=16, kv_heads=8, head_dim=128,
             theta=1e6, eps=1e-6, context=40960, head_norms=True)
SHAPES = {
    "qwen3-0.6b": dict(QWEN3, hidden=1024, inner=3072),
    "qwen3-1.7b": dict(QWEN3, hidden=2048, inner=6144),
    "llama3.2-1b": dict(arch="llama", vocab=128256, layers=16, heads=32, kv_heads=8, head_dim=64,
                        theta=5e5, eps=1e-5, context=131072, head_norms=False, hidden=2048,
                        inner=8192),
}

# Kinds of GGUF values.
U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
UNUSED_TOKEN = 5


def half(n, rng, size):
    """n positive scales about `size` as f16 words."""
    return (size * rng.uniform(0.5, 1.5, n)).astype(np.float16).view(np.uint8).reshape(n, 2)


def q4_0(n, rng):
    """Blocks of 32: scale, 16 bytes of two codes 0 … 15 that stand for −8 … 7."""
    return np.hstack([half(n, rng, WEIGHT_SIZE / 4.6), rng.integers(0, 256, (n, 16), np.uint8)])


def q8_0(n, rng):
    """Blocks of 32: scale, 32 codes −127 … 127."""
    codes = rng.integers(-127, 128, (n, 32), np.int8).view(np.uint8)
    return np.hstack([half(n, rng, WEIGHT_SIZE / 73), codes])


def q4_k(n, rng):
    """Super-blocks of 256: scale, scale of the minima, 12 bytes of 6-bit factors, 128 of codes."""
    d = half(n, rng, WEIGHT_SIZE / 150)
    minimum = half(n, rng, WEIGHT_SIZE / 20)
    return np.hstack([d, minimum, rng.integers(0, 256, (n, 140), np.uint8)])


def q6_k(n, rng):
    """Super-blocks of 256: 192 bytes of 6-bit codes, 16 signed factors, scale."""
    factors = rng.integers(-127, 128, (n, 16), np.int8).view(np.uint8)
    codes = rng.integers(0, 256, (n, 192), np.uint8)
    return np.hstack([codes, factors, half(n, rng, WEIGHT_SIZE / 1350)])


# Number in a file, number as general.file_type, weights and bytes of a block, maker of blocks.
TYPES = {
    "q4_0": (2, 2, 32, 18, q4_0),
    "q8_0": (8, 7, 32, 34, q8_0),
    "q4_k": (12, 15, 256, 144, q4_k),
    "q6_k": (14, 18, 256, 210, q6_k),
}
F32_TENSOR = 0


def tensors(c):
    """Name, rows, columns of every tensor; rows None for a vector."""
    hidden, inner = c["hidden"], c["inner"]
    queries, keys = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    yield "token_embd.weight", c["vocab"], hidden
    for i in range(c["layers"]):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", None, hidden
        yield p + "attn_q.weight", queries, hidden
        yield p + "attn_k.weight", keys, hidden
        yield p + "attn_v.weight", keys, hidden
        if c["head_norms"]:
            yield p + "attn_q_norm.weight", None, c["head_dim"]
            yield p + "attn_k_norm.weight", None, c["head_dim"]
        yield p + "attn_output.weight", hidden, queries
        yield p + "ffn_norm.weight", None, hidden
        yield p + "ffn_gate.weight", inner, hidden
        yield p + "ffn_up.weight", inner, hidden
        yield p + "ffn_down.weight", hidden, inner
    yield "output_norm.weight", None, hidden


class Reader:
    """Key-value pairs of a GGUF file."""

    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
               12: "d"}

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0

    def take(self, code):
        values = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return values[0]

    def string(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, n = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(n)]
        return self.take(self.SCALARS[kind])

    def pairs(self):
        self.at = 16
        for _ in range(self.take("Q")):
            key = self.string().decode()
            yield key, self.value(self.take("I"))


def text(data):
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    out = text(key.encode()) + struct.pack("<I", kind)
    if kind == STRING:
        return out + text(value)
    return out + struct.pack({U32: "<I", F32: "<f"}[kind], value)


def array(key, kind, values):
    out = text(key.encode()) + struct.pack("<IIQ", ARRAY, kind, len(values))
    if kind == STRING:
        return out + b"".join(text(v) for v in values)
    return out + np.asarray(values, "<i4").tobytes()


def tokenizer_pairs(path, vocab):
    """The tokenizer of a GGUF vocabulary, with `vocab` tokens."""
    known = dict(Reader(path).pairs())
    tokens = known["tokenizer.ggml.tokens"]
    kinds = known["tokenizer.ggml.token_type"]
    if len(tokens) > vocab:
        sys.exit(f"{path}: {len(tokens)} tokens, the model has {vocab}")
    extra = range(len(tokens), vocab)
    yield pair("tokenizer.ggml.model", STRING, known["tokenizer.ggml.model"])
    yield pair("tokenizer.ggml.pre", STRING, known.get("tokenizer.ggml.pre", b"gpt-2"))
    yield array("tokenizer.ggml.tokens", STRING, tokens + [b"[unused%d]" % i for i in extra])
    yield array("tokenizer.ggml.token_type", I32, kinds + [UNUSED_TOKEN for _ in extra])
    yield array("tokenizer.ggml.merges", STRING, known["tokenizer.ggml.merges"])
    for name in ("bos_token_id", "eos_token_id"):
        if "tokenizer.ggml." + name in known:
            yield pair("tokenizer.ggml." + name, U32, known["tokenizer.ggml." + name])


def model_pairs(shape, c, file_type):
    a = c["arch"] + "."
    yield pair("general.architecture", STRING, c["arch"].encode())
    yield pair("general.name", STRING, f"random {shape}".encode())
    yield pair("general.file_type", U32, file_type)
    yield pair(a + "block_count", U32, c["layers"])
    yield pair(a + "context_length", U32, c["context"])
    yield pair(a + "embedding_length", U32, c["hidden"])
    yield pair(a + "feed_forward_length", U32, c["inner"])
    yield pair(a + "attention.head_count", U32, c["heads"])
    yield pair(a + "attention.head_count_kv", U32, c["kv_heads"])
    yield pair(a + "attention.key_length", U32, c["head_dim"])
    yield pair(a + "attention.value_length", U32, c["head_dim"])
    yield pair(a + "attention.layer_norm_rms_epsilon", F32, c["eps"])
    yield pair(a + "rope.freq_base", F32, c["theta"])
    yield pair(a + "rope.dimension_count", U32, c["head_dim"])
    yield pair(a + "vocab_size", U32, c["vocab"])


def padding(n):
    return b"\0" * (-n % ALIGNMENT)


def write_matrix(f, rows, cols, block_weights, make, rng):
    """Rows in pieces of about four million weights; returns the bytes written."""
    size = 0
    step = max(1, (1 << 22) // cols)
    for row in range(0, rows, step):
        n_blocks = min(step, rows - row) * cols // block_weights
        data = make(n_blocks, rng).tobytes()
        f.write(data)
        size += len(data)
    return size


def main(shape, type_name, path, vocabulary):
    c = SHAPES[shape]
    number, file_type, block_weights, block_bytes, make = TYPES[type_name]
    pairs = [*model_pairs(shape, c, file_type), *tokenizer_pairs(vocabulary, c["vocab"])]
    table, offset, count = b"", 0, 0
    for name, rows, cols in tensors(c):
        dims = [cols] if rows is None else [cols, rows]
        table += text(name.encode()) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        table += struct.pack("<IQ", F32_TENSOR if rows is None else number, offset)
        size = 4 * cols if rows is None else rows * cols // block_weights * block_bytes
        offset += size + len(padding(size))
        count += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs)) + b"".join(pairs) + table
    rng = np.random.default_rng(1)
    with open(path, "wb") as f:
        f.write(head + padding(len(head)))
        for name, rows, cols in tensors(c):
            if rows is None:
                size = f.write(np.ones(cols, "<f4").tobytes())
            else:
                size = write_matrix(f, rows, cols, block_weights, make, rng)
            f.write(padding(size))
    print(f"{path}: {os.path.getsize(path) / 2**30:.2f} GiB")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in SHAPES or sys.argv[2] not in TYPES:
        sys.exit(__doc__)
    main(*sys.argv[1:4], sys.argv[4] if len(sys.argv) == 5 else VOCABULARY)
