#!/usr/bin/python3
# `flare bench` against a server of this test, which knows what it was asked and what it answered.
#
# usage: bench_test.py FLARE [unittest arguments]
import collections
import http.server
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy

from flare_process import Server

FLARE = sys.argv.pop(1)
PATIENCE_S = 120


class FakeServer(http.server.ThreadingHTTPServer):
    """Speaks just enough of the API: a prompt of n words has 2 n + 10 tokens, all but its last 8 known ones cached."""
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []          # bodies of generating requests
        self.keys = collections.Counter()
        self.lock = threading.Condition()
        self.now = self.most = 0  # requests at once
        self.rule = lambda n, body: None  # what the n-th question gets instead of an answer
        self.hold = threading.Event()     # an answer that waits for this
        self.refuses_ignore_eos = False
        self.page = None                  # what it answers to every GET instead
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def wait_for(self, n):
        """Until n questions have come."""
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.questions()) >= n, PATIENCE_S), self.asked

    def questions(self):
        """What was asked behind the two questions that find the length of words."""
        return [body for body in self.asked if body["max_tokens"] > 1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, headers=()):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if self.server.page is not None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.page)
            self.close_connection = True
            return
        self.reply(200, {"object": "list", "data": [{"id": "fake", "max_model_len": 20000}]})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            number = len(server.questions())
            server.asked.append(body)
            server.keys[self.headers.get("Authorization")] += 1
            server.now += 1
            server.most = max(server.most, server.now)
            server.lock.notify_all()
        try:
            self.answer(number, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with server.lock:
                server.now -= 1

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, body):
        self.chunk(f"data: {json.dumps(body)}\n\n")

    def answer(self, number, body):
        server = self.server
        if server.refuses_ignore_eos and "ignore_eos" in body:
            return self.reply(400, {"error": {"message": "Unrecognized request argument supplied: ignore_eos"}})
        rule = server.rule(number, body) if body["max_tokens"] > 1 else None
        if isinstance(rule, int):
            return self.reply(rule, {"error": {"message": f"refused with {rule}"}}, [("Retry-After", "0")])
        text = body.get("prompt") or "\n".join(m["content"] for m in body["messages"])
        words = len(text.split())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        say = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"delta": {"content": t}})
        self.chunk(": ping\n\n")
        self.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        for i in range(body["max_tokens"]):
            if rule == "cut" and i == 3:
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(2)
                return
            if rule == "error" and i == 3:
                self.event({"error": {"message": "it broke", "code": "engine_failed"}})
                break
            if rule == "hold" and i == 3:
                server.hold.wait(PATIENCE_S)
            if isinstance(rule, threading.Barrier) and i == 3:
                rule.wait(PATIENCE_S)
            self.event({"choices": [say(f"w{i} ")]})
        self.event({"choices": [{"delta": {}, "finish_reason": "length"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 2 * words + 10, "completion_tokens": body["max_tokens"],
                                             "prompt_tokens_details": {"cached_tokens": 8}}})
        self.chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")


def bench(*flags, code=0):
    """Result of --json, records of --output, standard error."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "bench.json"
        done = subprocess.run([FLARE, "bench", "--json", "--output", output, *flags], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        result = json.loads(done.stdout)
        return result.get("result", result), json.loads(output.read_text()) if output.exists() else None, done.stderr


def spread(values):
    p50, p90, p99, most = numpy.percentile(values, [50, 90, 99, 100])
    return {"n": len(values), "mean": numpy.mean(values), "p50": p50, "p90": p90, "p99": p99, "max": most}


class Bench(unittest.TestCase):
    def setUp(self):
        self.server = FakeServer()
        self.flags = ["--url", self.server.url, "--prompt-tokens", "500", "--output-tokens", "8"]

    def tearDown(self):
        self.server.hold.set()
        self.server.shutdown()
        self.server.server_close()

    def check_summary(self, point):
        """The summary is what its records come to, by other arithmetic."""
        good = [r for r in point["records"] if r["failure"] is None]
        self.assertEqual(point["complete"], len(good))
        self.assertEqual(point["requests"], len(point["records"]))
        for name, values in (("ttft_ms", [r["first_ms"] for r in good]), ("request_ms", [r["total_ms"] for r in good]),
                             ("inter_token_ms", [gap for r in good for gap in r["between_ms"]]),
                             ("per_output_token_ms", [(r["last_ms"] - r["first_ms"]) / (r["output_tokens"] - 1) for r in good])):
            for key, value in spread(values).items():
                self.assertAlmostEqual(point[name][key], value, delta=0.01, msg=(name, key))
        for r in good:
            self.assertAlmostEqual(r["first_ms"] + sum(r["between_ms"]), r["last_ms"], delta=0.1)
            self.assertLessEqual(r["last_ms"], r["total_ms"] + 0.001)
        tokens = sum(r["output_tokens"] for r in good)
        self.assertAlmostEqual(point["output_tokens_per_s"], tokens / sum(point["wall_s"]), delta=tokens / sum(point["wall_s"]) * 0.01)
        read = sum(r["prompt_tokens"] - r["cached_tokens"] for r in good) / sum(r["first_ms"] for r in good) * 1000
        self.assertAlmostEqual(point["prefill_tokens_per_s"], read, delta=read * 0.01)

    def test_a_closed_loop_keeps_so_many_at_once(self):
        four = threading.Barrier(4)  # none of the answers ends before four are under way
        self.server.rule = lambda n, body: four
        _, whole, _ = bench(*self.flags, "--concurrency", "4", "--requests", "12", "--repetitions", "2")
        point, = whole["points"]
        self.check_summary(point)
        self.assertEqual(point["requests"], 24)
        self.assertEqual(self.server.most, 4)
        self.assertEqual(whole["model"], "fake")
        questions = self.server.questions()
        self.assertEqual(len(questions), 24)
        for body in questions:
            self.assertEqual((body["model"], body["stream"], body["max_tokens"], body["ignore_eos"]), ("fake", True, 8, True))
        texts = [body["messages"][0]["content"] for body in questions]
        self.assertEqual(len({text[:24] for text in texts}), 24)  # nothing to find in a cache
        for r in point["records"]:
            self.assertAlmostEqual(r["prompt_tokens"], 500, delta=10)
            self.assertEqual((r["cached_tokens"], r["output_tokens"], len(r["between_ms"])), (8, 8, 7))

    def test_the_same_seed_asks_the_same(self):
        bench(*self.flags, "--concurrency", "1", "--requests", "2", "--repetitions", "1")
        first = list(self.server.asked)
        self.server.asked.clear()
        bench(*self.flags, "--concurrency", "1", "--requests", "2", "--repetitions", "1")
        self.assertEqual(first, self.server.asked)
        self.server.asked.clear()
        bench(*self.flags, "--concurrency", "1", "--requests", "2", "--repetitions", "1", "--seed", "2")
        self.assertNotEqual(first, self.server.asked)

    def test_an_open_loop_does_not_wait_for_answers(self):
        self.server.rule = lambda n, body: "hold" if n < 10 else None
        process = subprocess.Popen([FLARE, "bench", "--json", *self.flags, "--rate", "200", "--requests", "20", "--repetitions", "1"],
                                   stdout=subprocess.PIPE, text=True)
        self.server.wait_for(20)
        self.assertGreaterEqual(self.server.most, 10)
        self.server.hold.set()
        point, = json.loads(process.communicate(timeout=PATIENCE_S)[0])["result"]["points"]
        self.assertEqual((point["complete"], point["rate"], point["concurrency"]), (20, 200, None))

    def test_a_shared_prefix_is_shared_and_read_beforehand(self):
        bench(*self.flags, "--scenario", "shared-prefix", "--concurrency", "2", "--requests", "4", "--repetitions", "1")
        systems = {body["messages"][0]["content"] for body in self.server.questions()}
        self.assertEqual(len(systems), 1)
        system, = systems
        self.assertAlmostEqual(2 * len(system.split()), 500 * 7 / 8, delta=20)
        primed = [body for body in self.server.asked if body["max_tokens"] == 1 and body["messages"][0]["content"] == system]
        self.assertEqual(len(primed), 1)

    def test_an_agent_goes_on_from_its_answers(self):
        _, whole, _ = bench(*self.flags, "--scenario", "agent", "--turns", "3", "--concurrency", "2", "--repetitions", "1")
        point, = whole["points"]
        self.check_summary(point)
        self.assertEqual(sorted((r["session"], r["turn"]) for r in point["records"]), [(s, t) for s in range(2) for t in range(3)])
        self.assertEqual(point["later_turns_ttft_ms"]["n"], 4)
        by_length = collections.Counter(len(body["messages"]) for body in self.server.questions())
        self.assertEqual(by_length, {2: 2, 4: 2, 6: 2})
        longest = next(body["messages"] for body in self.server.questions() if len(body["messages"]) == 6)
        self.assertEqual([m["role"] for m in longest], ["system", "user", "assistant", "user", "assistant", "user"])
        self.assertEqual(longest[2]["content"], "".join(f"w{i} " for i in range(8)))
        self.assertEqual(len({body["messages"][0]["content"] for body in self.server.questions()}), 1)

    def test_failures_are_counted_by_kind_and_go_on(self):
        kinds = {1: 429, 2: 503, 3: "cut", 4: "error", 5: 429}
        self.server.rule = lambda n, body: kinds.get(n)
        _, whole, _ = bench(*self.flags, "--concurrency", "1", "--requests", "8", "--repetitions", "1")
        point, = whole["points"]
        self.check_summary(point)
        self.assertEqual(point["failures"], {"429": 2, "503": 1, "cut": 1, "stream_error": 1})
        self.assertEqual(point["complete"], 3)
        details = {r["failure"]: r["detail"] for r in point["records"] if r["failure"]}
        self.assertEqual((details["429"], details["stream_error"]), ("refused with 429", "it broke"))

    def test_a_slow_answer_is_a_timeout(self):
        self.server.rule = lambda n, body: "hold" if n == 0 else None
        _, whole, _ = bench(*self.flags, "--concurrency", "1", "--requests", "2", "--repetitions", "1", "--timeout", "1")
        self.assertEqual(whole["points"][0]["failures"], {"timeout": 1})
        self.assertEqual(whole["points"][0]["complete"], 1)

    def test_nothing_but_failures_is_a_failure(self):
        self.server.rule = lambda n, body: 429
        result, _, _ = bench(*self.flags, "--concurrency", "1", "--repetitions", "2", code=9)
        self.assertEqual(result["points"][0]["failures"], {"429": 2})

    def test_a_signal_ends_it_with_what_was_measured(self):
        self.server.rule = lambda n, body: "hold" if n >= 2 else None
        process = subprocess.Popen([FLARE, "bench", *self.flags, "--concurrency", "1", "--requests", "4", "--repetitions", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.server.wait_for(3)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn("2 of 3", text)
        self.assertIn("stopped: this is what was measured until then", text)

    def test_a_server_that_refuses_ignore_eos_is_asked_without(self):
        self.server.refuses_ignore_eos = True
        result, _, _ = bench(*self.flags, "--concurrency", "1", "--repetitions", "1")
        self.assertFalse(result["ignore_eos"])
        self.assertTrue(all("ignore_eos" not in body for body in self.server.questions()))

    def test_completions_and_keys(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("# ours\nsecret label\n")
            keys.flush()
            bench(*self.flags, "--endpoint", "completions", "--api-key-file", keys.name, "--concurrency", "1", "--repetitions", "1")
        self.assertEqual(set(self.server.keys), {"Bearer secret"})
        self.assertTrue(all("prompt" in body and "messages" not in body for body in self.server.asked))

    def test_prompts_beyond_the_context_are_left_out(self):
        _, whole, stderr = bench("--url", self.server.url, "--prompt-tokens", "100,30000", "--output-tokens", "4", "--concurrency", "1",
                                 "--repetitions", "1")
        self.assertEqual([p["wanted_prompt_tokens"] for p in whole["points"]], [100])
        self.assertIn("left out: 30000 prompt tokens need a context of 30004, the model has 20000", stderr)

    def test_a_server_of_something_else_is_named_as_such(self):
        for self.server.page in (b"<html>", b"", b"\xff\x00"):
            done = subprocess.run([FLARE, "bench", "--url", self.server.url], capture_output=True, text=True,
                                  timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 9, done.stderr)
            self.assertIn("/v1/models: the server answers no JSON", done.stderr)

    def test_wrong_flags_and_silent_servers(self):
        for code, flags in ((2, ["--url", "ftp://x"]), (2, ["--url", self.server.url, "--scenario", "x"]),
                            (2, ["--url", self.server.url, "--rate", "1", "--concurrency", "2"]), (2, ["--model-id", "x"]),
                            (2, ["--ca-file", "x"]), (2, ["--url", self.server.url, "--ca-file", "x"]),
                            (3, ["--url", "https://127.0.0.1:1", "--ca-file", "/nonexistent"]),
                            (2, ["models/nano", "--url", self.server.url]), (2, ["--url", self.server.url, "--concurrency", "0"]),
                            (2, ["--url", self.server.url, "--turns", "3"]), (2, ["--url", self.server.url, "--prompt-tokens", "30000"]),
                            (9, ["--url", "http://127.0.0.1:1"]), (3, ["--url", self.server.url, "--api-key-file", "/nonexistent"])):
            with self.subTest(flags=flags):
                done = subprocess.run([FLARE, "bench", *flags], capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("error: ", done.stderr)


class RealServers(unittest.TestCase):
    """Counts against our own server: what it says of each request, from outside and from within."""

    def check(self, whole, n):
        point, = whole["points"]
        self.assertEqual(point["complete"], n, point)
        for r in point["records"]:
            self.assertAlmostEqual(r["prompt_tokens"], 200, delta=30)
            self.assertEqual(r["output_tokens"], 12)
        return point

    def test_a_server_is_measured_from_outside(self):
        server = Server(FLARE)
        try:
            flags = ["--url", f"http://127.0.0.1:{server.port}", "--prompt-tokens", "200", "--output-tokens", "12", "--repetitions", "1"]
            self.check(bench(*flags, "--concurrency", "3")[1], 3)
            agent = bench(*flags, "--scenario", "agent", "--concurrency", "1", "--turns", "4")[1]["points"][0]
            self.assertEqual(agent["complete"], 4)
            later = [r for r in agent["records"] if r["turn"] > 0]
            self.assertTrue(all(r["cached_tokens"] > 0 for r in later), later)
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_https_is_spoken_with_servers_whose_certificate_is_trusted(self):
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = f"{folder}/cert.pem", f"{folder}/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=flare", "-addext",
                            "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            server = Server(FLARE, "--tls-cert", certificate, "--tls-key", key)
            try:
                flags = ["--prompt-tokens", "200", "--output-tokens", "12", "--repetitions", "1", "--concurrency", "3"]
                ours = f"https://127.0.0.1:{server.port}"
                self.check(bench("--url", ours, "--ca-file", certificate, *flags)[1], 3)
                for url, trusted in ((ours, []), (f"https://localhost:{server.port}", ["--ca-file", certificate]),
                                     (f"http://127.0.0.1:{server.port}", [])):
                    done = subprocess.run([FLARE, "bench", "--url", url, *trusted, *flags], capture_output=True, text=True,
                                          timeout=PATIENCE_S)
                    self.assertEqual(done.returncode, 9, done.stderr)
                    if url.startswith("https"):
                        self.assertIn("certificate verify failed", done.stderr)
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()

    def test_a_model_is_measured_without_a_server(self):
        _, whole, _ = bench("--prompt-tokens", "200", "--output-tokens", "12", "--repetitions", "1", "--concurrency", "2")
        self.check(whole, 2)
        self.assertEqual(whole["model"], "nano")
        self.assertGreater(whole["memory"]["peak_bytes_per_s"], 0)
        # models/nano/model.safetensors holds 5.3 million bf16 parameters, of which the draft head is not read.
        self.assertTrue(8e6 < whole["memory"]["weight_bytes"] < 11e6, whole["memory"])


if __name__ == "__main__":
    unittest.main()
