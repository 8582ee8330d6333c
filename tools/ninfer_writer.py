#!/usr/bin/python3
"""An independent writer of `.ninfer` version 3 file sets, made from spec/artifact.md alone: the
oracle of the artifact tests.

    /usr/bin/python3 tools/ninfer_writer.py tests/data/artifact

writes the golden file sets of §18.6, the directory texts of §18.1 and §18.2, and a small artifact
with every built format.
"""
import hashlib
import json
import os
import struct
import sys

ALIGN = {"tensor": 256, "resource": 1}
CODE = {  # bits, group, base bytes and high bytes per group (§7.2)
    "q4_g64_fp16": (4, 64, 32, 0),
    "q5_g64_fp16": (5, 64, 32, 8),
    "q6_g64_fp16": (6, 64, 32, 16),
    "q8_g32_fp16": (8, 32, 32, 0),
}


def au(x, a):
    return (x + a - 1) // a * a


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def fp16(word):
    return struct.unpack("<e", struct.pack("<H", word))[0]


def pad(data, a):
    return data + bytes(au(len(data), a) - len(data))


# ---------------------------------------------------------------- layouts

def pack_group(bits, codes):
    """Base and high bytes of one group of signed codes."""
    if bits == 8:
        return bytes(c & 0xFF for c in codes), b""
    u = [c % (1 << bits) for c in codes]
    base = bytes((u[2 * j] & 15) | (u[2 * j + 1] & 15) << 4 for j in range(len(u) // 2))
    stream = []
    for lane in u:
        stream += [lane >> b & 1 for b in range(4, bits)]
    high = bytes(sum(bit << t for t, bit in enumerate(stream[i:i + 8]))
                 for i in range(0, len(stream), 8))
    return base, high


def row_split(fmt, rows, scales):
    """rows: lists of signed codes; scales: per row, fp16 words of groups with real columns."""
    bits, group, _, _ = CODE[fmt]
    base, high, scale = b"", b"", b""
    for codes, words in zip(rows, scales):
        kpad = au(len(codes), 128)
        padded = list(codes) + [0] * (kpad - len(codes))
        words = list(words) + [0] * (kpad // group - len(words))
        for g in range(kpad // group):
            b, h = pack_group(bits, padded[g * group:(g + 1) * group])
            base, high = base + b, high + h
            scale += struct.pack("<H", words[g])
    return pad(pad(base, 256) + high, 256) + scale


def row_values(fmt, rows, scales):
    group = CODE[fmt][1]
    return [f32(fp16(words[k // group]) * c)
            for codes, words in zip(rows, scales) for k, c in enumerate(codes)]


def nvfp4_vector():
    """[128,64] of §18.8."""
    codes = bytearray(i % 256 for i in range(128 * 32))
    codes[0] = 0x10
    scales = bytearray(512)
    for n in range(128):
        for g in range(4):
            at = 512 * (n // 128 + g // 4) + 16 * (n % 32) + 4 * ((n % 128) // 32) + g % 4
            scales[at] = (4 * n + g) % 127
    return bytes(codes) + bytes(scales) + struct.pack("<f", 2.5)


# ---------------------------------------------------------------- canonical text (§14.5)

def text_of(value, rounded=False):
    if isinstance(value, dict):
        return "{" + ",".join(text_of(k) + ":" + text_of(v, rounded)
                              for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(v, rounded) for v in value) + "]"
    if isinstance(value, float):
        return repr(f32(value) if rounded else value)
    return json.dumps(value, ensure_ascii=False)


def directory_text(d, files):
    components = []
    for name, c in d["components"].items():
        fields = ['"config":' + text_of(c["config"], True)]
        fields += [f'"{k}":' + text_of(c[k])
                   for k in ("target", "resources", "proposal") if c.get(k)]
        components.append(text_of(name) + ":{" + ",".join(fields) + "}")
    objects = []
    for o in d["objects"]:
        own = ["shape", "format", "layout"] if o["kind"] == "tensor" else ["encoding"]
        keys = ["id"] + own + ["offset", "bytes", "kind"]
        objects.append({k: o[k] for k in keys})
    rest = "".join(f',"{k}":' + text_of(d[k])
                   for k in ("bindings", "uses", "metadata", "provenance"))
    return ('{"components":{' + ",".join(components) + '},"objects":' + text_of(objects) + rest +
            ',"files":' + text_of(files) + "}")


# ---------------------------------------------------------------- file sets

def place(objects):
    end = 0
    for o in objects:
        o["offset"] = au(end, ALIGN[o["kind"]])
        end = o["offset"] + o["bytes"]
    return end


def plan(d, payload_bytes, name, limit=None, minimum=0):
    """(json_bytes, files, text) by §14.2 and §14.3."""
    files = [{"path": None, "payload_bytes": payload_bytes}]
    json_bytes = max(au(32 + len(directory_text(d, files).encode()), 4096) - 32, minimum)
    while True:
        start = au(32 + json_bytes, 4096)
        if limit is None or start + payload_bytes <= limit:
            files = [{"path": None, "payload_bytes": payload_bytes}]
        else:
            first, other = (limit - start) // 4096 * 4096, (limit - 4096) // 4096 * 4096
            assert first > 0 and other > 0
            files, at = [{"path": None, "payload_bytes": first}], first
            while at < payload_bytes:
                size = min(other, payload_bytes - at)
                files.append({"path": f"{name}.part-{len(files):04d}", "payload_bytes": size})
                at += size
        text = directory_text(d, files).encode()
        if len(text) <= json_bytes:
            return json_bytes, files, text
        json_bytes = au(32 + len(text), 4096) - 32


def write_set(folder, name, d, data, artifact_id, limit=None):
    """data: object id → bytes. Returns the paths written."""
    payload_bytes = place(d["objects"])
    payload = bytearray(payload_bytes)
    for o in d["objects"]:
        assert len(data[o["id"]]) == o["bytes"], o["id"]
        payload[o["offset"]:o["offset"] + o["bytes"]] = data[o["id"]]
    json_bytes, files, text = plan(d, payload_bytes, name, limit)
    os.makedirs(folder, exist_ok=True)
    paths, at = [], 0
    for i, f in enumerate(files):
        if i == 0:
            head = b"NINFER\0\3" + struct.pack("<Q", json_bytes) + artifact_id
            head += text.ljust(json_bytes, b" ")
        else:
            head = b"NINPRT\0\3" + struct.pack("<Q", i) + artifact_id
        path = os.path.join(folder, f["path"] or name)
        with open(path, "wb") as out:
            out.write(pad(head, 4096) + payload[at:at + f["payload_bytes"]])
        at += f["payload_bytes"]
        paths.append(path)
    return paths


def tensor(name, shape, fmt, size):
    layout = "row_split_k128_v1" if fmt in CODE else "contiguous_le_v1"
    if fmt == "nvfp4":
        layout = "block_scale_k16_m128x4_v1"
    return {"id": name, "shape": shape, "format": fmt, "layout": layout, "bytes": size,
            "kind": "tensor"}


def resource(name, size):
    return {"id": name, "encoding": "raw_bytes_v1", "bytes": size, "kind": "resource"}


def part(name, begin, end):
    return {"object": name, "range": [begin, end]}


def check_digest(data, digest):
    found = hashlib.sha256(data).hexdigest()
    assert found == digest, f"{found}, {digest} expected"


# ---------------------------------------------------------------- §18.6

def golden(out):
    data = {
        "r.note": b"ninfer",
        "w.q4": row_split("q4_g64_fp16", [[-8, -7, -1, 0, 1, 7] + [0] * 59], [[0x3E00, 0x3400]]),
        "w.nv": nvfp4_vector(),
        "a.div": struct.pack("<f", 2.5),
    }
    d = {
        "components": {"text": {"config": {"architectures": ["Golden"], "eps": 1e-6, "theta": 1e7},
                                "resources": {"note.txt": "r.note"}}},
        "objects": [resource("r.note", 6), tensor("w.q4", [1, 65], "q4_g64_fp16", 260),
                    tensor("w.nv", [128, 64], "nvfp4", 4612), tensor("a.div", [], "fp32", 4)],
        "bindings": {"text/a": {"object": "w.q4"},
                     "text/b": {"parts": [part("w.nv", 4096, 8192), part("w.nv", 0, 4096)]}},
        "uses": [{"parameter": "text/b", "input": "text/in", "activation_policy": "AllowA4",
                  "auxiliaries": {"activation_input_divisor": {"object": "a.div"}}}],
        "metadata": {"name": "golden-1"},
        "provenance": {},
    }
    identity = bytes(range(16))
    whole = write_set(out, "golden1.ninfer", d, data, identity)
    split = write_set(os.path.join(out, "split"), "golden1.ninfer", d, data, identity, 8192)
    for path, digest in zip(whole + split, [
            "805032ae9ab9d5ae455871a7ead738b193a32eef85fba4559d3844c3e65d3a7b",
            "238a6d68d1f5b433034cd1a08a0063cf7f5b56bd9dc52d263e46d70276621da6",
            "a9c37ec0792233c16628d4ad1a0dc8248f1025dd167815c89c3618624a68eaeb"]):
        with open(path, "rb") as f:
            check_digest(f.read(), digest)


# ---------------------------------------------------------------- §18.1, §18.2

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
    "hidden_size": 128, "vocab_size": 248320, "num_hidden_layers": 1,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
    "layer_types": ["full_attention"], "num_attention_heads": 1, "num_key_value_heads": 1,
    "head_dim": 128,
    "rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.25,
                        "mrope_section": [6, 5, 5]},
    "intermediate_size": 256,
}


def one_layer(mixed):
    roles = {"tokenizer.json": 9000001, "tokenizer_config.json": 12345,
             "chat_template.jinja": 4096, "generation_config.json": 181}
    objects = [resource("resource/text/" + role, size) for role, size in roles.items()]
    layer, where = "text/layers/0/", {}

    def weight(shape, fmt="bf16", size=None, members=()):
        name = "weight/%06d" % sum(o["kind"] == "tensor" for o in objects)
        count = 1
        for dimension in shape:
            count *= dimension
        objects.append(tensor(name, shape, fmt, size or 2 * count))
        for i, member in enumerate(members):
            share = count // len(members)
            where[member] = ({"object": name} if len(members) == 1 else
                             {"parts": [part(name, i * share, (i + 1) * share)]})

    a = layer + "attention/"
    if mixed:
        weight([256, 128], "q4_g64_fp16", 17408, [a + "query", a + "key"])
        weight([256, 128], "q5_g64_fp16", 21504, [a + "gate", a + "value"])
    else:
        weight([512, 128], members=[a + "query", a + "key", a + "gate", a + "value"])
    weight([512, 128], members=[layer + "mlp/gate", layer + "mlp/up"])
    weight([248320, 128], members=["text/token_embedding"])
    weight([248320, 128], members=["text/output_head"])
    for name in ("text/final_norm", layer + "input_norm", a + "query_norm", a + "key_norm"):
        weight([128], members=[name])
    weight([128, 128], members=[a + "output"])
    weight([128], members=[layer + "post_attention_norm"])
    weight([128, 256], members=[layer + "mlp/down"])

    registry = [("text/token_embedding", None), ("text/output_head", "text/final_hidden"),
                ("text/final_norm", None), (layer + "input_norm", None)]
    registry += [(a + n, layer + "mixer_input") for n in ("query", "gate", "key", "value")]
    registry += [(a + "query_norm", None), (a + "key_norm", None),
                 (a + "output", a + "gated_output"), (layer + "post_attention_norm", None),
                 (layer + "mlp/gate", layer + "ffn_input"), (layer + "mlp/up", layer + "ffn_input"),
                 (layer + "mlp/down", layer + "mlp/product")]
    return {
        "components": {"text": {"config": CONFIG,
                                "resources": {r: "resource/text/" + r for r in roles}}},
        "objects": objects,
        "bindings": {name: where[name] for name, _ in registry},
        "uses": [{"parameter": name, "input": at, "activation_policy": "A16Only"}
                 for name, at in registry if at],
        "metadata": {"name": "example-one-layer"},
        "provenance": {},
    }


def one_layer_texts(out):
    for mixed, limit, size, digest in (
            (False, None, 4774,
             "e74df51bd7e0b97d357c163f83f69b9f89a738fa04901be58f61f83404dfd982"),
            (True, 64000000, 5037,
             "6da670943fa99478a94652f0c723f63a12584b2e7907184daef29ab7c158a7a4")):
        d = one_layer(mixed)
        payload_bytes = place(d["objects"])
        json_bytes, _, text = plan(d, payload_bytes, "example.ninfer", limit, 65504)
        assert json_bytes == 65504 and len(text) == size, (json_bytes, len(text))
        check_digest(text, digest)
        with open(os.path.join(out, "mixed_layer.json" if mixed else "one_layer.json"), "wb") as f:
            f.write(text)


# ---------------------------------------------------------------- one small artifact

def small(out):
    """Values follow fixed integer patterns; expected values stand beside in small.expected.json."""
    data, objects, expected = {}, [], {}

    def add(o, content):
        objects.append(o)
        data[o["id"]] = content

    template = "{{ messages }} \u00e9\u6f22 x\n".encode()
    add(resource("resource/text/tokenizer.json", 13), b'{"model":{}}\n')
    add(resource("resource/text/chat_template.jinja", len(template)), template)
    values = {}
    for i, (fmt, rows, cols) in enumerate((
            ("q4_g64_fp16", 6, 130), ("q5_g64_fp16", 5, 130), ("q6_g64_fp16", 4, 64),
            ("q8_g32_fp16", 12, 200))):
        bits, group, _, _ = CODE[fmt]
        low = -(1 << bits - 1) + (bits == 8)
        codes = [[low + (7 * r + 3 * k) % ((1 << bits - 1) - low) for k in range(cols)]
                 for r in range(rows)]
        scales = [[0x3000 + 16 * r + g for g in range(au(cols, group) // group)]
                  for r in range(rows)]
        name = "weight/%06d" % i
        packed = row_split(fmt, codes, scales)
        add(tensor(name, [rows, cols], fmt, len(packed)), packed)
        values[name] = row_values(fmt, codes, scales)
    words = [0x3F80 + 37 * i for i in range(24)]  # bf16 [8,3], cut anew into a [4,6] below
    add(tensor("weight/000004", [8, 3], "bf16", 48), struct.pack("<24H", *words))
    values["weight/000004"] = [struct.unpack("<f", struct.pack("<I", w << 16))[0] for w in words]
    vector = [(-1) ** i * i / 8 for i in range(10)]
    add(tensor("weight/000005", [10], "fp32", 40), struct.pack("<10f", *vector))
    values["weight/000005"] = vector
    add(tensor("weight/000006", [7], "int32", 28), struct.pack("<7i", *range(-3, 4)))
    values["weight/000006"] = [float(v) for v in range(-3, 4)]
    add(tensor("auxiliary/000000", [], "fp32", 4), struct.pack("<f", 0.75))

    bindings = {
        "text/q4": {"object": "weight/000000"},
        "text/q4_swapped": {"parts": [part("weight/000000", 390, 780),
                                      part("weight/000000", 0, 390)]},
        "text/q4_neighbours": {"parts": [part("weight/000000", 130, 260),
                                         part("weight/000000", 260, 520)]},
        "text/q5": {"object": "weight/000001"},
        "text/two_parents": {"parts": [part("weight/000001", 130, 390),
                                       part("weight/000000", 650, 780)]},
        "text/q6": {"object": "weight/000002"},
        "text/q8": {"object": "weight/000003"},
        "text/bf16": {"object": "weight/000004"},
        "text/bf16_reshaped": {"parts": [part("weight/000004", 0, 24)]},
        "text/bias_tail": {"parts": [part("weight/000005", 6, 10)]},
        "text/ids": {"object": "weight/000006"},
    }
    geometry = {"text/q4": [6, 130], "text/q4_swapped": [6, 130], "text/q4_neighbours": [3, 130],
                "text/q5": [5, 130], "text/two_parents": [3, 130], "text/q6": [4, 64],
                "text/q8": [12, 200], "text/bf16": [8, 3], "text/bf16_reshaped": [4, 6],
                "text/bias_tail": [1, 4], "text/ids": [1, 7]}
    for name, b in bindings.items():
        parts = b.get("parts") or [part(b["object"], 0, None)]
        pieces = [values[p["object"]][slice(*p["range"])] for p in parts]
        rows, cols = geometry[name]
        expected[name] = {"rows": rows, "cols": cols, "values": sum(pieces, [])}
    d = {
        "components": {
            "text": {"config": {"architectures": ["Small"], "rms_norm_eps": 1e-6},
                     "resources": {role: "resource/text/" + role
                                   for role in ("tokenizer.json", "chat_template.jinja")},
                     "proposal": {"domain": "indexed", "rows": 7}},
            "mtp": {"config": {"architectures": ["SmallMTP"]}, "target": "text"}},
        "objects": objects,
        "bindings": bindings,
        "uses": [{"parameter": "text/q4", "input": "text/in", "activation_policy": "A16Only"},
                 {"parameter": "text/q8", "input": "text/in", "activation_policy": "AllowA8",
                  "auxiliaries": {"activation_input_divisor": {"object": "auxiliary/000000"}}},
                 {"parameter": "text/ids", "input": "text/lookup"}],
        "metadata": {"name": "small \u00e9", "note": ["a\"b\\c\u0001\n", None, 1.5, -2]},
        "provenance": {"tool": "ninfer_writer.py"},
    }
    identity = bytes(range(16, 32))
    write_set(out, "small.ninfer", d, data, identity)
    write_set(os.path.join(out, "split"), "small.ninfer", d, data, identity, 8192)
    with open(os.path.join(out, "small.expected.json"), "w") as f:
        f.write(json.dumps(expected, separators=(",", ":")) + "\n")


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    golden(out)
    one_layer_texts(out)
    small(out)


if __name__ == "__main__":
    main()
