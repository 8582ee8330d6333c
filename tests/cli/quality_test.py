#!/usr/bin/python3
# `ignition calibrate`, `ignition eval perplexity` and calibrated builds, held to what transformers
# computed for the golden checkpoints and to plain numpy.
#
# usage: quality_test.py IGNITION [unittest arguments]
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
    print("numpy is absent")
    sys.exit(77)

IGNITION = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
MODELS = ROOT.parent / "shared/data/goldens/models"


def ignition(*words, code=0):
    done = subprocess.run([IGNITION, *map(str, words), "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)["result"] if code == 0 else done.stderr + done.stdout


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    out = {"metadata": header.pop("__metadata__", {})}
    for name, t in header.items():
        raw = np.frombuffer(data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]],
                            {"F32": "<f4", "I32": "<i4", "I64": "<i8", "BF16": "<u2"}[t["dtype"]])
        if t["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        out[name] = raw.reshape(t["shape"])
    return out


def losses(logits, ids):
    """−log softmax of each next token, in binary64."""
    l = logits[:-1].astype(np.float64)
    top = l.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(l - top).sum(axis=1))
    return log_sum - l[np.arange(len(ids) - 1), ids[1:]]


class Quality(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def golden(self, name):
        if not MODELS.exists():
            self.skipTest(f"{MODELS} is absent")
        return MODELS / name, tensors(MODELS / name / "expected.safetensors")

    def corpus(self, *documents):
        path = self.folder / f"corpus{len(list(self.folder.iterdir()))}.json"
        path.write_text(json.dumps([d if isinstance(d, str) else [int(i) for i in d] for d in documents]))
        return path

    def evaluate(self, model, corpus, *flags):
        out = self.folder / f"eval{len(list(self.folder.iterdir()))}"
        summary = ignition("eval", "perplexity", model, "--corpus", corpus, "--output", out, *flags)
        self.assertEqual(summary, json.loads((out / "summary.json").read_text()))
        return summary, [json.loads(line) for line in (out / "windows.jsonl").read_text().splitlines()]

    def test_perplexity_is_that_of_the_reference_logits(self):
        for name in ("llama3", "qwen3_5"):
            model, expected = self.golden(name)
            ids = [expected["a.input_ids"].reshape(-1), expected["b.input_ids"].reshape(-1)]
            want = [losses(expected[f"{k}.logits"].reshape(len(i), -1), i) for k, i in zip("ab", ids)]
            summary, windows = self.evaluate(model, self.corpus(*ids), "--exact")
            self.assertEqual([w["scored"] for w in windows], [len(ids[0]) - 1, len(ids[1]) - 1])
            for window, w in zip(windows, want):
                self.assertAlmostEqual(window["loss"], w.mean(), delta=2e-5)
            # Weighted by tokens, not by windows.
            whole = np.concatenate(want).mean()
            self.assertAlmostEqual(summary["loss"], whole, delta=2e-5)
            self.assertAlmostEqual(summary["perplexity"], np.exp(whole), delta=2e-5 * np.exp(whole))

    def test_windows_score_every_token_once_and_tails_only_the_end(self):
        model, expected = self.golden("llama3")
        ids = expected["a.input_ids"].reshape(-1)
        want = losses(expected["a.logits"].reshape(len(ids), -1), ids)
        flags = ("--exact", "--context", "64", "--stride", "32")
        summary, windows = self.evaluate(model, self.corpus(ids), *flags)
        self.assertEqual([(w["begin"], w["end"], w["scored"]) for w in windows],
                         [(0, 64, 63), (32, 96, 32), (64, 128, 32), (96, 150, 22)])
        self.assertEqual(summary["tokens"], 149)
        # The first window has the same history as the reference; the others have less.
        self.assertAlmostEqual(windows[0]["loss"], want[:63].mean(), delta=2e-5)
        _, tails = self.evaluate(model, self.corpus(ids), *flags, "--tail", "10")
        self.assertEqual([w["scored"] for w in tails], [10, 10, 10, 10])
        self.assertAlmostEqual(tails[0]["loss"], want[53:63].mean(), delta=2e-5)
        limited, _ = self.evaluate(model, self.corpus(ids, ids), *flags, "--limit", "40")
        self.assertEqual(limited["tokens"], 39)

    def test_moments_are_those_of_the_reference_states(self):
        model, expected = self.golden("llama3")
        ids = expected["a.input_ids"].reshape(-1)
        out = self.folder / "moments"
        ignition("calibrate", model, "--corpus", self.corpus(ids), "--output", out)
        moments = tensors(out)
        self.assertEqual(moments["metadata"]["tokens"], str(len(ids)))
        config = json.loads((model / "config.json").read_text())
        layers = config["num_hidden_layers"]
        last = expected[f"a.hidden.{layers}"].reshape(len(ids), -1).astype(np.float64)
        x = expected["a.hidden.0"].reshape(len(ids), -1).astype(np.float64)
        weight = tensors(model / "model.safetensors")["model.layers.0.input_layernorm.weight"]
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + config["rms_norm_eps"]) * weight
        for name, rows in (("text/final_hidden", last), ("text/layers/0/mixer_input", x)):
            got, want = moments[name].astype(np.float64), (rows * rows).mean(axis=0)
            self.assertLess(np.abs(got - want).max() / want.max(), 0.02, name)
        # q, k, v | output | gate, up | down of every layer, and the head.
        self.assertEqual(len(moments) - 1, 4 * layers + 1)

    def test_calibrated_builds_lower_the_weighted_error_and_say_so(self):
        conversation = "<|im_start|>user\nWhat is the capital of Italy?<|im_end|>\n<|im_start|>assistant\nThe capital of Italy is Rome.<|im_end|>\n"
        moments, made = self.folder / "moments", self.folder / "made.ninfer"
        ignition("calibrate", NANO, "--corpus", self.corpus(conversation), "--special", "--output", moments)
        report = ignition("build", NANO, "--recipe", "q4", "--calibration", moments, "--output", made)
        self.assertGreater(len(report["errors"]), 20)
        for error in report["errors"]:
            self.assertLessEqual(error["error"], error["error_before"], error)
            self.assertTrue(error["weighted"], error)
        self.assertLess(sum(e["error"] for e in report["errors"]), 0.97 * sum(e["error_before"] for e in report["errors"]))
        provenance = ignition("inspect", made)["provenance"]
        self.assertIn("grouped_search_calibrated", provenance["encoders"])
        self.assertEqual(provenance["calibration"]["model"], "nano")
        ignition("verify", made)
        # Neither the number of threads nor the machine's level changes a byte.
        again = self.folder / "again.ninfer"
        ignition("build", NANO, "--recipe", "q4", "--calibration", moments, "--output", again, "--threads", "3",
                 "--artifact-id", "00" * 16)
        once = self.folder / "once.ninfer"
        ignition("build", NANO, "--recipe", "q4", "--calibration", moments, "--output", once, "--threads", "1",
                 "--artifact-id", "00" * 16)
        self.assertEqual(again.read_bytes(), once.read_bytes())

    def test_what_does_not_belong_is_refused(self):
        model, expected = self.golden("llama3")
        moments = self.folder / "moments"
        ignition("calibrate", model, "--corpus", self.corpus(range(1, 20)), "--output", moments)
        target = self.folder / "x.ninfer"
        text = ignition("build", NANO, "--recipe", "q4", "--calibration", moments, "--output", target, code=4)
        self.assertIn("another model", text)
        ignition("build", NANO, "--recipe", "q4", "--calibration", self.folder / "none", "--output", target, code=3)
        ignition("build", NANO, "--recipe", "q4", "--calibration", NANO / "model.safetensors", "--output", target, code=4)
        ignition("build", NANO, "--recipe", "q4", "--encoder", "best", "--output", target, code=2)
        ignition("build", NANO, "--recipe", "q4", "--encoder", "absmax", "--calibration", moments, "--output", target,
                 code=2)
        own = self.folder / "own"
        ignition("calibrate", NANO, "--corpus", self.corpus([1, 2]), "--output", own)
        text = ignition("build", NANO, "--recipe", "direct", "--calibration", own, "--output", target, code=2)
        self.assertIn("--calibration: recipe bf16 encodes no measured parameter", text)
        self.assertFalse(target.exists())
        ignition("calibrate", model, "--corpus", self.corpus([1, 2]), "--output", moments, code=8)
        ignition("eval", "perplexity", model, "--corpus", self.corpus([1, 2]), "--output", self.folder, code=8)
        ignition("eval", "perplexity", model, "--corpus", self.corpus([1]), "--output", self.folder / "e", code=4)
        ignition("eval", "perplexity", model, "--corpus", self.corpus([1, 99999999]), "--output", self.folder / "e",
                 code=4)
        text = ignition("calibrate", model, "--corpus", self.corpus([1, 99999999]), "--output", target, code=4)
        self.assertIn(".json[0]: token id 99999999 is outside 0..", text)
        for limit in ("-1", "0", "x"):
            ignition("calibrate", model, "--corpus", self.corpus([1, 2]), "--output", target, "--limit", limit, code=2)
        ignition("eval", "perplexity", model, "--corpus", self.corpus("text"), "--output", self.folder / "e", code=4)


unittest.main()
