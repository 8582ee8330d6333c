#!/usr/bin/python3
# What an operator sees of `flare run`: /metrics, /v1/flare/status, the request log.
#
# usage: observe_test.py FLARE [unittest arguments]
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import prometheus_text
from flare_process import PATIENCE_S, Server, events

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
SECRET = "xylophone-9481"
LONG = {"messages": USER, "ignore_eos": True, "max_tokens": 4000, "temperature": 0}

# serving.md S13.1 and S13.2, by hand.
FAMILIES = {
    "counter": """requests_total http_responses_total prompt_tokens_total cached_prompt_tokens_total
        prefill_tokens_total generation_tokens_total reasoning_tokens_total spec_rounds_total draft_tokens_total
        accepted_tokens_total accepted_at_position_total prefix_queried_tokens_total prefix_hit_tokens_total
        prefix_miss_total evictions_total preemptions_total constraint_dead_ends_total tool_calls_total
        images_total""",
    "gauge": """requests_running requests_waiting requests_prefilling http_connections kv_pages kv_usage_ratio
        state_rows snapshots build_info memory_bytes""",
    "histogram": """ttft_seconds inter_token_seconds request_seconds queue_seconds prefill_seconds decode_seconds
        step_seconds constraint_compile_seconds"""}
ALIASES = {
    "counter": """prompt_tokens_total generation_tokens_total prefix_cache_queries_total prefix_cache_hits_total
        num_preemptions_total request_success_total spec_decode_num_draft_tokens_total
        spec_decode_num_accepted_tokens_total""",
    "gauge": """num_requests_running num_requests_waiting kv_cache_usage_perc gpu_cache_usage_perc
        cache_config_info""",
    "histogram": """time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds
        request_queue_time_seconds"""}


def raw(server, method, path):
    connection = server.connect()
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def scrape(server):
    response, body = raw(server, "GET", "/metrics")
    assert response.status == 200, body
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return prometheus_text.parse(body.decode())


def until(server, met):
    """Scrapes until `met(families)`; what counts the end of a request may follow its answer."""
    for _ in range(1000):
        families = scrape(server)
        if met(families):
            return families
    raise AssertionError("it never came")


