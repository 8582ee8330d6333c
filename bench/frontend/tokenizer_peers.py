#!/usr/bin/env python3
"""Our tokenizer and the reference library on the same files in one run, as a table.

Usage: tokenizer_peers.py BENCH_TOKENIZER TOKENIZER.json... -- TEXT...
Needs the package tokenizers 0.23.3. Both run on one thread and count its CPU time; the reference
encodes with encode_batch_fast, without offsets, the best of five rounds.
"""
import json
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402


def best(rounds, f):
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        f()
        times.append(time.process_time() - begin)
    return min(times)


def texts_of(path):
    if path.endswith(".jsonl"):
        return [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
    return [open(path, encoding="utf-8", newline="").read()]


def main():
    split = sys.argv.index("--")
    program, files, texts = sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]
    ours = subprocess.run([program, *files, "--", *texts], check=True, capture_output=True,
                          text=True).stdout
    rows = [json.loads(line) for line in ours.splitlines()]
    print("| tokenizer | text | load ms | reference | encode MB/s, cold | warm | reference"
          " | decode MB/s | reference |")
    print("|---|---|---|---|---|---|---|---|---|")
    at = 0
    for file in files:
        raw = open(file, encoding="utf-8").read()
        load = best(3, lambda: tokenizers.Tokenizer.from_str(raw))
        tok = tokenizers.Tokenizer.from_str(raw)
        for path in texts:
            row, parts = rows[at], texts_of(path)
            at += 1
            mb = row["bytes"] / 1e6
            ids = [tok.encode(p, add_special_tokens=False).ids for p in parts]
            assert sum(map(len, ids)) == row["tokens"], (file, path)
            encode = best(5, lambda: tok.encode_batch_fast(parts, add_special_tokens=False))
            decode = best(5, lambda: [tok.decode(i, skip_special_tokens=False) for i in ids])
            print("| %s | %s | %.0f | %.0f | %.1f | %.1f | %.1f | %.0f | %.0f |" % (
                row["tokenizer"], row["text"], row["load_ms"], load * 1e3, row["cold_mb_s"],
                row["encode_mb_s"], mb / encode, row["decode_mb_s"], mb / decode))


main()
