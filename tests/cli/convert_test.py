#!/usr/bin/python3
# `ignition convert` on files of version 1 and 2 (old_artifact.py).
#
# usage: convert_test.py IGNITION [unittest arguments]
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from old_artifact import GOLDEN, old_file

IGNITION = sys.argv.pop(1)


def ignition(*words):
    return subprocess.run([IGNITION, *map(str, words)], capture_output=True, text=True, timeout=300)


def result(*words, code=0):
    done = ignition("--json", *words)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)["result"]


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
        self.refused(4, "--source", GOLDEN, text="of version 3, 1 or 2 expected")
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
