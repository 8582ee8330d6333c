#!/usr/bin/python3
# A server under many unlike clients for a long time: it neither grows, nor loses a page or a row (it checks
# itself behind every step), nor fails, and greedy answers stay those of a quiet server.
#
# usage: soak_test.py FLARE [--minutes M] [--clients N] [--seed S] [--model MODEL] [--report FILE.json]
import argparse
import base64
import collections
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import flare_process  # noqa: E402
from flare_process import Server, events  # noqa: E402

flare_process.PATIENCE_S = 1200  # other tests may have the machine

JSON = {"Content-Type": "application/json"}
WORDS = "the sun is warm and a cat sat on one red box while Mia went home to read ten more books".split()
QUESTIONS = ["Hello!", "Who are you?", "What is the capital of Spain?", "What is 125 + 340?",
             "How is the weather in Paris?", "Tell me a story about Mia."]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
SCHEMA = {"type": "object", "additionalProperties": False, "required": ["a", "b"],
          "properties": {"a": {"enum": [1, 2, 3]}, "b": {"type": "string", "maxLength": 9}}}
STORED_RESPONSES = 1024  # as many as the server keeps
WARM_SHARE = 0.3       # of the time, before memory is looked at
MAX_GROWTH = 0.02      # of resident memory behind that
MAX_ABOVE_PLAN = 0.03  # of it over the printed plan
NOISE_BYTES = 2 << 20  # of the allocator and of threads' stacks, whatever the size of the model
LOOK_S = 0.5           # between two looks at memory
LOOKS_PER_RELOAD = 10  # every so many looks the server is told to read its settings again


