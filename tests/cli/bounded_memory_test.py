#!/usr/bin/python3
# Commands that read whole models keep their resident memory, mapped pages included, below 600 MB
# (spec/cli.md §6): run on a model twice as large, one matrix of which is larger already.
#
# usage: bounded_memory_test.py IGNITION [unittest arguments]
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

IGNITION = sys.argv.pop(1)
BOUND = 600_000_000
VOCABULARY, WIDTH, LAYERS = 310_000, 1024, 8


def write_model(folder):
    """A Llama of zeros in a sparse file. Returns its bytes."""
    folder.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
              "intermediate_size": 4 * WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 8,
              "num_key_value_heads": 8, "vocab_size": VOCABULARY, "max_position_embeddings": 4096,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": [VOCABULARY, WIDTH], "lm_head.weight": [VOCABULARY, WIDTH],
              "model.norm.weight": [WIDTH]}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{name}.weight"] = [WIDTH]
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"):
            shapes[f"{layer}{name}.weight"] = [WIDTH, WIDTH]
        for name, shape in (("gate", [4 * WIDTH, WIDTH]), ("up", [4 * WIDTH, WIDTH]), ("down", [WIDTH, 4 * WIDTH])):
            shapes[f"{layer}mlp.{name}_proj.weight"] = shape
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return at


class BoundedMemory(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return self.folder / name

    def run_within(self, *words, code=0):
        child = subprocess.Popen([IGNITION, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, code, errors)
        self.assertLess(usage.ru_maxrss * 1024, BOUND, words)

    def test_of_every_command_that_reads_whole_models(self):
        room = shutil.disk_usage(self.folder).free
        if room < 5 << 30:
            self.skipTest(f"{room >> 20} MiB of disk are free, 5 GiB expected")
        model = self.path("model")
        self.assertGreater(write_model(model), 2 * BOUND)
        exact, q4 = self.path("exact.ninfer"), self.path("q4.ninfer")
        self.run_within("build", model, "--output", exact)
        self.run_within("build", model, "--recipe", "q4", "--output", q4)
        self.run_within("build", model, "--recipe", "nvfp4", "--output", self.path("nvfp4.ninfer"))
        self.path("nvfp4.ninfer").unlink()
        self.run_within("verify", exact)
        self.run_within("verify", q4, "--deep", "--source", model)
        self.run_within("diff", exact, q4, code=1)
        self.run_within("quantize", exact, "--recipe", "q6", "--output", self.path("q6.ninfer"))
        self.path("q6.ninfer").unlink()
        q4.unlink()
        self.run_within("extract", exact, "weight/000001", "--decode", "--output", self.path("n.safetensors"))
        self.path("n.safetensors").unlink()
        self.run_within("reshard", exact, "--max-file-bytes", "500M", "--output", self.path("split.ninfer"))


if __name__ == "__main__":
    unittest.main()
