#!/usr/bin/python3
# `ignition convert` on files of version 1 and 2 that this script writes itself, from the parameters
# of a golden checkpoint, as the artifact specification (§17) describes them.
#
# usage: convert_test.py IGNITION [unittest arguments]
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

IGNITION = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT.parent / "shared/data/goldens/models/qwen3_5_vision"


def ignition(*words):
    return subprocess.run([IGNITION, *map(str, words)], capture_output=True, text=True, timeout=300)


def result(*words, code=0):
    done = ignition("--json", *words)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)["result"]


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


@unittest.skipUnless(GOLDEN.exists(), f"{GOLDEN} is absent: no shared data")
class Convert(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.old, self.new = self.folder / "old.ninfer", self.folder / "new.ninfer"

    def refused(self, code, *words, text):
        done = ignition("convert", self.old, "--output", self.new, *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertFalse(list(self.folder.glob("*new*")) + list(self.folder.glob(".*")))

    def check_against_build(self, version, fused):
        writer = old_file(version, self.old, fused)
        got = result("convert", self.old, "--output", self.new, "--source", GOLDEN)
        self.assertEqual(got["version"], version)
        self.assertEqual(got["components"], ["text", "vision"])
        result("verify", self.new)
        built = self.folder / "built.ninfer"
        result("build", GOLDEN, "--output", built, "--components", "text,vision")
        got = result("diff", self.new, built, code=1)
        self.assertEqual(got["values"], [])
        kinds = {(d["kind"], d["member"]) for d in got["differences"]}
        # Objects have their old names; parameters, configs and uses are the same.
        self.assertLessEqual(kinds, {("object", ""), ("binding", "parts"), ("resource", "")})
        new, built = (result("inspect", f, "--bindings", "--objects") for f in (self.new, built))
        self.assertEqual(list(new["bindings"]), list(built["bindings"]))
        # The payload is the old one, byte for byte.
        self.assertEqual(self.new.read_bytes()[-len(writer.payload):], writer.payload)
        return new

    def test_version_1_has_the_parameters_of_the_checkpoint(self):
        self.check_against_build(1, fused=False)

    def test_version_2_with_fused_objects(self):
        self.check_against_build(2, fused=True)

    def test_it_runs_as_the_checkpoint_does(self):
        old_file(2, self.old, fused=True, with_vision=False)
        result("convert", self.old, "--output", self.new, "--source", GOLDEN)
        written = []
        for source in (self.new, GOLDEN):
            out = self.folder / f"logits{len(written)}.safetensors"
            result("logits", source, "--tokens", "1,5,9,300", "--output", out)
            written.append(out.read_bytes())
        self.assertEqual(*written)

    def test_the_same_id_gives_the_same_bytes_and_parts(self):
        old_file(1, self.old, fused=True)
        identity = ("--artifact-id", "000102030405060708090a0b0c0d0e0f")
        result("convert", self.old, "--output", self.new, "--source", GOLDEN, *identity)
        again = self.folder / "again" / "new.ninfer"
        again.parent.mkdir()
        result("convert", self.old, "--output", again, "--source", GOLDEN, *identity)
        self.assertEqual(self.new.read_bytes(), again.read_bytes())
        split = self.folder / "again" / "split.ninfer"
        got = result("convert", self.old, "--output", split, "--source", GOLDEN, "--max-file-bytes", "1M")
        self.assertGreater(len(got["files"]), 1)
        result("diff", self.new, split)

    def test_damaged_files_are_refused_by_name(self):
        writer = old_file(2, self.old, fused=True)
        whole = self.old.read_bytes()
        objects = writer.objects
        self.refused(2, text="no known model")
        self.refused(3, "--source", self.folder / "nowhere", text="nowhere")

        def attempt(code, text, **root):
            writer.write(self.old, **root)
            self.refused(code, "--source", GOLDEN, text=text)

        identity = dict(model_id="golden", weights_id="bf16")
        attempt(4, "unknown member", identity=identity, objects=objects, more=1)
        attempt(4, "weights_id", identity=dict(model_id="golden"), objects=objects)
        attempt(4, "no name of version 2", identity=identity,
                objects=[dict(objects[2], format="Q7")] + objects[3:])
        attempt(4, "bytes", identity=identity, objects=[dict(objects[2], bytes=1)] + objects[3:])
        attempt(4, "offset", identity=identity, objects=objects[:2] + objects[3:4] + objects[2:3])
        attempt(4, "old.ninfer: objects", identity=identity,
                objects=objects[:-1] + [dict(objects[-1], offset=2**63)])
        attempt(4, "unknown member", identity=identity, objects=[dict(objects[2], divisors=1)])
        attempt(4, "text", identity=identity, objects=[o for o in objects if o["name"].startswith("vision")])
        attempt(4, "two objects", identity=identity,
                objects=objects[:-1] + [dict(objects[-1], name="text/layers/0/gdn/value")])
        attempt(4, "overlaps", identity=identity, objects=objects + [dict(objects[-1], name="again")])
        for cut in (7, 15, 100, 5000):
            self.old.write_bytes(whole[:cut])
            self.refused(4, "--source", GOLDEN, text="old.ninfer")
        self.old.write_bytes(whole[:7] + b"\3" + whole[8:])
        self.refused(4, "--source", GOLDEN, text="version 1 or 2")
        self.old.write_bytes(whole)
        self.new.write_bytes(b"mine")
        done = ignition("convert", self.old, "--output", self.new, "--source", GOLDEN)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertEqual(self.new.read_bytes(), b"mine")

    def test_readers_of_version_3_name_the_way(self):
        old_file(1, self.old, fused=False, with_vision=False)
        done = ignition("verify", self.old)
        self.assertEqual(done.returncode, 4)
        self.assertIn("version 1", done.stderr)
        self.assertIn("convert", done.stderr)


if __name__ == "__main__":
    unittest.main()
