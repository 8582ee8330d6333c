#!/usr/bin/python3
# Artifacts through ignition's commands: recipes and rules, components, diff, extract, deep
# verification, and what happens when disks are full and files damaged.
#
# usage: artifact_test.py IGNITION [unittest arguments]
import hashlib
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

IGNITION = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
GOLDENS = ROOT.parent / "shared/data/goldens/models"
VISION = GOLDENS / "qwen3_5_vision"
IDENTITY = ("--artifact-id", "000102030405060708090a0b0c0d0e0f")


def ignition(*words, **kwargs):
    return subprocess.run([IGNITION, *map(str, words)], capture_output=True, text=True, timeout=300, **kwargs)


def result(*words, code=0, **kwargs):
    done = ignition("--json", *words, **kwargs)
    if code is not None and done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)["result"]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return self.folder / name

    def rules(self, text):
        self.path("rules.toml").write_text(text)
        return self.path("rules.toml")

    def build(self, name, *words, source=NANO):
        result("build", source, "--output", self.path(name), *words)
        return self.path(name)

    def refused(self, code, *words, text, **kwargs):
        """An error that says so, and no file that was not there."""
        before = sorted(self.folder.rglob("*"))
        done = ignition(*words, **kwargs)
        self.assertEqual(done.returncode, code, f"{words}: {done.stderr}{done.stdout}")
        self.assertIn("error: ", done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)


class Recipes(Case):
    def test_list_and_show(self):
        names = [r["name"] for r in result("recipes", "list")["recipes"]]
        for name in ("bf16", "keep", "q4", "q5", "q6", "q8", "fp8", "nvfp4", "default", "qwen3_6_27b",
                     "qwen3_8_27b", "qwen3_8_27b_q6", "qwen3_6_35b_a3b", "qwen3_8_27b_gguf"):
            self.assertIn(name, names)
            self.assertIn(name, ignition("recipes", "list").stdout)
            shown = result("recipes", "show", name)
            self.assertEqual(shown["name"], name)
            self.assertEqual(name == "bf16", not shown["rules"])
        self.assertIn("mixture", result("recipes", "show", "qwen3_6_35b_a3b")["needs"])
        self.refused(2, "recipes", "show", "q7", text="q7")
        self.refused(2, "recipes", text="")

    def test_what_show_prints_is_a_file_of_rules(self):
        by_name = self.build("a.ninfer", "--recipe", "q4", *IDENTITY)
        rules = self.rules(ignition("recipes", "show", "q4").stdout)
        by_rules = self.build("b.ninfer", "--recipe", "direct", "--override", rules, *IDENTITY)
        self.assertTrue(result("diff", by_name, by_rules)["same"])

    def test_dry_run_tells_groups_and_sizes(self):
        rules = self.rules('["text/layers/0/mlp/down"]\nformat = "q8"\n')
        planned = result("build", NANO, "--output", self.path("x.ninfer"), "--recipe", "q4", "--override",
                         rules, "--dry-run")
        self.assertFalse(self.path("x.ninfer").exists())
        groups = {(g["parameters"], g["format"]): g for g in planned["groups"]}
        self.assertEqual(groups["text/layers/*/mlp/down", "q8_g32_fp16"]["objects"], 1)
        self.assertEqual(groups["text/layers/*/mlp/down", "q4_g64_fp16"]["objects"], 5)
        self.assertAlmostEqual(groups["text/layers/*/mlp/{gate,up}", "q4_g64_fp16"]["bits_per_weight"], 4.25)
        self.assertEqual(sum(g["bytes"] for g in planned["groups"]), planned["weight_bytes"])
        text = ignition("build", NANO, "--output", self.path("x.ninfer"), "--recipe", "q4", "--dry-run").stdout
        self.assertIn("text/layers/*/mlp/{gate,up}", text)
        self.assertIn("4.25 bits", text)

    def test_rules_are_refused_by_line(self):
        out = ("--output", self.path("x.ninfer"))
        for rules, text in (('\n["nothing/*"]\nformat = "q4"\n', "rules.toml:3"),
                            ('["*"]\nformat = "q4"\nspeed = "high"\n', "rules.toml:3"),
                            ('["*"]\nformat = \n', "rules.toml:2"),
                            ('["*"]\nsource = "other"\n', "rules.toml:2: 'text/token_embedding' comes from"),
                            ('["*"]\nformat = ""\n', "rules.toml:2: format is empty"),
                            ('["text/layers/0/mlp/*"]\ngroup = ["gate", "gate"]\n',
                             "rules.toml:2: group names 'gate' twice"),
                            ('["*/mlp/up"]\nformat = "int32"\n', "rules.toml:2: parameter 'text/layers/0/mlp/up'"),
                            ('["*/mlp/up"]\nformat = "gguf_q2_k"\n', "rules.toml:2: parameter"),
                            ('["*/mlp/up"]\nencoder = "import_encoded"\nformat = "q4"\n',
                             "rules.toml:2: parameter"),
                            ('["*/mlp/up"]\nshare = "nothing"\n', "rules.toml:2: 'text/layers/0/mlp/up' shares"),
                            ('["*/mlp/up"]\nshare = "gate"\n', "rules.toml:2: 'text/layers/0/mlp/up' shares")):
            self.refused(2, "build", NANO, *out, "--override", self.rules(rules), text=text)
        self.refused(3, "build", NANO, *out, "--override", self.path("none.toml"), text="none.toml")
        self.refused(2, "build", NANO, *out, "--source", "other", text="NAME=PATH")
        self.refused(2, "build", NANO, *out, "--source", f"other={NANO}", text="source 'other' is given and no rule")
        self.refused(3, "build", NANO, *out, "--source", f"other={self.path('none')}", text="none")
        self.refused(2, "build", NANO, *out, "--recipe", "qwen3_6_35b_a3b", text="Qwen3_5MoeForCausalLM")

    def test_threads_and_time_change_no_byte(self):
        for recipe in ("default", "fp8", "nvfp4", "qwen3_8_27b"):
            made = {digest(self.build(f"{recipe}-{n}.ninfer", "--recipe", recipe, "--threads", n, *IDENTITY,
                                      "--name", "same")) for n in (1, 2, 5)}
            self.assertEqual(len(made), 1, recipe)


