#!/usr/bin/python3
"""Times ignition's commands on a model of random weights: GB/s of what each reads, and its peak of memory.

Usage: commands.py [--ignition PROGRAM] [--shape NAME] [--threads N] [--rounds N] [--folder FOLDER]

Makes a checkpoint (bench/e2e/random_checkpoint.py; qwen3-0.6b, 1.2 GB of bf16) and, of it, artifacts. A
command runs once unmeasured, so that its files are in the page cache, and then --rounds times (5);
rates are of the median, the quartiles stand beside it. Outputs go to the folder and are removed.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "bench/e2e"))


def parse_arguments():
    p = argparse.ArgumentParser()
    p.format_usage = p.format_help = lambda: __doc__
    p.add_argument("--ignition", default=os.path.join(ROOT, "build/release/bin/ignition"))
    p.add_argument("--shape", default="qwen3-0.6b")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--folder")
    return p.parse_args()


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder = a, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def size(self, name):
        path = self.path(name)
        if os.path.isdir(path):
            return sum(os.path.getsize(os.path.join(path, n)) for n in os.listdir(path))
        return os.path.getsize(path)

    def run(self, *words):
        """Seconds and peak resident bytes."""
        begin = time.monotonic()
        child = subprocess.Popen([self.a.ignition, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            sys.exit(f"{' '.join(words)}: exit {child.returncode}\n{errors.decode()}")
        return time.monotonic() - begin, usage.ru_maxrss * 1024

    def measure(self, what, reads, *words, output=None, keep=False, threads=True):
        words = list(words) + (["--output", self.path(output)] if output else [])
        words += ["--threads", str(self.a.threads)] if threads else []
        seconds, peaks = [], []
        for i in range(self.a.rounds + 1):
            s, peak = self.run(*words)
            if i > 0:
                seconds.append(s)
                peaks.append(peak)
            if output and not (keep and i == self.a.rounds):
                os.remove(self.path(output))
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        gb = sum(self.size(name) for name in reads) / 1e9
        print(f"| {what} | {gb:.2f} | {middle:.2f} ({low:.2f}–{high:.2f}) | {gb / middle:.2f} | "
              f"{max(peaks) / 1e6:.0f} |", flush=True)


def main():
    import random_checkpoint
    a = parse_arguments()
    folder = a.folder or tempfile.mkdtemp(prefix="flare_commands_")
    b = Bench(a, folder)
    try:
        if not os.path.exists(b.path("model")):
            random_checkpoint.main(a.shape, b.path("model"))
        print(f"random {a.shape}, {a.threads} threads, medians of {a.rounds} rounds (quartiles)\n")
        print("| command | GB read | seconds | GB/s | peak MB |\n|---|---|---|---|---|")
        model = b.path("model")
        b.measure("build, bf16", ["model"], "build", model, output="bf16.ninfer", keep=True)
        for recipe in ("q8", "q4", "nvfp4", "fp8"):
            b.measure(f"build, {recipe}", ["model"], "build", model, "--recipe", recipe, output=f"{recipe}.ninfer",
                      keep=recipe == "q4")
        b.measure("build, q4 --encoder search", ["model"], "build", model, "--recipe", "q4", "--encoder", "search",
                  output="search.ninfer")
        b.measure("quantize bf16 to q4", ["bf16.ninfer"], "quantize", b.path("bf16.ninfer"), "--recipe", "q4",
                  output="made.ninfer")
        b.measure("quantize q4 to q8", ["q4.ninfer"], "quantize", b.path("q4.ninfer"), "--recipe", "q8",
                  output="made.ninfer")
        b.measure("reshard bf16", ["bf16.ninfer"], "reshard", b.path("bf16.ninfer"), output="made.ninfer",
                  threads=False)
        b.measure("verify bf16", ["bf16.ninfer"], "verify", b.path("bf16.ninfer"))
        b.measure("verify q4", ["q4.ninfer"], "verify", b.path("q4.ninfer"))
        b.measure("verify q4 --deep", ["q4.ninfer", "model"], "verify", b.path("q4.ninfer"), "--deep", "--source",
                  model)
        b.measure("diff bf16 q4", ["bf16.ninfer", "q4.ninfer"], "diff", b.path("bf16.ninfer"), b.path("q4.ninfer"))
    finally:
        if not a.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
