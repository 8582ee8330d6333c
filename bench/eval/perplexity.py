#!/usr/bin/python3
"""Perplexity of the bundled models by format and encoder, as a table of README.md.

Usage: perplexity.py --bin FOLDER [--out FOLDER] [--documents N] [--model nano|stories260k]
  --bin        of `ignition` and `flare`, such as build/release/bin
  --out        a new folder for texts, artifacts and results (build/perplexity)
  --documents  texts to score (400); half as many calibrate

nano is scored on conversations of the generator it was trained with, by seeds that training did not
use; stories260k on stories that its fp32 weights tell at temperature 1, the only text of its kind at
hand. Calibration texts come from other seeds than scored ones.

Perplexity of a small model moves by chance: a change of weights that is no better or worse may lower or raise
it. The divergence does not: mean KL(bf16 ‖ format) in nats over the first tokens of the scored texts, read as
one sequence. Needs jinja2 and numpy (Debian's python3-jinja2, python3-numpy).
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared/data/models/stories260k"
SCORED_SEED, CALIBRATION_SEED = 2002, 1001  # training used 1 and 2

# name, recipe, encoder flags
NANO = [("bf16", "bf16", []),
        ("q8", "q8", []), ("q8 search", "q8", ["--encoder", "search"]), ("q8 calibrated", "q8", None),
        ("q6", "q6", []), ("q6 search", "q6", ["--encoder", "search"]), ("q6 calibrated", "q6", None),
        ("q5", "q5", []), ("q5 search", "q5", ["--encoder", "search"]), ("q5 calibrated", "q5", None),
        ("q4", "q4", []), ("q4 search", "q4", ["--encoder", "search"]), ("q4 calibrated", "q4", None),
        ("gguf q4_k", "gguf_q4_k", []), ("gguf q4_k calibrated", "gguf_q4_k", None)]
CONTEXT = {"nano": 4096, "stories260k": 512}  # positions of the model
STORIES = [row for row in NANO if "gguf" not in row[0]]  # K blocks need rows of 256


def conversations(seed, n):
    import jinja2
    sys.path.insert(0, str(ROOT / "models/nano/train"))
    import corpus
    e = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    e.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    e.filters["items"] = lambda d: list(d.items())
    template = e.from_string((ROOT / "models/nano/chat_template.jinja").read_text())
    out = []
    for messages, tools, think in corpus.conversations(seed):
        out.append(template.render(messages=messages, tools=tools, enable_thinking=think))
        if len(out) == n:
            return out


def stories(programs, seed, n):
    out = []
    for i in range(n):
        r = subprocess.run([programs / "flare", "generate", SHARED / "hf-f32", "--json", "--prompt", "Once upon a time",
                            "--temperature", "1", "--seed", str(seed * 1000 + i), "--max-tokens", "200"],
                           check=True, capture_output=True, text=True)
        out.append("Once upon a time" + json.loads(r.stdout)["result"]["text"])
    return out


def ids_of(programs, source, texts):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    r = subprocess.run([programs / "flare", "tokenize", source, "--special", "--jsonl", "-"], input=lines, check=True,
                       capture_output=True, text=True)
    return [i for line in r.stdout.splitlines() for i in json.loads(line)]


def log_probabilities(programs, model, ids, out):
    tokens = out.with_suffix(".ids")
    tokens.write_text(" ".join(map(str, ids)))
    ignition(programs, "logits", model, "--tokens", tokens, "--output", out)
    data = out.read_bytes()
    out.unlink()
    n = int.from_bytes(data[:8], "little")
    t = json.loads(data[8:8 + n])["logits"]
    begin, end = t["data_offsets"]
    logits = np.frombuffer(data[8 + n + begin:8 + n + end], "<f4").reshape(t["shape"]).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def ignition(programs, *flags):
    r = subprocess.run([programs / "ignition", *map(str, flags), "--json"], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"ignition {' '.join(map(str, flags))}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)["result"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "build/perplexity")
    p.add_argument("--documents", type=int, default=400)
    p.add_argument("--model", choices=["nano", "stories260k"], default="nano")
    a = p.parse_args()
    a.out.mkdir(parents=True)
    if a.model == "nano":
        source, rows = ROOT / "models/nano", NANO
        texts = [conversations(s, n) for s, n in ((SCORED_SEED, a.documents), (CALIBRATION_SEED, a.documents // 2))]
    else:
        source, rows = SHARED / "hf-f32", STORIES
        texts = [stories(a.bin, s, n) for s, n in ((SCORED_SEED, a.documents), (CALIBRATION_SEED, a.documents // 2))]
    scored, calibration = a.out / "scored.json", a.out / "calibration.json"
    scored.write_text(json.dumps(texts[0]))
    calibration.write_text(json.dumps(texts[1]))
    moments = a.out / "moments"
    ignition(a.bin, "calibrate", source, "--corpus", calibration, "--special", "--output", moments)
    print("| format | bits per weight | relative error, before | after | perplexity | above bf16 | divergence |\n|---|---|---|---|---|---|---|")
    base, expected = None, None
    ids = ids_of(a.bin, source, texts[0])[:CONTEXT[a.model]]
    for i, (name, recipe, flags) in enumerate(rows):
        artifact = a.out / f"{i}.ninfer"
        report = ignition(a.bin, "build", source, "--recipe", recipe, "--output", artifact,
                          *(["--calibration", moments] if flags is None else flags))
        result = ignition(a.bin, "eval", "perplexity", artifact, "--corpus", scored, "--special", "--output", a.out / f"{i}.eval")
        base = base or result["loss"]
        found = log_probabilities(a.bin, artifact, ids, a.out / f"{i}.logits")
        expected = found if expected is None else expected
        divergence = (np.exp(expected) * (expected - found)).sum(axis=1).mean()
        mean = [math.sqrt(sum(e[k] ** 2 for e in report["errors"]) / len(report["errors"])) if report["errors"] else None
                for k in ("error_before", "error")]
        cells = ["" if v is None else f"{v:.4f}" for v in mean]
        print(f"| {name} | {report['bits_per_weight']:.2f} | {cells[0]} | {cells[1]} | {result['perplexity']:.4f} | "
              f"{100 * (math.exp(result['loss'] - base) - 1):+.2f} % | {divergence:.5f} |", flush=True)
    print(f"\n{a.model}: {result['tokens']} tokens of {a.documents} texts scored")


main()
