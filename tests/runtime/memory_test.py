#!/usr/bin/python3
"""The peak of resident memory against the plan that `flare` prints, by kind of model file.

Usage: memory_test.py FLARE IGNITION [--shape NAME] [--layers N] [--vocab N] [--keep FOLDER]

Makes a checkpoint with random weights (bench/e2e/random_checkpoint.py) and a GGUF file
(bench/peers/random_gguf.py), fills the whole context with each, and fails where the peak, from
the start of the program to its end, differs from the plan by more than 3 per cent. A slow machine
reads prompts in short pieces, which do not reach all of the planned scratch memory: the peak may
miss that. Skipped (77) without numpy.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "e2e"), os.path.join(ROOT, "bench", "peers")]
try:
    import random_checkpoint
    import random_gguf
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CONTEXT = 1536  # pieces of a prompt double while they take little time: 64 + … + 512 are 960
BOUND = 0.03


def planned_bytes(text):
    """The total and the scratch memory of "memory: … · scratch 30.1 MiB · … = 371.2 MiB of 15.2 GiB"."""
    found = re.search(r"^memory: .* scratch ([\d.]+) (\w+) .* = ([\d.]+) (\w+) of ", text, re.M).groups()
    scratch, total = (float(value) * UNITS[unit] for value, unit in (found[:2], found[2:]))
    return total, scratch


def measure(command):
    """Peaks of resident memory in bytes, by kind, and what the program wrote to stderr."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peaks = dict.fromkeys(("VmHWM", "RssAnon", "RssFile"), 0)
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as f:
                for name, value in re.findall(r"^(\w+):\s+(\d+) kB", f.read(), re.M):
                    if name in peaks:
                        peaks[name] = max(peaks[name], int(value) * 1024)
        except OSError:
            pass
        time.sleep(0.005)  # VmHWM is the kernel's own maximum; the last look comes before the end
    errors = process.stderr.read()
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{errors}")
    return peaks, errors


def check(name, flare, model, *flags):
    tokens = ",".join(str(17 + i % 200) for i in range(CONTEXT - 8))
    peaks, errors = measure([flare, "generate", model, "--tokens", tokens, "--max-tokens", "8",
                             "--max-context", str(CONTEXT), "-v", *flags])
    plan, scratch = planned_bytes(errors)
    difference = peaks["VmHWM"] / plan - 1
    ok = (plan - scratch) * (1 - BOUND) <= peaks["VmHWM"] <= plan * (1 + BOUND)
    print(f"{name:<24} plan {plan / MIB:7.1f}  peak {peaks['VmHWM'] / MIB:7.1f} MiB ({difference:+.1%})"
          f"  anonymous {peaks['RssAnon'] / MIB:7.1f}  file {peaks['RssFile'] / MIB:7.1f}"
          f"  {'ok' if ok else 'FAILED'}", flush=True)
    if not ok:
        print("  " + re.search(r"^memory: .*", errors, re.M).group())
    return ok


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("flare")
    parser.add_argument("ignition")
    parser.add_argument("--shape", default="qwen3-0.6b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--keep", help="folder whose files stay for the next run")
    options = parser.parse_args()
    folder = options.keep or tempfile.mkdtemp(prefix="flare_memory_")
    checkpoint, gguf, artifact = (os.path.join(folder, n) for n in ("model", "model.gguf", "q8.ninfer"))
    shape, gguf_shape = random_checkpoint.SHAPES[options.shape], random_gguf.SHAPES[options.shape]
    if options.layers:
        shape["num_hidden_layers"] = gguf_shape["layers"] = options.layers
    if options.vocab:
        shape["vocab_size"] = gguf_shape["vocab"] = options.vocab
    try:
        if not os.path.exists(checkpoint):
            random_checkpoint.main(options.shape, checkpoint)
        if not os.path.exists(gguf):
            random_gguf.main(options.shape, "q4_0", gguf, random_gguf.VOCABULARY)
        if not os.path.exists(artifact):
            subprocess.run([options.ignition, "build", checkpoint, "--recipe", "q8", "--output", artifact],
                           check=True)
        results = [check("bf16 folder in place", options.flare, checkpoint),
                   check("bf16 folder to q4", options.flare, checkpoint, "--recipe", "q4"),
                   check("q8 artifact", options.flare, artifact),
                   check("GGUF q4_0", options.flare, gguf)]
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