class Determinism(Case):
    """The same inputs give the same bytes, whatever the threads; random ids apart."""

    def made(self, words, name, threads):
        out = set()
        for n in threads:
            path = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / name
            result(*words, "--output", path, *(("--threads", n) if n else ()))
            if path.is_dir():
                out.add(tuple(sorted((p.name, digest(p)) for p in path.iterdir())))
            else:
                out.add(tuple(sorted((p.name, digest(p)) for p in path.parent.iterdir() if p.name.startswith(name))))
        return out

    def test_of_every_command_that_writes(self):
        q8 = self.build("q8.ninfer", "--recipe", "q8")
        self.path("text").write_text("What is the capital of France? " * 30)
        text = ("--text", self.path("text"), "--limit", 150)
        calibration = self.path("calibration")
        result("calibrate", NANO, *text, "--output", calibration)
        largest = max(result("inspect", q8, "--objects")["objects"], key=lambda o: o["bytes"])["id"]
        for words, threads in (
                (("build", NANO, "--recipe", "gguf_q4_k", "--calibration", calibration, *IDENTITY), (1, 2, 3)),
                (("build", NANO, "--recipe", "q4", "--max-file-bytes", "1M", *IDENTITY), (1, 2, 3)),
                (("quantize", q8, "--recipe", "nvfp4", "--max-file-bytes", "1M", *IDENTITY), (1, 2, 3)),
                (("reshard", q8, "--max-file-bytes", "1M", *IDENTITY), (None, None)),
                (("extract", q8, largest), (None, None)),
                (("extract", q8, largest, "--decode"), (None, None)),
                (("calibrate", NANO, *text), (1, 2, 3)),
                (("calibrate", q8, *text), (1, 2)),
                (("logits", NANO, "--tokens", "1,298,204,7", "--hidden"), (1, 2, 3)),
                (("eval", "perplexity", NANO, *text), (1, 2, 3))):
            with self.subTest(words):
                self.assertEqual(len(self.made(words, "out", threads)), 1)