class Reader(unittest.TestCase):
    """The reader refuses what the format forbids: a test that could not fail would be none."""

    def test_it_refuses_malformed_text(self):
        head = "# HELP a_total x\n# TYPE a_total counter\n"
        prometheus_text.parse(head + 'a_total{b="c\\"\\\\\\n"} 1\n')
        for text in (head + "a_total 1", head + "a_total NaN\n", head + "a_total -1\n", head + "a_total  1\n",
                     head + "a_total{b=\"c} 1\n", head + "a_total{b=\"\\x\"} 1\n", head + "b_total 1\n",
                     head + "a_total 1\na_total 1\n", "a_total 1\n", head + head, head + "a_total{1b=\"c\"} 1\n",
                     "# HELP a x\n# TYPE a counter\na 1\n", "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\n"
                     "h_count 1\n",
                     "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n"):
            with self.subTest(text=text), self.assertRaises(prometheus_text.Malformed):
                prometheus_text.parse(text)

    def test_it_sees_counters_fall(self):
        head = "# HELP a_total x\n# TYPE a_total counter\n"
        before, after = (prometheus_text.parse(head + f"a_total {n}\n") for n in (2, 1))
        self.assertEqual(len(prometheus_text.fallen(before, after)), 1)
        self.assertEqual(prometheus_text.fallen(after, before), [])


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE, "--model-id", 'odd"name"\\')

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def growth(self, before, after, name, suffix="", **labels):
        def sum_of(families):
            family = families["flare_" + name]
            return sum(v for (sample, have), v in family.samples.items()
                       if sample == family.name + suffix and set(labels.items()) <= set(have))
        return sum_of(after) - sum_of(before)

    def test_all_families_have_their_types(self):
        families = scrape(self.server)
        for prefix, expected in (("flare_", FAMILIES), ("vllm:", ALIASES)):
            for kind, names in expected.items():
                for name in names.split():
                    self.assertEqual(families[prefix + name].type, kind, name)
        for prefix in ("", "flare_"):
            self.assertGreater(families[prefix + "process_resident_memory_bytes"].value(), 1e6)
            self.assertGreater(families[prefix + "process_open_fds"].value(), 3)
            until(self.server, lambda f, name=prefix + "process_cpu_seconds_total": f[name].value() > 0)

    def test_labels_are_escaped(self):
        families = scrape(self.server)
        (_, labels), = families["vllm:num_requests_running"].samples
        self.assertEqual(dict(labels), {"model_name": 'odd"name"\\'})
        (_, labels), = families["flare_build_info"].samples
        self.assertEqual(dict(labels)["model"], 'odd"name"\\')

    def test_b048_counters_follow_what_clients_are_told(self):
        before = scrape(self.server)
        usages = []
        prompt = USER[0]["content"] + " " + "one two three four " * 20
        for _ in range(2):
            status, _, body = self.server.chat(messages=[{"role": "user", "content": prompt}], max_tokens=9,
                                               temperature=0, ignore_eos=True)
            self.assertEqual(status, 200)
            usages.append(body["usage"])
        self.assertEqual(self.server.request("GET", "/health")[0], 200)
        self.assertEqual(self.server.chat(messages="none")[0], 400)
        after = scrape(self.server)
        self.assertEqual(prometheus_text.fallen(before, after), [])

        def total(key, detail=None):
            return sum(u[key][detail] if detail else u[key] for u in usages)

        cached = total("prompt_tokens_details", "cached_tokens")
        self.assertGreater(cached, 0)
        for name, expected in (("prompt_tokens_total", total("prompt_tokens")),
                               ("cached_prompt_tokens_total", cached), ("prefix_hit_tokens_total", cached),
                               ("generation_tokens_total", total("completion_tokens")),
                               ("prefill_tokens_total", total("prompt_tokens") - cached),
                               ("prefix_queried_tokens_total", total("prompt_tokens"))):
            self.assertEqual(self.growth(before, after, name), expected, name)
        self.assertEqual(self.growth(before, after, "requests_total", api="chat", outcome="completed"), 2)
        self.assertEqual(self.growth(before, after, "requests_total", api="chat", outcome="rejected"), 1)
        self.assertEqual(self.growth(before, after, "requests_total"), 3)
        route = "/v1/chat/completions"
        self.assertEqual(self.growth(before, after, "http_responses_total", route=route, status="200"), 2)
        self.assertEqual(self.growth(before, after, "http_responses_total", route=route, status="400"), 1)
        self.assertEqual(self.growth(before, after, "http_responses_total", route="/health"), 1)
        for name in ("ttft_seconds", "request_seconds", "queue_seconds", "prefill_seconds", "decode_seconds"):
            self.assertEqual(self.growth(before, after, name, "_count"), 2, name)
        self.assertEqual(self.growth(before, after, "inter_token_seconds", "_count"),
                         total("completion_tokens") - 2)
        self.assertGreaterEqual(self.growth(before, after, "step_seconds", "_count", kind="decode"), 16)
        self.assertIn(self.growth(before, after, "prefix_miss_total"), (1, 2))  # the first one at least

    def test_timings_come_with_every_chunk_if_asked(self):
        names = ["prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_second",
                 "cache_n", "draft_n", "draft_n_accepted", "queue_ms", "ttft_ms"]
        connection, response = self.server.open_stream(messages=USER, max_tokens=6, ignore_eos=True,
                                                       timings_per_token=True)
        chunks = list(events(response))
        connection.close()
        self.assertEqual(chunks.pop(), "[DONE]")
        timed = [c["timings"] for c in chunks[1:]]
        for timings in timed:
            self.assertEqual(list(timings), names)
        counts = [t["predicted_n"] for t in timed]
        self.assertEqual((counts, counts[-1]), (sorted(counts), 6))
        self.assertLess(counts[0], 6)
        self.assertEqual(len({t["ttft_ms"] for t in timed}), 1)
        for extra, expected in (({"timings": True}, 1), ({}, 0)):
            connection, response = self.server.open_stream(messages=USER, max_tokens=6, **extra)
            self.assertEqual(sum("timings" in c for c in events(response) if c != "[DONE]"), expected)
            connection.close()

    def test_progress_of_the_prompt_comes_if_asked(self):
        question = [{"role": "user", "content": "a b c " * 120}]
        for _ in range(2):  # the second one finds it in the cache
            connection, response = self.server.open_stream(messages=question, max_tokens=2, return_progress=True,
                                                           stream_options={"include_usage": True})
            chunks = list(events(response))
            connection.close()
            usage = chunks[-2]["usage"]
            told = [c for c in chunks[:-2] if "prompt_progress" in c]
            self.assertEqual(chunks[1:1 + len(told)], told)  # behind the role, before any text
            for chunk in told:
                self.assertEqual([c["delta"] for c in chunk["choices"]], [{}])
                self.assertEqual(list(chunk["prompt_progress"]), ["total", "cached", "processed", "time_ms"])
            told = [c["prompt_progress"] for c in told]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            self.assertEqual({(t["total"], t["cached"]) for t in told}, {(usage["prompt_tokens"], cached)})
            processed, times = ([t[name] for t in told] for name in ("processed", "time_ms"))
            self.assertEqual((processed[0], processed[-1]), (cached, usage["prompt_tokens"]))
            self.assertEqual(processed, sorted(set(processed)))
            self.assertEqual((times[0], times), (0, sorted(times)))
        status, _, body = self.server.chat(messages=USER, max_tokens=2, return_progress=True)
        self.assertEqual((status, "prompt_progress" in body), (200, False))
        connection, response = self.server.open_stream(messages=USER, max_tokens=2)
        self.assertFalse(any("prompt_progress" in c for c in events(response) if c != "[DONE]"))
        connection.close()

    def test_scraping_has_no_effect(self):
        first = scrape(self.server)
        for _ in range(3):
            raw(self.server, "HEAD", "/metrics")
        last = scrape(self.server)
        for name, family in first.items():
            if "process_" not in name and family.type != "gauge":
                self.assertEqual(family.samples, last[name].samples, name)

    def while_one_runs(self, look):
        """What `look` returns while a stream runs whose client then leaves, and the growth by it. A machine so busy
        that the answer ends by itself before that gives another try."""
        for _ in range(5):
            before = scrape(self.server)
            connection, response = self.server.open_stream(**LONG)
            for event in events(response):  # the head comes when the request is admitted
                if event["choices"][0]["delta"].get("content"):
                    break
            seen = look()
            response.close()
            connection.close()
            after = until(self.server, lambda f: self.growth(before, f, "requests_total") == 1)
            if self.growth(before, after, "requests_total", outcome="cancelled") == 1:
                return seen, after
        self.fail("no request was cancelled")

    def test_b038_a_request_whose_client_left_counts_as_cancelled(self):
        running, after = self.while_one_runs(lambda: scrape(self.server))
        self.assertEqual(running["flare_requests_running"].value(), 1)
        self.assertEqual(running["flare_state_rows"].value(state="active"), 1)
        self.assertEqual(after["flare_requests_running"].value(), 0)
        self.assertEqual(after["flare_state_rows"].value(state="active"), 0)
        self.assertEqual(after["flare_kv_usage_ratio"].value(), 0)

    def test_paths_of_clients_make_no_labels(self):
        for i in range(5):
            self.assertEqual(self.server.request("GET", f"/nowhere/{i}")[0], 404)
        families = scrape(self.server)
        routes = {dict(labels)["route"] for _, labels in families["flare_http_responses_total"].samples}
        self.assertTrue("other" in routes and not any("nowhere" in route for route in routes), routes)

    def test_pages_and_rows_add_up(self):
        families = scrape(self.server)
        status = self.server.request("GET", "/v1/flare/status")[2]
        self.assertEqual(families["flare_kv_pages"].total(), status["cache"]["pages"]["total"])
        self.assertEqual(families["flare_state_rows"].total(), status["cache"]["rows"]["total"])
        self.assertEqual(families["flare_memory_bytes"].total(), status["memory"]["planned_bytes"])

    def test_the_status_says_who_runs(self):
        def decoding():  # a token may be on the wire before the step that drew it has ended
            for _ in range(200):
                status = self.server.request("GET", "/v1/flare/status")[2]
                if status["requests"] and status["requests"][0]["phase"] == "decode":
                    break
            return status
        status, _ = self.while_one_runs(decoding)
        row, = status["requests"]
        self.assertEqual((status["state"], status["queue"]["running"]), ("ready", 1))
        self.assertEqual(row["phase"], "decode")
        self.assertEqual(row["read_tokens"], row["prompt_tokens"])
        self.assertGreaterEqual(row["generated_tokens"], 1)
        self.assertEqual(self.server.request("GET", "/v1/flare/status")[2]["requests"], [])


