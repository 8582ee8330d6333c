#!/usr/bin/python3
# Public bug reports about servers (cases/public.md), on the wire: a test each, named after its case.
#
# usage: public_cases_test.py FLARE [unittest arguments]
import json
import sys
import threading
import time
import unittest

from flare_process import Server, events

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
STORY = [{"role": "user", "content": "Tell me a story about Mia."}]
WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
ENDLESS = {"messages": STORY, "ignore_eos": True, "temperature": 0}


class Wire(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def stream(self, **body):
        connection, response = self.server.open_stream(**body)
        self.assertEqual(response.status, 200)
        got = list(events(response))
        connection.close()
        return got

    def answered(self):
        status, _, body = self.server.chat(messages=USER, max_tokens=2)
        self.assertEqual(status, 200, body)

    def refused(self, path, body, code):
        status, _, answer = self.server.request("POST", path, body, {"Content-Type": "application/json"})
        self.assertEqual((status, answer["error"]["code"]), (400, code), answer)
        self.answered()

    def test_b005_the_usage_chunk_is_last_once_and_only_when_asked(self):
        for tools in ({}, {"tools": WEATHER}):
            got = self.stream(messages=USER, temperature=0, **tools)
            self.assertEqual([e for e in got if e != "[DONE]" and "usage" in e], [])
            got = self.stream(messages=USER, temperature=0, stream_options={"include_usage": True}, **tools)
            self.assertEqual(got[-1], "[DONE]")
            self.assertEqual([e for e in got[:-1] if "usage" in e], [got[-2]])
            self.assertEqual(got[-2]["choices"], [])
            usage = got[-2]["usage"]
            self.assertIn("cached_tokens", usage["prompt_tokens_details"])
            self.assertIn("reasoning_tokens", usage["completion_tokens_details"])

    def test_b030_an_endless_answer_ends_with_the_context(self):
        server = Server(FLARE, "--max-context", "256")
        try:
            status, _, body = server.chat(**ENDLESS)
            self.assertEqual((status, body["choices"][0]["finish_reason"]), (200, "length"))
            self.assertLessEqual(body["usage"]["total_tokens"], 256)
            self.assertEqual(body["choices"][0]["stop_reason"], "context")
            self.assertEqual(server.chat(messages=USER, max_tokens=1)[0], 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_b064_probes_answer_beside_streams_and_prompts(self):
        streams = [self.server.open_stream(**ENDLESS) for _ in range(12)]
        longest = threading.Thread(target=self.server.chat, kwargs={
            "messages": [{"role": "user", "content": "a b " * 900}], "max_tokens": 1})
        longest.start()
        for _ in range(10):
            for path in ("/health", "/live"):
                self.assertEqual(self.server.request("GET", path)[0], 200)
        for connection, _ in streams:
            connection.close()
        longest.join()

    def test_b069_broken_text_is_refused_and_not_echoed(self):
        self.refused("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "a\xffb"}]}', "invalid_encoding")
        self.refused("/v1/chat/completions", b'{"guided_regex": "(\xff", "messages": []}', "invalid_encoding")

    def test_b076_every_asked_choice_comes(self):
        _, _, body = self.server.chat(messages=STORY, n=3, temperature=1.5, seed=3, max_tokens=30)
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2])
        texts = [c["message"]["content"] for c in body["choices"]]
        self.assertGreater(len(set(texts)), 1)
        streamed = ["", "", ""]
        for event in self.stream(messages=STORY, n=3, temperature=1.5, seed=3, max_tokens=30)[:-1]:
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["delta"].get("content", "")
        self.assertEqual(streamed, texts)
        self.refused("/v1/chat/completions", json.dumps({"messages": USER, "n": 9}), "invalid_value")

    def test_b077_odd_numbers_are_greedy_or_refused(self):
        greedy = self.server.chat(messages=USER, temperature=0)[2]["choices"][0]["message"]["content"]
        for fields in ({"temperature": 1e-5}, {"top_p": 0}):
            self.assertEqual(self.server.chat(messages=USER, **fields)[2]["choices"][0]["message"]["content"], greedy)
        for fields, code in (({"temperature": -1}, "invalid_value"), ({"temperature": 1e9}, "invalid_value"),
                             ({"top_k": -5}, "invalid_value"), ({"temperature": "0.7"}, "invalid_type")):
            self.refused("/v1/chat/completions", json.dumps(dict({"messages": USER}, **fields)), code)
        status, headers, _ = self.server.chat(messages=USER, max_tokens=1, frobnicate=5)
        self.assertEqual((status, headers["x-flare-ignored"]), (200, "frobnicate"))
        answers = []

        def ask(temperature):
            body = self.server.chat(messages=USER, temperature=temperature, max_tokens=20)[2]
            answers.append((temperature, body["choices"][0]["message"]["content"]))
        threads = [threading.Thread(target=ask, args=(t,)) for t in (0, 100, 0, 50, 0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({text for t, text in answers if t == 0}, {greedy})

    def test_b095_no_choice_of_no_tools_is_fine(self):
        plain = self.server.chat(messages=USER, temperature=0)[2]["choices"][0]["message"]
        for fields in ({"tool_choice": "none"}, {"tools": []}, {"tools": [], "tool_choice": "none"}):
            status, _, body = self.server.chat(messages=USER, temperature=0, **fields)
            self.assertEqual((status, body["choices"][0]["message"]), (200, plain))

    def test_b103_null_is_absent(self):
        status, _, body = self.server.chat(messages=USER, max_tokens=None, stop=None, tools=None, seed=None,
                                           response_format=None, logit_bias=None)
        self.assertEqual(status, 200, body)

    def test_b113_text_has_no_list_of_calls(self):
        for event in self.stream(messages=USER, tools=WEATHER)[:-1]:
            for choice in event["choices"]:
                self.assertNotIn("tool_calls", choice["delta"])

    def test_b114_an_empty_prompt_hurts_nobody(self):
        self.refused("/v1/completions", json.dumps({"prompt": ""}), "empty_prompt")
        self.refused("/v1/chat/completions", json.dumps({"messages": []}), "empty_prompt")
        status, _, body = self.server.chat(messages=[{"role": "user", "content": ""}], max_tokens=2)
        self.assertEqual(status, 200, body)
        self.answered()


class OnePlace(unittest.TestCase):
    def test_b107_a_queued_request_that_leaves_takes_nobody_along(self):
        server = Server(FLARE, "--max-concurrency", "1")
        try:
            reference = server.chat(**ENDLESS, max_tokens=300)[2]["choices"][0]["message"]["content"]
            running, response = server.open_stream(**ENDLESS, max_tokens=300)
            response.readline()
            queued = server.connect()
            queued.request("POST", "/v1/chat/completions", json.dumps({"messages": USER, "stream": True}),
                           {"Content-Type": "application/json"})
            queued.sock.close()
            queued.close()
            text = "".join(e["choices"][0]["delta"].get("content", "") for e in events(response)
                           if e != "[DONE]" and e["choices"])
            running.close()
            self.assertEqual(text, reference)
            self.assertEqual(server.chat(messages=USER, max_tokens=1)[0], 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_b007_a_silent_stream_is_kept_alive(self):
        server = Server(FLARE, "--max-concurrency", "1", "--sse-ping", "1", "--pending-timeout", "0")
        try:
            ahead = [server.open_stream(**ENDLESS, max_tokens=3900)]
            ahead[0][1].readline()
            threads = [threading.Thread(target=server.chat, kwargs=dict(ENDLESS, max_tokens=3900)) for _ in range(3)]
            for thread in threads:
                thread.start()
            while server.request("GET", "/v1/flare/status")[2]["queue"]["waiting"] < 3:
                pass
            begin = time.monotonic()
            waiting, second = server.open_stream(messages=USER, max_tokens=2)
            lines = [line.decode().rstrip("\n") for line in second]
            took = time.monotonic() - begin
            self.assertEqual(second.status, 200)
            self.assertNotIn("data: ", lines)
            self.assertIn("data: [DONE]", lines)
            if took > 2:  # all but the fastest machines
                self.assertIn(": ping", lines)
            waiting.close()
            ahead[0][0].close()
            for thread in threads:
                thread.join()
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