@unittest.skipUnless(VISION.exists(), f"{VISION} is absent: no shared data")
class Components(Case):
    def test_vision_becomes_parameters_of_its_own(self):
        made = self.build("v.ninfer", "--components", "text,vision", "--recipe", "qwen3_8_27b", source=VISION)
        result("verify", made)
        got = result("inspect", made, "--bindings", "--uses")
        names = [name for name in got["bindings"] if name.startswith("vision/")]
        # §15.4: 5 before and in front of the layers, 16 a layer, 6 of the merger.
        self.assertEqual(len(names), 3 + 3 * 16 + 6)
        self.assertIn("vision/layers/2/attention/key_bias", names)
        uses = {u["parameter"]: u["input"] for u in got["uses"]}
        self.assertEqual(uses["vision/patch_embedding"], "vision/patch_input")
        self.assertEqual(uses["vision/layers/0/mlp/fc2"], "vision/layers/0/mlp_activation")
        self.assertNotIn("vision/merger/fc1_bias", uses)

    def test_the_draft_layer_uses_the_head(self):
        made = self.build("m.ninfer", "--components", "text,mtp")
        got = result("inspect", made, "--bindings", "--uses")
        names = list(got["bindings"])
        self.assertIn("mtp/layers/0/attention/gate", names)
        inputs = [u["input"] for u in got["uses"] if u["parameter"] == "text/output_head"]
        self.assertEqual(inputs, ["text/final_hidden", "mtp/final_hidden"])
        inputs = [u["input"] for u in result("inspect", self.build("t.ninfer"), "--uses")["uses"]
                  if u["parameter"] == "text/output_head"]
        self.assertEqual(inputs, ["text/final_hidden"])

    def test_what_is_not_asked_for_is_listed(self):
        planned = result("build", VISION, "--output", self.path("x.ninfer"), "--dry-run")
        self.assertEqual([s["component"] for s in planned["skipped"]], ["vision"])
        out = ("--output", self.path("x.ninfer"))
        self.refused(4, "build", VISION, *out, "--components", "text,mtp", text="mtp")
        self.refused(2, "build", VISION, *out, "--components", "vision", text="text")


class Diff(Case):
    def test_a_set_in_parts_is_the_same(self):
        whole = self.build("whole.ninfer", "--recipe", "q4")
        split = self.path("split.ninfer")
        result("reshard", whole, "--output", split, "--max-file-bytes", "1M")
        self.assertTrue(result("diff", whole, split)["same"])
        self.assertEqual(ignition("diff", whole, split).stdout, "the same\n")

    def test_every_kind_of_difference_is_told(self):
        a = self.build("a.ninfer", "--recipe", "q4")
        rules = self.rules('["text/layers/0/mlp/down"]\nformat = "q8"\npolicy = "A16Only"\n')
        b = self.build("b.ninfer", "--recipe", "q4", "--override", rules)
        got = result("diff", a, b, code=1)
        self.assertEqual([v["parameter"] for v in got["values"]], ["text/layers/0/mlp/down"])
        value = got["values"][0]
        self.assertEqual(value["elements"], 256 * 512)
        self.assertLess(value["relative"], 0.2)
        self.assertGreater(value["relative"], 0.01)
        told = {(d["kind"], d["member"]) for d in got["differences"]}
        self.assertEqual(told, {("object", "format"), ("use", "policy")})
        # One flipped byte of a chat template.
        c = self.path("c.ninfer")
        c.write_bytes(a.read_bytes().replace(b"<|im_start|>", b"<|im_stort|>", 1))
        got = result("diff", a, c, code=1)
        self.assertTrue(all(d["kind"] in ("resource", "object") for d in got["differences"]))
        # Another set of components.
        d = self.build("d.ninfer", "--recipe", "q4", "--components", "text,mtp")
        got = result("diff", a, d, code=1)
        self.assertIn({"kind": "component", "name": "mtp", "member": "", "a": "", "b": "there"},
                      got["differences"])
        self.refused(3, "diff", a, self.path("none.ninfer"), text="none.ninfer")
        self.refused(4, "diff", a, NANO / "config.json", text="config.json")