class Flags(unittest.TestCase):
    def setUp(self):
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.kill()

    def server(self, *flags):
        self.servers.append(Server(FLARE, *flags))
        return self.servers[-1]

    def test_aliases_can_be_left_out(self):
        names = set(scrape(self.server("--no-metric-aliases")))
        self.assertTrue(names)
        self.assertTrue(all(name.startswith("flare_") for name in names), names)

    def test_a_key_is_needed_unless_metrics_are_public(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("a-long-enough-key operator\n")
            keys.chmod(0o600)
            guarded = self.server("--api-key-file", str(keys))
            self.assertEqual(raw(guarded, "GET", "/metrics")[0].status, 401)
            self.assertEqual(raw(guarded, "GET", "/v1/flare/status")[0].status, 401)
            public = self.server("--api-key-file", str(keys), "--metrics-public")
            scrape(public)
            self.assertEqual(raw(public, "GET", "/v1/flare/status")[0].status, 401)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class RequestLog(unittest.TestCase):
    def test_it_has_every_request_once_and_no_text(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "requests.jsonl")
            server = Server(FLARE, "--request-log", str(log))
            try:
                secret = [{"role": "user", "content": SECRET}]
                _, headers, body = server.chat(messages=secret, max_tokens=5, temperature=0, seed=7)
                self.assertEqual(server.chat(messages=SECRET)[0], 400)
                hostile = 'x"}{"v":1,"event":"request_done"}'
                server.request("POST", "/v1/chat/completions", {"messages": secret, "max_tokens": 2},
                               {"x-request-id": hostile.replace(" ", "")})
                connection, response = server.open_stream(messages=secret, max_tokens=3)
                list(events(response))
                connection.close()
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()
            self.assertNotIn(SECRET, log.read_text())
            self.assertEqual(log.stat().st_mode & 0o777, 0o600)
            lines = lines_of(log)
            self.assertEqual({line["v"] for line in lines}, {1})
            for line in lines:
                self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            kinds = [line["event"] for line in lines]
            self.assertEqual((kinds[0], kinds[-1]), ("server_start", "server_stop"))
            for kind, times in (("request_start", 3), ("request_done", 3), ("request_rejected", 1)):
                self.assertEqual(kinds.count(kind), times, kinds)
            done = [line for line in lines if line["event"] == "request_done"]
            first = next(d for d in done if d["id"] == headers["x-request-id"])
            self.assertEqual((first["status"], first["outcome"], first["seed"]), (200, "completed", 7))
            self.assertEqual(first["finish"], body["choices"][0]["finish_reason"])
            self.assertEqual(first["prompt_tokens"], body["usage"]["prompt_tokens"])
            self.assertEqual(first["completion_tokens"], body["usage"]["completion_tokens"])
            self.assertEqual(first["cached_tokens"], 0)
            for key in ("queue_ms", "prefill_ms", "decode_ms", "ttft_ms", "total_ms"):
                self.assertGreaterEqual(first[key], 0)
            self.assertIn(hostile, [d["id"] for d in done])
            rejected, = [line for line in lines if line["event"] == "request_rejected"]
            self.assertEqual((rejected["status"], rejected["api"]), (400, "chat"))

    def test_a_file_that_cannot_be_made_is_told_at_once(self):
        done = subprocess.run([FLARE, "run", "--port", "0", "--request-log", "/no/such/folder/log"],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 3)
        self.assertIn("--request-log '/no/such/folder/log': cannot be opened", done.stderr)

    def test_it_is_opened_again_on_sighup(self):
        with tempfile.TemporaryDirectory() as folder:
            log, old = pathlib.Path(folder, "log"), pathlib.Path(folder, "old")
            server = Server(FLARE, "--request-log", str(log))
            try:
                server.chat(messages=USER, max_tokens=1)
                log.rename(old)
                server.process.send_signal(signal.SIGHUP)
                while not log.exists():
                    server.reader.join(0.01)
                server.chat(messages=USER, max_tokens=1)
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()
            both = [line["event"] for path in (old, log) for line in lines_of(path)]
            self.assertEqual(both.count("request_done"), 2, both)
            self.assertIn("server_start", [line["event"] for line in lines_of(old)])
            self.assertIn("server_stop", [line["event"] for line in lines_of(log)])


if __name__ == "__main__":
    unittest.main()
