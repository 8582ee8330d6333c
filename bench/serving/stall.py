#!/usr/bin/env python3
"""How long running answers stall while a long prompt is read.

Streams run on a server; then one long prompt (or several at once) comes. Prints the time between
tokens of the streams before and meanwhile, and their ratio. Target: p99 meanwhile at most twice
the median before. What a thread of this program that does nothing sees of the machine is
printed beside it.

  flare run CHECKPOINT --recipe q4 --port 8124 &
  bench/serving/stall.py --port 8124
"""

import argparse
import http.client
import json
import random
import statistics
import threading
import time

WORDS = ("the of and to in a is that it for on with as was at by an be this from or had not are but "
         "what all were when we there can").split()


def text(n_words, seed):
    r = random.Random(seed)
    return " ".join(r.choice(WORDS) for _ in range(n_words))


def plain_ids(port):
    """Ids of whole words: with any others a chunk may wait for the rest of a character."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/tokenize", json.dumps({"content": " ".join(WORDS)}),
                       {"content-type": "application/json"})
    return sorted(set(json.loads(connection.getresponse().read())["tokens"]))


class Stream(threading.Thread):
    """One streamed answer: when its tokens came, and its usage. Nothing is cached for it."""

    def __init__(self, port, ids, prompt, max_tokens):
        super().__init__(daemon=True)
        self.stamps, self.usage = [], None
        self.port = port
        self.body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
                     "temperature": 1, "ignore_eos": True, "allowed_token_ids": ids, "stream": True,
                     "cache_salt": f"{random.random()}", "stream_options": {"include_usage": True}}

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body),
                           {"content-type": "application/json"})
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise SystemExit(f"the server answered {chunk['error']}")
            if chunk.get("usage"):
                self.usage = chunk["usage"]
            elif chunk["choices"][0]["delta"].get("content"):
                self.stamps.append(time.perf_counter())
        connection.close()

    def gaps(self, begin, end):
        return [(b - a) * 1e3 for a, b in zip(self.stamps, self.stamps[1:]) if begin <= a < end]


def idle_stalls(stop, gaps):
    """What a process that does nothing sees of the machine."""
    last = time.perf_counter()
    while not stop.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        gaps.append((now - last) * 1e3)
        last = now


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def line(name, values):
    print(f"{name:22} n {len(values):5}  median {statistics.median(values):7.1f}  "
          f"p90 {quantile(values, 0.9):7.1f}  p99 {quantile(values, 0.99):7.1f}  max {max(values):7.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=400, help="of each stream")
    parser.add_argument("--words", type=int, default=5000, help="of a long prompt")
    parser.add_argument("--prompts", type=int, default=1, help="long prompts at once")
    parser.add_argument("--before", type=float, default=4, help="seconds of streams alone")
    flags = parser.parse_args()

    ids = plain_ids(flags.port)
    streams = [Stream(flags.port, ids, text(50, i), flags.tokens) for i in range(flags.streams)]
    for stream in streams:
        stream.start()
    time.sleep(flags.before)
    stop, idle = threading.Event(), []
    watcher = threading.Thread(target=idle_stalls, args=(stop, idle), daemon=True)
    begin = time.perf_counter()
    prompts = [Stream(flags.port, ids, text(flags.words, 99 + i), 2) for i in range(flags.prompts)]
    watcher.start()
    for prompt in prompts:
        prompt.start()
    for prompt in prompts:
        prompt.join()
    end = max(prompt.stamps[0] if prompt.stamps else time.perf_counter() for prompt in prompts)
    stop.set()
    for stream in streams:
        stream.join()

    before = [gap for stream in streams for gap in stream.gaps(begin - flags.before + 1, begin)]
    during = [gap for stream in streams for gap in stream.gaps(begin, end)]
    # Streams grow, and so does what each of their tokens reads.
    after = [gap for stream in streams for gap in stream.gaps(end, min(s.stamps[-1] for s in streams))]
    for prompt in prompts:
        first = prompt.stamps[0] - begin if prompt.stamps else float("nan")
        print(f"long prompt            {prompt.usage['prompt_tokens']} tokens, first token after {first:.1f} s")
    if not before or not during:
        raise SystemExit("too few tokens: more --tokens or a shorter prompt")
    line("between tokens before", before)
    line("between tokens during", during)
    if after:
        line("between tokens after", after)
    line("an idle thread here", idle)
    print(f"p99 during / median before  {quantile(during, 0.99) / statistics.median(before):.2f}  (target: 2)")


if __name__ == "__main__":
    main()