class Extract(Case):
    def test_bytes_and_numbers_are_those_of_the_source(self):
        made = self.build("a.ninfer")
        out = self.path("template")
        result("extract", made, "resource/text/chat_template.jinja", "--output", out)
        self.assertEqual(out.read_text(), (NANO / "chat_template.jinja").read_text())
        embedding = result("inspect", made, "--bindings")["bindings"]["text/token_embedding"]["object"]
        result("extract", made, embedding, "--output", self.path("words"))
        data = (NANO / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        begin, end = json.loads(data[8:8 + size])["model.embed_tokens.weight"]["data_offsets"]
        words = data[8 + size + begin:8 + size + end]
        self.assertEqual(self.path("words").read_bytes(), words)
        # bf16 is the upper half of binary32.
        result("extract", made, embedding, "--output", self.path("n.safetensors"), "--decode")
        decoded = self.path("n.safetensors").read_bytes()
        size = struct.unpack("<Q", decoded[:8])[0]
        header = json.loads(decoded[8:8 + size])[embedding]
        self.assertEqual((header["dtype"], header["shape"]), ("F32", [2048, 256]))
        expected = bytearray(2 * len(words))
        expected[2::4], expected[3::4] = words[0::2], words[1::2]
        self.assertEqual(decoded[8 + size:], bytes(expected))

    def test_refusals(self):
        made = self.build("a.ninfer")
        self.refused(4, "extract", made, "weight/999999", "--output", self.path("x"), text="weight/999999")
        self.refused(2, "extract", made, "resource/text/tokenizer.json", "--output", self.path("x"), "--decode",
                     text="no numbers")
        self.refused(8, "extract", made, "weight/000001", "--output", made, text="exists")
        self.refused(3, "extract", made, "weight/000001", "--output", self.path("no/x"), text="no")


class Quantize(Case):
    def test_from_exact_words_it_gives_what_build_gives(self):
        exact = self.build("exact.ninfer", "--components", "text,mtp")
        for recipe in ("q4", "q8", "fp8", "nvfp4", "default", "direct"):
            built = self.build(f"b-{recipe}.ninfer", "--components", "text,mtp", "--recipe", recipe)
            made = self.path(f"q-{recipe}.ninfer")
            result("quantize", exact, "--output", made, "--recipe", recipe)
            result("verify", made)
            got = result("diff", built, made, code=None)
            self.assertTrue(got["same"], (recipe, got["differences"][:3], got["values"][:3]))

    def test_words_of_the_wanted_format_are_copied(self):
        for recipe in ("q4", "q8", "nvfp4", "fp8"):
            first = self.build(f"{recipe}.ninfer", "--recipe", recipe)
            for how in ("keep", recipe):
                made = self.path(f"{recipe}-{how}.ninfer")
                planned = result("quantize", first, "--output", made, "--recipe", how)
                self.assertEqual({g["encoder"] for g in planned["groups"]}, {"import_encoded", "cast_direct"})
                self.assertTrue(result("diff", first, made)["same"], (recipe, how))

    def test_the_same_id_gives_the_same_bytes_for_any_number_of_threads(self):
        first = self.build("first.ninfer", "--recipe", "q8")
        made = set()
        for n in (1, 3):
            out = self.path(f"{n}.ninfer")
            result("quantize", first, "--output", out, "--recipe", "q5", "--threads", n, *IDENTITY)
            made.add(digest(out))
        self.assertEqual(len(made), 1)

    def test_rules_components_and_refusals(self):
        first = self.build("first.ninfer", "--components", "text,mtp")
        out = self.path("out.ninfer")
        rules = self.rules('["*/mlp/down"]\nformat = "q8"\n')
        planned = result("quantize", first, "--output", out, "--recipe", "q4", "--override", rules,
                         "--components", "text", "--dry-run")
        self.assertEqual([s["component"] for s in planned["skipped"]], ["mtp"])
        self.assertFalse(out.exists())
        self.refused(8, "quantize", first, "--output", first, "--recipe", "q4", text="exists")
        self.refused(4, "quantize", first, "--output", out, "--components", "text,vision", text="vision")
        self.refused(4, "quantize", NANO / "config.json", "--output", out, text="config.json")
        self.refused(3, "quantize", self.path("none"), "--output", out, text="none")
        self.refused(2, "quantize", first, "--output", out, "--recipe", "qwen3_6_35b_a3b", text="Moe")


class Names(Case):
    def test_empty_ones_and_standard_output_are_refused(self):
        made = self.build("a.ninfer")
        for words in (("build", NANO), ("quantize", made), ("reshard", made), ("convert", made),
                      ("extract", made, "weight/000001"), ("logits", made, "--tokens", "1"),
                      ("calibrate", made, "--text", NANO / "config.json"),
                      ("eval", "perplexity", made, "--text", NANO / "config.json"), ("bench", made)):
            self.refused(2, *words, "--output", "", text="--output is empty")
            self.refused(2, *words, "--output", "-", text="--output is '-'")
        for command in ("inspect", "verify"):
            self.refused(2, command, "", text="FILE is empty")
        words = ("calibrate", made, "--output", self.path("x"), "--text")
        self.refused(4, *words, NANO / "model.safetensors", text="is no UTF-8, a text expected")
        self.refused(2, *words, NANO / "config.json", "--limit", 0, text="--limit: Value 0 not in range 1 to")
        self.refused(2, "extract", made, "", "--output", self.path("x"), text="OBJECT is empty")
        self.refused(2, "diff", made, "", text="B is empty")

    def test_what_is_not_for_a_command_is_told_what_it_is(self):
        made = self.build("a.ninfer")
        gguf = self.path("m.gguf")
        gguf.write_bytes(b"GGUF" + bytes(60))
        for command in ("verify", "quantize", "reshard"):
            out = () if command == "verify" else ("--output", self.path("x"))
            self.refused(4, command, gguf, *out, text="`ignition build`")
        self.refused(4, "convert", gguf, "--output", self.path("x"), text="begins with 'GGUF")
        self.refused(4, "convert", made, "--output", self.path("x"), text="of version 3, 1 or 2 expected")
        self.refused(4, "convert", gguf, "--output", self.path("x"), text="error")
        # No line of progress before work that never began.
        for words in (("convert", gguf, "--output", self.path("x")), ("reshard", made, "--output", made)):
            self.assertTrue(ignition(*words, "--progress", "plain").stderr.startswith("error: "), words)
        single = ignition("inspect", NANO / "model.safetensors").stdout
        self.assertTrue(single.startswith(f"{NANO / 'model.safetensors'}  safetensors"), single[:200])


class Deep(Case):
    def test_every_recipe_keeps_its_bound(self):
        for recipe in ("direct", "keep", "q4", "q5", "q6", "q8", "fp8", "nvfp4", "default"):
            made = self.build(f"{recipe}.ninfer", "--recipe", recipe, "--components", "text,mtp")
            got = result("verify", made, "--deep", "--source", NANO)
            for total in got["compared"]:
                self.assertLessEqual(total["worst"], 1)
                if total["how"] == "encoded":
                    # A bound that nothing comes near would hold for anything.
                    self.assertGreater(total["worst"], 0.4, (recipe, total))

    def test_a_changed_number_is_found(self):
        made = self.build("a.ninfer", "--recipe", "q8")
        objects = result("inspect", made, "--objects")["objects"]
        victim = max((o for o in objects if o.get("format") == "q8_g32_fp16"), key=lambda o: o["bytes"])
        data = bytearray(made.read_bytes())
        start = len(data) - (objects[-1]["offset"] + objects[-1]["bytes"]) + victim["offset"] + 1000
        data[start] = (data[start] + 64) % 256 if (data[start] + 64) % 256 != 128 else 1
        damaged = self.path("b.ninfer")
        damaged.write_bytes(data)
        result("verify", damaged)  # a legal code
        self.refused(4, "verify", damaged, "--deep", "--source", NANO, text="in the source")
        self.refused(2, "verify", made, "--deep", text="--source")
        self.refused(2, "verify", made, "--source", NANO, text="--deep")
        self.refused(3, "verify", made, "--deep", "--source", self.path("none"), text="none")
        done = ignition("verify", made, "--deep", "--source", made, "--progress", "plain")
        self.assertEqual((done.returncode, done.stderr[:7]), (4, "error: "), "refused before anything is read")
        if VISION.exists():
            self.refused(4, "verify", made, "--deep", "--source", VISION, text="'hidden_size' in the config")

    def test_progress_ends_where_it_should(self):
        made = self.build("a.ninfer", "--recipe", "q4")
        line = [l for l in ignition("verify", made, "--deep", "--source", NANO, "--progress", "plain").stderr.split("\n")
                if l.startswith("compare")][-1]
        done, total = line.split()[1].split("/")
        self.assertEqual(done, total)


class FullDisk(Case):
    """RLIMIT_FSIZE stands for a full disk: a write fails in the middle."""

    def limited(self, n):
        return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))}

    def test_no_command_leaves_a_part_behind(self):
        made = self.build("a.ninfer")
        for words in (("build", NANO, "--recipe", "q8"), ("quantize", made, "--recipe", "q8"), ("reshard", made),
                      ("extract", made, "weight/000001"),
                      ("extract", made, "weight/000001", "--decode")):
            limit = 4_000 if words[0] == "extract" else 100_000
            self.refused(3, *words, "--output", self.path("out"), text="File too large", **self.limited(limit))


