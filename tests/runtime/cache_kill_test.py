#!/usr/bin/python3
# A server with --cache-dir, killed at random moments: every next start is clean, and no answer differs from
# those of a server without a cache.
#
# usage: cache_kill_test.py FLARE [ROUNDS [SEED]]
import json
import os
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from flare_process import Server

FLARE = sys.argv[1]
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
LIMIT = 24 << 20
WORDS = "the sun rises over a quiet lake and two birds sing while the old boat drifts near stones".split()
# Reading a prompt in other pieces changes sums by rounding: below this distance of the two best
# another token may win (serving.md S8.5 grants 0.01 in logits).
CERTAIN = 0.1


def conversation(number, turns):
    """Conversations of one system prompt, of several hundred tokens, that grow turn by turn."""
    draw = random.Random(number)
    messages = [{"role": "system", "content": " ".join(WORDS[i * i % len(WORDS)] for i in range(150))}]
    for turn in range(turns):
        if turn > 0:
            messages.append({"role": "assistant", "content": " ".join(draw.choices(WORDS, k=12))})
        messages.append({"role": "user", "content": " ".join(draw.choices(WORDS, k=60))})
    return messages


CASES = [(number, turns) for number in range(6) for turns in (1, 2, 3)]


def ask(server, case, **fields):
    """The answer's tokens with their certainty, and how many prompt tokens were cached."""
    status, _, body = server.chat(messages=conversation(*case), temperature=0, max_tokens=8, ignore_eos=True,
                                  logprobs=True, top_logprobs=2, **fields)
    assert status == 200, body
    tokens = []
    for token in body["choices"][0]["logprobs"]["content"]:
        best = sorted((t["logprob"] for t in token["top_logprobs"]), reverse=True)
        tokens.append((token["token"], best[0] - best[1] > CERTAIN))
    return tokens, body["usage"]["prompt_tokens_details"]["cached_tokens"]


def same(got, expected):
    """Equal up to the first token that rounding may change."""
    for (token, _), (wanted, certain) in zip(got, expected):
        if not certain:
            return True
        if token != wanted:
            return False
    return len(got) == len(expected)


def references():
    server = Server(FLARE, "--no-prefix-reuse")
    answers = {case: ask(server, case)[0] for case in CASES}
    assert server.stop() == 0, server.lines
    return answers


def keep_asking(server, draw):
    """Requests until the server is gone."""
    try:
        while True:
            ask(server, draw.choice(CASES))
    except (OSError, ValueError, AssertionError, json.JSONDecodeError):
        pass
    except Exception as e:  # http.client has its own errors for an answer that breaks off
        if not type(e).__module__.startswith("http"):
            raise


def check_start(server, folder, draw, expected):
    """The state behind a kill; returns the cached tokens of two requests."""
    names = [entry.name for entry in os.scandir(folder / "prefixes")]
    left = [name for name in names if name.endswith(".tmp")]
    assert not left, f"left over: {left}"
    size = sum(entry.stat().st_size for entry in os.scandir(folder / "prefixes") if entry.name != "lock")
    assert size <= LIMIT, f"{size} bytes on disk, at most {LIMIT} expected"
    cached = 0
    for case in draw.sample(CASES, 2):
        got, n = ask(server, case)
        assert same(got, expected[case]), f"{case}: {got}, expected {expected[case]}"
        cached += n
    damaged = [line for line in server.lines if " removed: " in line]
    assert not damaged, damaged  # renamed entries are whole: a kill is no power cut
    return cached


def main():
    print(f"seed {SEED}, {ROUNDS} rounds", flush=True)
    draw = random.Random(SEED)
    expected = references()
    hits = 0
    with tempfile.TemporaryDirectory() as base:
        folder = pathlib.Path(base) / "cache"
        for number in range(ROUNDS + 1):
            server = Server(FLARE, "--cache-dir", str(folder), "--cache-disk", str(LIMIT))
            try:
                hits += check_start(server, folder, draw, expected) > 0
                askers = [threading.Thread(target=keep_asking, args=(server, random.Random(draw.random())))
                          for _ in range(3)]
                for asker in askers:
                    asker.start()
                time.sleep(draw.random() ** 2 * 1.5)  # the random moment, not a wait for anything
            finally:
                server.kill()
            for asker in askers:
                asker.join()
    assert hits > ROUNDS // 4, f"only {hits} starts found anything: the test says nothing"
    print(f"{hits} of {ROUNDS + 1} starts went on from what was on disk")


main()
