#!/usr/bin/python3
"""Times what the prefix cache saves an agent: first tokens of growing conversations.

Usage: agent_session.py FLARE MODEL [--system N] [--turn N] [--turns N] [--sessions N]
                        [--session-turns N] [--restart DIR] [-- flags of flare run]

Starts a server of its own and prints, for every request, prompt tokens, those from the cache and
the time to the first token, then each measure as per cent of reading the same prompt cold:
  turns      one conversation whose client writes other answers into its history than it was given
  sessions   N such conversations with one system prompt, turn and turn about
  restart    the conversation again behind a restart with --cache-dir DIR
MODEL needs a tokenizer; random weights do (bench/e2e/random_checkpoint.py, with the tokenizer files
of models/nano beside them).
"""
import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

WORDS = ("the of and to in a is that it for on with as was at by an be this from or had not are but what all "
         "were when we there can").split()


def text(n, seed):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(n))


class Server:
    def __init__(self, flare, model, flags):
        self.process = subprocess.Popen([flare, "run", model, "--port", "0", *flags], stderr=subprocess.PIPE,
                                        text=True, cwd="/")
        for line in self.process.stderr:
            ready = re.match(r"ready http://[^ ]+:(\d+) ", line)
            if ready:
                self.port = int(ready[1])
                return
            if "memory" in line or "cache-dir" in line or "model " in line:
                print("  " + line.rstrip())
        sys.exit("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.communicate()

    def first_token(self, messages, **fields):
        """Seconds to the first token, and the last chunk's usage."""
        body = dict(messages=messages, max_tokens=4, stream=True, temperature=0, ignore_eos=True,
                    stream_options={"include_usage": True}, timings=True, **fields)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        timings = usage = None
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                chunk = json.loads(line[len("data: "):])
                usage = chunk.get("usage") or usage
                timings = chunk.get("timings") or timings
        total = time.perf_counter() - begin
        connection.close()
        # Text of random weights may come late or never: the server's own clock ends with the first token.
        return total - timings["predicted_ms"] / 1000, usage


def measure(server, name, messages, **fields):
    seconds, usage = server.first_token(messages, **fields)
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    print(f"  {name:24} prompt {usage['prompt_tokens']:6} cached {cached:6} first token {seconds * 1000:8.0f} ms",
          flush=True)
    return seconds


def conversation(system, turn, n, who=0):
    """n turns, the last one the user's."""
    messages = [{"role": "system", "content": text(system, 1)}]
    for i in range(n):
        if i > 0:
            messages.append({"role": "assistant", "content": text(40, 1000 * who + 500 + i)})
        messages.append({"role": "user", "content": text(turn, 1000 * who + i)})
    return messages


def share(name, warm, cold):
    print(f"{name}: {warm * 1000:.0f} ms of {cold * 1000:.0f} ms cold = {100 * warm / cold:.1f} %", flush=True)


def run_turns(server, a):
    for i in range(1, a.turns + 1):
        last = measure(server, f"turn {i}", conversation(a.system, a.turn, i), session="agent")
    cold = measure(server, "cold", conversation(a.system, a.turn, a.turns), cache_salt="cold")
    share(f"turn {a.turns}", last, cold)
    return cold


def run_sessions(server, a):
    for turn in range(1, a.session_turns + 1):
        warm = [measure(server, f"session {who}, turn {turn}", conversation(a.system, a.turn, turn, who),
                        session=f"s{who}") for who in range(1, a.sessions + 1)]
    cold = measure(server, "cold", conversation(a.system, a.turn, a.session_turns, 1), cache_salt="cold sessions")
    share(f"turn {a.session_turns} of {a.sessions} sessions, the median", statistics.median(warm), cold)
    share(f"turn {a.session_turns} of {a.sessions} sessions, the slowest", max(warm), cold)


def main():
    own, _, flags = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("flare")
    parser.add_argument("model")
    parser.add_argument("--system", type=int, default=2700, help="words of the system prompt")
    parser.add_argument("--turn", type=int, default=230, help="words of a user's turn")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=0)
    parser.add_argument("--session-turns", type=int, default=10, help="of each of --sessions")
    parser.add_argument("--restart", help="folder for --cache-dir")
    a = parser.parse_args(own.split())
    flags = flags.split()
    if a.restart:
        flags += ["--cache-dir", os.path.abspath(a.restart)]
    a.flare, a.model = os.path.abspath(a.flare), os.path.abspath(a.model)
    server = Server(a.flare, a.model, flags)
    cold = run_turns(server, a) if a.turns else 0
    if a.sessions:
        run_sessions(server, a)
    server.stop()
    if a.restart:
        server = Server(a.flare, a.model, flags)
        warm = measure(server, "behind a restart", conversation(a.system, a.turn, a.turns))
        share("restart", warm, cold)
        server.stop()


if __name__ == "__main__":
    main()
