#!/usr/bin/env python3
"""Writes tests/data/rope/tables.json: rotary frequency tables by numpy, in double precision.

An implementation of its own of spec/models/building_blocks.md 2.2 (with the clamps of the reference,
transformers' modeling_rope_utils) and llama_qwen3.md 1.4; the tests of src/prepare/model hold ours
to it. usage: tools/rope_oracle.py > tests/data/rope/tables.json
"""
import json
import math
import sys

import numpy as np


def magnitude(factor, scale=1.0):
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def table(rope, dims):
    i = np.arange(0, dims, 2, dtype=np.float64)
    f = 1.0 / np.power(np.float64(rope["rope_theta"]), i / dims)
    kind = rope.get("rope_type", "default")
    scale, divisors = 1.0, None
    if kind == "linear":
        f = f / rope["factor"]
    elif kind == "llama3":
        n, lo, hi = (rope[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                       "high_freq_factor"))
        wavelength = 2 * np.pi / f
        s = (n / wavelength - lo) / (hi - lo)
        divisors = np.select([wavelength < n / hi, wavelength > n / lo],
                             [np.ones_like(f), np.full_like(f, rope["factor"])],
                             1 / ((1 - s) / rope["factor"] + s))
        f = np.select([wavelength < n / hi, wavelength > n / lo], [f, f / rope["factor"]],
                      (1 - s) * f / rope["factor"] + s * f)
    elif kind == "yarn":
        n, factor = rope["original_max_position_embeddings"], rope["factor"]

        def where(turns):
            return dims * math.log(n / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

        low, high = where(rope.get("beta_fast", 32)), where(rope.get("beta_slow", 1))
        if rope.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dims - 1)
        if low == high:
            high += 0.001
        ramp = np.clip((np.arange(dims // 2, dtype=np.float64) - low) / (high - low), 0, 1)
        f = f / factor * ramp + f * (1 - ramp)
        if "attention_factor" in rope:
            scale = rope["attention_factor"]
        elif "mscale" in rope and "mscale_all_dim" in rope:
            scale = magnitude(factor, rope["mscale"]) / magnitude(factor, rope["mscale_all_dim"])
        else:
            scale = magnitude(factor)
    out = {"rope": rope, "dims": dims, "factor": scale, "frequencies": f.tolist()}
    if divisors is not None:
        out["divisors"] = divisors.tolist()
    return out


def main():
    llama = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
             "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    yarn = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
            "original_max_position_embeddings": 32768}
    cases = [
        ({"rope_theta": 10000.0}, 128),
        ({"rope_type": "default", "rope_theta": 1000000.0}, 16),
        ({"rope_type": "default", "rope_theta": 10000000}, 64),
        ({"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}, 256),
        (llama, 128),
        (dict(llama, factor=32.0), 64),
        (dict(llama, original_max_position_embeddings=64), 32),
        (yarn, 128),
        (dict(yarn, rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096,
              truncate=False), 64),
        (dict(yarn, rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096,
              truncate=True), 64),
        (dict(yarn, beta_fast=16, beta_slow=2), 128),
        (dict(yarn, attention_factor=0.9), 128),
        (dict(yarn, mscale=1.0, mscale_all_dim=0.8), 128),
        (dict(yarn, mscale=1.0), 128),
        (dict(yarn, factor=0.5), 128),
        (dict(yarn, original_max_position_embeddings=64), 32),
        (dict(yarn, original_max_position_embeddings=4, rope_theta=10000.0), 32),
    ]
    lines = [json.dumps(table(*case)) for case in cases]
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