class Soak:
    def __init__(self, options, server):
        self.options, self.server = options, server
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.failures = []
        self.resident = []  # (seconds since the start, bytes)
        self.expected = {q: self.greedy(q) for q in QUESTIONS}
        self.routes = [r for r in ("/v1/messages", "/v1/responses") if self.has(r)]
        self.fill()
        self.begin = time.monotonic()
        self.end = self.begin + 60 * options.minutes

    def has(self, route):
        return self.server.request("POST", route, {})[0] != 404

    # ---- what clients do; each returns the statuses it may see, and fails by an exception

    def body(self, question, **fields):
        return dict({"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 60}, **fields)

    def post(self, path, body):
        status, _, answer = self.server.request("POST", path, body)
        self.count(path, status)
        return status, answer

    def greedy(self, question):
        status, _, answer = self.server.chat(**self.body(question))
        assert status == 200, answer
        return answer["choices"][0]["message"]["content"]

    def view(self):
        return self.server.request("GET", "/v1/flare/status")[2]

    def fill(self):
        """Writes every page, every row and every snapshot of the cache once, and fills the store of responses: that is
        planned memory, and growth behind it is none."""
        rng = random.Random(self.options.seed)

        def prompt(n_words):
            return " ".join(rng.choice(WORDS) for _ in range(n_words))

        places = self.view()["queue"]["max_concurrency"]
        with concurrent.futures.ThreadPoolExecutor(places) as pool:
            def together(n, n_words, request):
                for done in [pool.submit(request, prompt(n_words)) for _ in range(n)]:
                    done.result()

            def chat(words):
                self.post("/v1/chat/completions", self.body(words, max_tokens=1))

            # Of a hundred tokens: snapshots, where a deterministic server takes them too, and no pages.
            for n_words, is_full in ((900, lambda cache: cache["evicted_pages"]),
                                     (70, lambda cache: cache["snapshots"]["memory"] == cache["snapshots"]["most"])):
                for _ in range(200):
                    if is_full(self.view()["cache"]):
                        break
                    together(places, n_words, chat)
                else:
                    raise AssertionError(f"the cache is not full: {self.view()['cache']}")
            if "/v1/responses" in self.routes:
                together(STORED_RESPONSES, 1, self.respond)
        view = self.view()
        self.filled = {"pages": view["cache"]["pages"], "snapshots": view["cache"]["snapshots"],
                       "resident_bytes": view["memory"]["resident_bytes"],
                       "planned_bytes": view["memory"]["planned_bytes"]}
        print("filled:", json.dumps(self.filled), flush=True)

    def respond(self, words):
        self.post("/v1/responses", {"max_output_tokens": 4, "input": words})

    def whole(self, rng):
        question = rng.choice(QUESTIONS)
        status, answer = self.post("/v1/chat/completions", self.body(question))
        if status == 200:
            self.same(question, answer["choices"][0]["message"]["content"])

    def streamed(self, rng):
        question = rng.choice(QUESTIONS)
        connection, response = self.server.open_stream(**self.body(question))
        self.count("stream", response.status)
        if response.status == 200:
            text, done = "", False
            for event in events(response):
                if event == "[DONE]":
                    done = True
                elif "error" in event:
                    raise AssertionError(f"error in a stream: {event}")
                elif event["choices"]:
                    text += event["choices"][0]["delta"].get("content", "")
            assert done, "a stream ended without its end"
            self.same(question, text)
        connection.close()

    def sampled(self, rng):
        self.post("/v1/chat/completions", self.body(rng.choice(QUESTIONS), n=rng.randint(1, 3), temperature=1.2,
                                                    seed=rng.randint(0, 99)))

    def structured(self, rng):
        status, answer = self.post("/v1/chat/completions", self.body(rng.choice(QUESTIONS), response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, temperature=rng.choice([0, 1])))
        if status == 200 and answer["choices"][0]["finish_reason"] == "stop":
            assert set(json.loads(answer["choices"][0]["message"]["content"])) == {"a", "b"}

    def called(self, rng):
        status, answer = self.post("/v1/chat/completions", self.body(rng.choice(QUESTIONS), tools=[TOOL],
                                                                     tool_choice="required", max_tokens=200))
        if status == 200 and answer["choices"][0]["finish_reason"] == "tool_calls":
            json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])

    def long(self, rng):
        words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(200, 900)))
        self.post("/v1/chat/completions", self.body(words, max_tokens=8))

    def turns(self, rng):
        messages = []
        for question in rng.sample(QUESTIONS, 3):
            messages.append({"role": "user", "content": question})
            status, answer = self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 30})
            if status != 200:
                return
            messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})

    def raw(self, rng):
        self.post("/v1/completions", {"prompt": [rng.choice(QUESTIONS), [rng.randint(0, 200) for _ in range(9)]],
                                      "max_tokens": rng.randint(0, 20)})

    def other_protocol(self, rng):
        if not self.routes:
            return
        if rng.choice(self.routes) == "/v1/responses":
            return self.respond(rng.choice(QUESTIONS))
        self.post("/v1/messages", {"model": "any", "max_tokens": 20,
                                   "messages": [{"role": "user", "content": rng.choice(QUESTIONS)}]})

    def leaves(self, rng):
        connection, response = self.server.open_stream(**self.body("Tell me a story about Mia.", max_tokens=2000,
                                                                   ignore_eos=True))
        self.count("leaves", response.status)
        for _ in range(rng.randint(0, 6)):
            response.readline()
        connection.close()

    def vanishes(self, rng):
        body = json.dumps(self.body("Hello!")).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
               f"Content-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as s:
            s.sendall((head + body)[:rng.randint(1, len(head) + len(body))])
        self.count("vanishes", 0)

    def malformed(self, rng):
        body = rng.choice([b"{", b"[]", b"\xff\xfe", b'{"messages": 5}', b'{"messages": [{"role": "alien"}]}',
                           b"[" * 100000, rng.randbytes(rng.randint(0, 3000)), b'{"a": 1, "a": 2}',
                           json.dumps(self.body("x", temperature="hot")).encode(),
                           json.dumps(self.body("x", response_format={"type": "json_schema"})).encode()])
        status, answer = self.post("/v1/chat/completions", body)
        assert status == 415 or 400 <= status < 500 and answer["error"]["code"], answer

    def bad_image(self, rng):
        data = base64.b64encode(rng.choice([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF"]) +
                                rng.randbytes(rng.randint(0, 500))).decode()
        content = [{"type": "text", "text": "What is it?"},
                   {"type": "image_url", "image_url": {"url": rng.choice(["data:image/png;base64," + data, "http://x/y.png",
                                                                          "data:image/png;base64,%%%"])}}]
        status, answer = self.post("/v1/chat/completions", self.body(content))
        assert status == 400, answer

    def looks(self, rng):
        path = rng.choice(["/health", "/ready", "/v1/models", "/version", "/nothing", "/metrics", "/v1/flare/status"])
        connection = self.server.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        connection.close()
        self.count(path, 200 if path == "/ready" and response.status == 503 else response.status)

    def dawdles(self, rng):
        connection, response = self.server.open_stream(**self.body("Tell me a story about Mia.", max_tokens=40))
        self.count("dawdles", response.status)
        for _ in range(5):
            time.sleep(rng.random() / 5)
            response.readline()
        response.read()
        connection.close()

    ACTIONS = [(whole, 6), (streamed, 6), (sampled, 3), (structured, 3), (called, 2), (long, 3), (turns, 2), (raw, 2),
               (other_protocol, 3), (leaves, 5), (vanishes, 2), (malformed, 3), (bad_image, 1), (looks, 3), (dawdles, 1)]

    # ---- bookkeeping

    def count(self, what, status):
        with self.lock:
            self.counts[status] += 1
        if status >= 500:
            raise AssertionError(f"{what}: status {status}")

    def same(self, question, text):
        if text != self.expected[question]:
            raise AssertionError(f"{question!r}: {text!r} instead of {self.expected[question]!r}")

    def stopped(self):
        return time.monotonic() >= self.end or len(self.failures) >= 20 or self.server.process.poll() is not None

    def client(self, number):
        rng = random.Random(self.options.seed * 1000 + number)
        actions, weights = zip(*self.ACTIONS)
        while not self.stopped():
            action = rng.choices(actions, weights)[0]
            try:
                action(self, rng)
            except (AssertionError, ValueError, KeyError, OSError, http.client.HTTPException) as failure:
                with self.lock:
                    self.failures.append(f"{action.__name__}: {type(failure).__name__}: {failure}"[:400])

    def watch(self):
        while not self.stopped():
            status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
            self.resident.append((time.monotonic() - self.begin, 1024 * int(re.search(r"VmRSS:\s*(\d+)", status)[1])))
            if len(self.resident) % LOOKS_PER_RELOAD == 0:
                self.server.process.send_signal(signal.SIGHUP)
            time.sleep(LOOK_S)

    def run(self):
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(self.options.clients)]
        threads.append(threading.Thread(target=self.watch))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def growth(self):
        """Bytes of resident memory at the end of warming up, and at the end: medians of a tenth of the time each."""
        total = self.resident[-1][0]
        warm = [b for t, b in self.resident if WARM_SHARE <= t / total < WARM_SHARE + 0.1]
        late = [b for t, b in self.resident if t / total >= 0.9]
        return statistics.median(warm), statistics.median(late)

    def settle(self):
        """The server's view of itself when nothing runs any more; None where it has none."""
        for _ in range(600):
            status, _, view = self.server.request("GET", "/v1/flare/status")
            if status == 404:
                return None
            if not view["queue"]["running"] and not view["queue"]["waiting"]:
                return view
            time.sleep(0.1)
        raise AssertionError("requests that nobody waits for go on")


def lost_memory(view):
    """What an idle server still holds for nobody."""
    if view is None:
        return []
    pages, rows = view["cache"]["pages"], view["cache"]["rows"]
    wrong = [f"{kind} {k}: {counts[k]}" for kind, counts in (("pages", pages), ("rows", rows))
             for k in ("active",) if counts[k] != 0]
    if pages["total"] != pages["cached"] + pages["free"]:
        wrong.append(f"pages: {pages}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("flare")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model")
    parser.add_argument("--check-plan", action="store_true", help="for builds without sanitizers, whose memory no plan has")
    parser.add_argument("--report")
    options = parser.parse_args()
    flags = ([options.model] if options.model else []) + ["--max-concurrency", "8", "--log-level", "error", "--no-dashboard",
                                                         "--deterministic", "--audit", "--max-pending", "256",
                                                         "--pending-timeout", "0"]
    soak = Soak(options, Server(options.flare, *flags))
    soak.run()
    if soak.server.process.poll() is not None:
        print("FAIL: the server is gone:", *soak.failures[:3], *soak.server.lines[-20:], sep="\n")
        sys.exit(1)
    view = soak.settle()
    again = {q: soak.greedy(q) for q in QUESTIONS}
    code = soak.server.stop()
    warm, late = soak.growth()
    report = {"minutes": options.minutes, "filled": soak.filled, "clients": options.clients, "statuses": dict(sorted(soak.counts.items())),
              "resident_warm": warm, "resident_late": late, "growth": late / warm - 1, "resident": soak.resident[::20], "exit_code": code,
              "status": view, "failures": soak.failures}
    if options.report:
        pathlib.Path(options.report).write_text(json.dumps(report, indent=1))
    print(f"{sum(soak.counts.values())} requests in {options.minutes} min: {report['statuses']}; resident "
          f"{warm / 1e6:.1f} MB warm, {late / 1e6:.1f} MB at the end ({100 * report['growth']:+.1f} %)")
    wrong = list(soak.failures) + lost_memory(view)
    if again != soak.expected:
        wrong.append("greedy answers afterwards are not those before")
    if late > warm * (1 + MAX_GROWTH) + NOISE_BYTES:
        wrong.append(f"resident memory grew by {100 * report['growth']:.1f} %")
    planned = soak.filled["planned_bytes"]
    if options.check_plan and late > planned * (1 + MAX_ABOVE_PLAN) + NOISE_BYTES:
        wrong.append(f"{late / 1e6:.1f} MB are resident, {planned / 1e6:.1f} MB were planned")
    if code != 0:
        wrong.append(f"exit code {code}")
    wrong += [line for line in soak.server.lines if "error" in line.lower()][:20]
    for what in wrong:
        print("FAIL:", what)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