class Damaged(Case):
    def test_names_of_parts_lead_nowhere(self):
        split = self.path("s.ninfer")
        result("reshard", self.build("a.ninfer", "--recipe", "q4"), "--output", split, "--max-file-bytes", "1M")
        data = split.read_bytes()
        part = b"s.ninfer.part-0001"
        for name in (b"../ninfer.part-001", b"/etc/passwd.000000", b"..", b"s.ninfer"):
            padded = data.replace(b'"' + part + b'"', (b'"' + name + b'"').ljust(len(part) + 2), 1)
            self.path("t.ninfer").write_bytes(padded)
            self.refused(4, "verify", self.path("t.ninfer"), text="ninfer")
            self.refused(4, "diff", self.path("t.ninfer"), split, text="ninfer")

    def test_links_and_folders_in_the_place_of_files(self):
        made = self.build("a.ninfer", "--recipe", "q4")
        os.symlink(made, self.path("link.ninfer"))
        self.assertTrue(result("diff", made, self.path("link.ninfer"))["same"])
        # A link to nothing is no free name, and what a link names is never replaced.
        os.symlink(self.path("nothing"), self.path("dangling.ninfer"))
        for words in (("build", NANO), ("reshard", made), ("extract", made, "weight/000001")):
            self.refused(8, *words, "--output", self.path("dangling.ninfer"), text="dangling")
            self.refused(8, *words, "--output", self.path("link.ninfer"), text="link")
        self.refused(8, "build", NANO, "--output", self.path("link.ninfer"), "--force", text="link")
        self.refused(3, "diff", made, self.folder, text="a folder, a regular file expected")

    def test_a_truncated_part_is_named(self):
        split = self.path("s.ninfer")
        result("reshard", self.build("a.ninfer", "--recipe", "q4"), "--output", split, "--max-file-bytes", "1M")
        part = self.path("s.ninfer.part-0001")
        os.truncate(part, 5000)
        for words in (("verify", split), ("diff", split, split),
                      ("reshard", split, "--output", self.path("o.ninfer"))):
            self.refused(4, *words, text="part-0001")
        part.unlink()
        self.refused(4, "diff", split, split, text="part-0001")


if __name__ == "__main__":
    unittest.main()
