#!/usr/bin/python3
"""Times ignition's commands on a model of random weights: GB/s, per cent of the machine's rates, memory.

Usage: commands.py [--ignition PROGRAM] [--machine PROGRAM] [--shape NAME] [--threads N] [--rounds N]
                   [--folder FOLDER] [--only TEXT]... [--prepare]

Makes a checkpoint (bench/e2e/random_checkpoint.py; qwen3.5-0.8b, 1.5 GB of bf16) and, of it, artifacts
and a version 2 file. A command runs once unmeasured, so that its files are in the page cache, and then
--rounds times (3). "GB/s of source" is what it reads over the median of its seconds; "% of read" that
over what all cores read from memory (bench_machine), "% of write" what it writes over a plain write and
fsync into the same folder, both measured in this run. Outputs go to the folder and are
removed. With --folder the inputs stay there for the next run; --prepare makes nothing else. --only runs
the rows whose name contains TEXT.
"""
import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "bench/e2e"))
from process_cost import process_cost  # noqa: E402
CHUNK = 8 << 20


def parse_arguments():
    p = argparse.ArgumentParser()
    p.format_usage = p.format_help = lambda: __doc__
    p.add_argument("--ignition", default=os.path.join(ROOT, "build/release/bin/ignition"))
    p.add_argument("--machine", default=os.path.join(ROOT, "build/release/bench/bench_machine"))
    p.add_argument("--shape", default="qwen3.5-0.8b")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--folder")
    p.add_argument("--only", action="append")
    p.add_argument("--prepare", action="store_true")
    return p.parse_args()


def read_rate(program, threads):
    """(bytes per second that all cores read from memory, the CPU's name)."""
    shown = json.loads(subprocess.run([program, "--threads", str(threads), "--json"], capture_output=True,
                                      text=True, check=True).stdout)
    team = next(t for t in shown["teams"] if t["threads"] == threads)
    return max(level["read_bytes_per_s"] for level in team["levels"].values()), shown["cpu"]


def write_rate(folder, n):
    """Bytes per second of a plain write of n bytes and its fsync; the better of two."""
    path, block, seconds = os.path.join(folder, "plain"), os.urandom(CHUNK), []
    for _ in range(2):
        begin = time.monotonic()
        with open(path, "wb", buffering=0) as f:
            for _ in range(n // CHUNK):
                f.write(block)
            os.fsync(f.fileno())
        seconds.append(time.monotonic() - begin)
        os.remove(path)
    return n // CHUNK * CHUNK / min(seconds)


def old_names(bindings):
    """What version 2 calls each object: its folder, then the last names of its parameters."""
    members = {}
    for name, binding in bindings.items():
        for part in binding.get("parts", [{"object": binding.get("object"), "range": [0, 0]}]):
            members.setdefault(part["object"], []).append((part["range"][0], name))
    names = {}
    for object_id, parts in members.items():
        first = min(parts)[1]
        if any(p[0] for p in parts):  # several parameters one after the other
            last = "_".join(n.rsplit("/", 1)[1] for _, n in sorted(parts))
            first = first.rsplit("/", 1)[0] + "/" + last.replace("a_projection_b_projection", "a_b_projection")
        names[object_id] = min(n for _, n in parts) if first == "text/output_head" else first
    return names


def write_version_2(new, shown, old):
    """The payload of an artifact of version 3 behind a directory of version 2."""
    names, objects = old_names(shown["bindings"]), []
    for o in shown["objects"]:
        if o["id"].startswith("resource/"):
            objects.append(dict(name="frontend/" + o["id"].rsplit("/", 1)[1], kind="resource",
                                encoding="raw-bytes-v1", offset=o["offset"], bytes=o["bytes"]))
        else:
            objects.append(dict(name=names[o["id"]], kind="tensor", shape=o["shape"],
                                format=o["format"].upper(), layout="contiguous-le-v1",
                                offset=o["offset"], bytes=o["bytes"]))
    text = json.dumps(dict(identity=dict(model_id="random", weights_id="bf16"), objects=objects)).encode()
    head = b"NINFER\0\2" + struct.pack("<Q", len(text)) + text
    with open(new, "rb") as source, open(old, "wb") as out:
        out.write(head + bytes(-len(head) % 4096))
        source.seek(os.path.getsize(new) - shown["files"][0]["payload_bytes"])
        shutil.copyfileobj(source, out, CHUNK)


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder, self.rates = a, folder, None

    def path(self, name):
        return os.path.join(self.folder, name)

    def size(self, name):
        """Bytes of a file or folder, or a number of bytes itself."""
        if isinstance(name, int):
            return name
        path = self.path(name)
        if os.path.isdir(path):
            return sum(os.path.getsize(os.path.join(path, n)) for n in os.listdir(path))
        return os.path.getsize(path)

    def run(self, *words):
        """Seconds and peak resident bytes."""
        seconds, peak, status, errors = process_cost([self.a.ignition, *words])
        if status != 0 and (words[0], status) != ("diff", 1):
            sys.exit(f"{' '.join(words)}: exit {status}\n{errors}")
        return seconds, peak

    def inputs(self):
        """Checkpoint, artifacts and the old file, made where they are not there yet."""
        import random_checkpoint
        model = self.path("model")
        if not os.path.exists(model):
            random_checkpoint.main(self.a.shape, model)
        for recipe in ("bf16", "q4"):
            if not os.path.exists(self.path(recipe + ".ninfer")):
                self.run("build", model, "--recipe", recipe, "--output", self.path(recipe + ".ninfer"))
        if not os.path.exists(self.path("old.ninfer")):
            write_version_2(self.path("bf16.ninfer"), self.inspect("--objects", "--bindings"),
                            self.path("old.ninfer"))

    def inspect(self, *flags):
        return json.loads(subprocess.run([self.a.ignition, "inspect", self.path("bf16.ninfer"), *flags, "--json"],
                                         capture_output=True, check=True).stdout)["result"]

    def measure(self, what, reads, *words, writes=False, threads=True):
        if self.a.only and not any(text in what for text in self.a.only):
            return
        out = self.path("made")
        words = list(words) + (["--output", out] if writes else [])
        words += ["--threads", str(self.a.threads)] if threads else []
        seconds, peaks, written = [], [], 0
        for i in range(self.a.rounds + 1):
            s, peak = self.run(*words)
            if i > 0:
                seconds.append(s)
                peaks.append(peak)
            if writes:
                written = os.path.getsize(out)
                os.remove(out)
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        read = sum(self.size(name) for name in reads)
        disk = f"{100 * written / middle / self.rates[1]:.0f}" if written else ""
        print(f"| {what} | {read / 1e9:.2f} | {written / 1e9:.2f} | {middle:.2f} ({low:.2f}–{high:.2f}) | "
              f"{read / middle / 1e9:.2f} | {100 * read / middle / self.rates[0]:.1f} | {disk} | "
              f"{max(peaks) / 1e6:.0f} |", flush=True)

    def all(self):
        model, bf16, q4, old = (self.path(n) for n in ("model", "bf16.ninfer", "q4.ninfer", "old.ninfer"))
        for recipe in ("bf16", "q8", "q4", "nvfp4", "fp8"):
            self.measure(f"build {recipe}", ["model"], "build", model, "--recipe", recipe, writes=True)
        self.measure("build q4, search", ["model"], "build", model, "--recipe", "q4", "--encoder", "search",
                     writes=True)
        self.measure("quantize bf16 to q4", ["bf16.ninfer"], "quantize", bf16, "--recipe", "q4", writes=True)
        self.measure("quantize q4 to q8", ["q4.ninfer"], "quantize", q4, "--recipe", "q8", writes=True)
        self.measure("convert version 2", ["old.ninfer"], "convert", old, "--source", model, writes=True,
                     threads=False)
        self.measure("reshard bf16", ["bf16.ninfer"], "reshard", bf16, writes=True, threads=False)
        embedding = max(self.inspect("--objects")["objects"], key=lambda o: o["bytes"])
        for what, flags in (("extract, words", ()), ("extract --decode", ("--decode",))):
            self.measure(what, [embedding["bytes"]], "extract", bf16, embedding["id"], *flags, writes=True,
                         threads=False)
        self.measure("verify bf16", ["bf16.ninfer"], "verify", bf16)
        self.measure("verify q4", ["q4.ninfer"], "verify", q4)
        self.measure("verify bf16 --deep", ["bf16.ninfer", "model"], "verify", bf16, "--deep", "--source", model)
        self.measure("verify q4 --deep", ["q4.ninfer", "model"], "verify", q4, "--deep", "--source", model)
        self.measure("diff bf16 bf16", ["bf16.ninfer", "bf16.ninfer"], "diff", bf16, bf16)
        self.measure("diff bf16 q4", ["bf16.ninfer", "q4.ninfer"], "diff", bf16, q4)


def main():
    a = parse_arguments()
    folder = a.folder or tempfile.mkdtemp(prefix="flare_commands_")
    os.makedirs(folder, exist_ok=True)
    b = Bench(a, folder)
    try:
        b.inputs()
        if a.prepare:
            return
        read, cpu = read_rate(a.machine, a.threads)
        disk = write_rate(folder, b.size("bf16.ninfer"))
        b.rates = (read, disk)
        print(f"{cpu}, {a.threads} threads, random {a.shape}, medians of {a.rounds} rounds (quartiles); "
              f"memory reads at {read / 1e9:.1f} GB/s, the folder takes {disk / 1e9:.2f} GB/s\n")
        print("| command | GB read | GB written | seconds | GB/s of source | % of read | % of write | peak MB |\n"
              "|---|---|---|---|---|---|---|---|")
        b.all()
    finally:
        if not a.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
