#!/usr/bin/python3
# `flare run` as a process: wire behaviour with the bundled model, signals, exit codes.
#
# usage: run_test.py FLARE [unittest arguments]
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

from flare_process import PATIENCE_S, Server, events
from reference_answers import NANO, reference_case, reference_cases

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
LONG = {"messages": USER, "ignore_eos": True, "max_tokens": 4000, "temperature": 0}


def without_tokens(expected):
    return {k: v for k, v in expected.items() if k != "reasoning_tokens"}


def whole_answer(body):
    """What a whole answer says; its shape is checked on the way."""
    choice = body["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    assert set(message) - {"reasoning_content", "tool_calls"} == {"role", "content"}, message
    assert message["role"] == "assistant"
    assert "tool_calls" not in message or calls, message
    assert message.get("reasoning_content") != "", message
    assert (message["content"] is None) <= bool(calls), message
    for call in calls:
        assert set(call) == {"id", "type", "function"} and set(call["function"]) == {"name", "arguments"}, call
        assert re.fullmatch(r"call_\w+", call["id"]) and call["type"] == "function", call
    assert len({call["id"] for call in calls}) == len(calls), calls
    return {"reasoning": message.get("reasoning_content", ""), "content": message["content"] or "",
            "calls": [(c["function"]["name"], c["function"]["arguments"]) for c in calls],
            "finish": choice["finish_reason"]}


def joined_stream(chunks):
    """The same of the chunks of a stream with one choice."""
    deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}, deltas[0]
    assert deltas[-1] == {}, deltas[-1]
    said = {"reasoning": "", "content": "", "calls": []}
    ids = []
    kinds = []
    for delta in deltas[1:-1]:
        (kind, value), = delta.items()  # one channel each, and no empty keys
        assert value, delta
        kinds.append(["reasoning_content", "content", "tool_calls"].index(kind))
        if kind != "tool_calls":
            said[kind.removesuffix("_content")] += value
            continue
        call, = value
        if "id" in call:
            assert call == {"index": len(ids), "id": call["id"], "type": "function",
                            "function": {"name": call["function"]["name"], "arguments": ""}}, call
            assert re.fullmatch(r"call_\w+", call["id"])
            ids.append(call["id"])
            said["calls"].append((call["function"]["name"], ""))
        else:
            assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}, call
            name, arguments = said["calls"][call["index"]]
            said["calls"][call["index"]] = name, arguments + call["function"]["arguments"]
    assert kinds == sorted(kinds), kinds
    assert len(set(ids)) == len(ids), ids
    finish, = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"] and
               c["choices"][0]["finish_reason"]]
    return dict(said, finish=finish)


def with_values(answer):
    """The arguments of complete calls as values."""
    return dict(answer, calls=[(name, json.loads(arguments)) for name, arguments in answer["calls"]])


class Wire(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def test_answers_are_the_reference_ones(self):
        for messages, fields, answer in reference_cases():
            with self.subTest(messages=messages):
                status, _, body = self.server.chat(messages=messages, temperature=0, **fields)
                self.assertEqual(status, 200, body)
                self.assertEqual(with_values(whole_answer(body)), without_tokens(answer))
                self.assertEqual(body["usage"]["completion_tokens_details"],
                                 {"reasoning_tokens": answer["reasoning_tokens"]})

    def test_streams_say_the_same_as_whole_answers(self):
        cases = list(reference_cases())
        for messages, fields, answer in cases[:5] + [c for c in cases[5:] if c[2]["calls"] or c[2]["reasoning"]]:
            connection, response = self.server.open_stream(messages=messages, temperature=0, **fields)
            self.assertEqual(response.headers["Content-Type"], "text/event-stream; charset=utf-8")
            chunks = list(events(response))
            connection.close()
            self.assertEqual(chunks.pop(), "[DONE]")
            said = joined_stream(chunks)
            self.assertEqual(with_values(said), without_tokens(answer))
            self.assertEqual(said, whole_answer(self.server.chat(messages=messages, temperature=0, **fields)[2]))
            self.assertEqual({c["object"] for c in chunks}, {"chat.completion.chunk"})
            self.assertEqual(len({c["id"] for c in chunks}), 1)
            self.assertFalse(any("usage" in c for c in chunks))

    def stream(self, **fields):
        connection, response = self.server.open_stream(temperature=0, **fields)
        chunks = list(events(response))
        connection.close()
        self.assertEqual(chunks.pop(), "[DONE]")
        return chunks

    def test_a_call_and_its_result_make_an_answer(self):
        """The reference conversation holds this call and its result; here the model makes the call itself."""
        messages, fields, answer = reference_case('{"temperature": 3, "sky": "cloudy"}')
        _, _, body = self.server.chat(messages=messages[:1], temperature=0, **fields)
        self.assertEqual(with_values(whole_answer(body))["calls"], [("get_weather", {"city": "Oslo"})])
        call = body["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": messages[-1]["content"]}
        _, _, body = self.server.chat(messages=[messages[0], call, result], temperature=0, **fields)
        self.assertEqual(whole_answer(body), without_tokens(answer))

    def test_a_call_that_a_limit_cuts_is_no_call_to_run(self):
        messages, fields, answer = reference_case("What is 125 + 340?")
        (name, arguments), = answer["calls"]
        seen = set()
        for limit in range(1, 30):
            _, _, body = self.server.chat(messages=messages, temperature=0, max_tokens=limit, **fields)
            said = whole_answer(body)
            self.assertEqual(said["finish"], "length")
            self.assertEqual(said["content"] if said["calls"] else "", "")
            for got_name, piece in said["calls"]:
                self.assertEqual(got_name, name)
                self.assertTrue(json.dumps(arguments).replace(" ", "").startswith(piece.replace(" ", "")), piece)
                seen.add(piece)
            if limit in (3, 12, 20):
                self.assertEqual(joined_stream(self.stream(messages=messages, max_tokens=limit, **fields)), said)
        self.assertGreater(len(seen), 3, seen)

    def test_stop_strings_match_content_alone(self):
        messages, fields, answer = reference_case("How is the weather in Paris?")
        _, _, body = self.server.chat(messages=messages, temperature=0, stop=["Paris", "<function"], **fields)
        self.assertEqual(with_values(whole_answer(body)), without_tokens(answer))
        messages, fields, answer = reference_case("What is the capital of Spain?", thinking=True)
        _, _, body = self.server.chat(messages=messages, temperature=0, stop=["Madrid"], **fields)
        said = whole_answer(body)
        self.assertEqual(said["reasoning"], answer["reasoning"])
        self.assertIn("Madrid", said["reasoning"])
        self.assertEqual(said["content"], answer["content"].split("Madrid")[0])
        self.assertEqual(body["choices"][0]["stop_reason"], "Madrid")

    def test_reasoning_can_be_left_out(self):
        messages, fields, answer = reference_case("What is 12 + 30?", thinking=True)
        fields["include_reasoning"] = False
        _, _, body = self.server.chat(messages=messages, temperature=0, **fields)
        self.assertEqual(body["choices"][0]["message"], {"role": "assistant", "content": answer["content"]})
        self.assertEqual(body["usage"]["completion_tokens_details"]["reasoning_tokens"], answer["reasoning_tokens"])
        chunks = self.stream(messages=messages, stream_options={"include_usage": True}, **fields)
        self.assertEqual(joined_stream(chunks), dict(without_tokens(answer), reasoning=""))
        self.assertEqual(chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"],
                         answer["reasoning_tokens"])

    def test_reasoning_that_is_cut_stays_reasoning(self):
        messages, fields, answer = reference_case("What is 12 + 30?", thinking=True)
        _, _, body = self.server.chat(messages=messages, temperature=0, max_tokens=5, **fields)
        said = whole_answer(body)
        self.assertEqual((said["content"], said["finish"]), ("", "length"))
        self.assertTrue(said["reasoning"] and answer["reasoning"].startswith(said["reasoning"]), said)
        self.assertEqual(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 5)

    def test_effort_switches_reasoning_and_a_budget_closes_it(self):
        messages, fields, answer = reference_case("What is 12 + 30?", thinking=True)

        def said(**more):
            status, _, body = self.server.chat(messages=messages, temperature=0, max_tokens=80, **more)
            self.assertEqual(status, 200, body)
            return whole_answer(body), body["usage"]["completion_tokens_details"]["reasoning_tokens"]

        for more in ({"enable_thinking": True}, {"reasoning_effort": "low"}, {"reasoning_effort": "max"},
                     {"chat_template_kwargs": {"reasoning_effort": "high"}},
                     {"enable_thinking": True, "thinking_budget": 1000}, {"thinking_budget": 50, **fields}):
            self.assertEqual(said(**more)[0], without_tokens(answer), more)
        for more in ({}, {"reasoning_effort": "none"}, {"enable_thinking": False}, {"thinking_budget": 0},
                     {"thinking_budget": 9}, {"enable_thinking": False, "reasoning_effort": "high"}):
            self.assertEqual(said(**more)[0]["reasoning"], "", more)
        for more in ({"thinking_budget": 3, **fields}, {"chat_template_kwargs": {"enable_thinking": True,
                                                                                 "thinking_budget": 3}}):
            cut, counted = said(**more)
            self.assertTrue(cut["reasoning"] and answer["reasoning"].startswith(cut["reasoning"].rstrip("\n")), cut)
            self.assertNotIn("think", cut["content"])
            self.assertIn(counted - 3, (1, 2, 3))

    def test_no_tools_and_no_choice_of_them_are_as_if_unsaid(self):
        messages, fields, answer = reference_case("Spell apple.")
        for extra in ({}, {"tool_choice": "none"}, {"tools": []}, {"tools": [], "tool_choice": "none"},
                      {"tools": WEATHER, "tool_choice": "none"}):
            with self.subTest(extra=extra):
                status, _, body = self.server.chat(messages=messages, temperature=0, **fields, **extra)
                self.assertEqual(status, 200, body)
                self.assertEqual(whole_answer(body), without_tokens(answer))
                # joined_stream takes no delta with an empty list of calls.
                self.assertEqual(joined_stream(self.stream(messages=messages, **fields, **extra)),
                                 without_tokens(answer))

    def call_of(self, messages, **fields):
        """The calls of an answer, the same whole and streamed."""
        status, _, body = self.server.chat(messages=messages, temperature=0, max_tokens=200, **fields)
        self.assertEqual(status, 200, body)
        said = whole_answer(body)
        self.assertEqual(joined_stream(self.stream(messages=messages, max_tokens=200, **fields)), said)
        return with_values(said)

    def test_a_required_call_is_made_whatever_is_said(self):
        tools = reference_case("What is 125 + 340?")[1]["tools"]
        for choice in ("required", {"type": "function", "function": {"name": "add"}},
                       {"type": "function", "name": "get_weather"},
                       {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                           {"type": "function", "function": {"name": "add"}}]}}):
            with self.subTest(choice=choice):
                said = self.call_of(USER, tools=tools, tool_choice=choice)
                self.assertEqual((said["finish"], said["content"]), ("tool_calls", ""))
                named = re.findall("add|get_weather", str(choice))
                for name, arguments in said["calls"]:
                    self.assertIn(name, named or ["add", "get_weather"])
                    kinds = {"city": str} if name == "get_weather" else {"a": (int, float), "b": (int, float)}
                    self.assertEqual(set(arguments), set(kinds))
                    for key, value in arguments.items():
                        self.assertIsInstance(value, kinds[key])
                self.assertGreaterEqual(len(said["calls"]), 1)
                if "type" in choice and choice["type"] == "function":
                    self.assertEqual(len(said["calls"]), 1)

    def test_reasoning_is_free_before_a_required_call(self):
        messages, fields, answer = reference_case("What is the capital of Spain?", thinking=True)
        said = self.call_of(messages, tools=WEATHER, tool_choice="required", **fields)
        self.assertNotEqual(said["reasoning"], "")
        self.assertEqual((said["content"], said["finish"]), ("", "tool_calls"))
        self.assertEqual(said["calls"][0][0], "get_weather")

    def test_at_most_one_call_unless_they_may_be_parallel(self):
        said = self.call_of(USER, tools=WEATHER, tool_choice="required", parallel_tool_calls=False)
        self.assertEqual(len(said["calls"]), 1)

    def test_strict_tools_hold_a_call_to_their_schema(self):
        question = [{"role": "user", "content": "How is the weather in Paris?"}]
        self.assertEqual(self.call_of(question, tools=WEATHER)["calls"], [("get_weather", {"city": "Paris"})])
        tools = json.loads(json.dumps(WEATHER))
        function = tools[0]["function"]
        function["parameters"]["properties"]["city"]["enum"] = ["Oslo", "Rome"]
        function["strict"] = True
        (name, arguments), = self.call_of(question, tools=tools, parallel_tool_calls=False)["calls"]
        self.assertEqual(name, "get_weather")
        self.assertIn(arguments["city"], ["Oslo", "Rome"])

    def test_the_usage_chunk_is_last_and_only_when_asked(self):
        connection, response = self.server.open_stream(messages=USER, n=2, stream_options={"include_usage": True})
        chunks = list(events(response))
        connection.close()
        self.assertEqual(chunks[-1], "[DONE]")
        self.assertEqual(chunks[-2]["choices"], [])
        self.assertEqual([c for c in chunks[:-2] if "usage" in c], [])
        usage = chunks[-2]["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual({c["choices"][0]["index"] for c in chunks[:-2]}, {0, 1})

    def test_many_requests_at_once_do_not_disturb_each_other(self):
        cases = list(reference_cases())[:12]
        answers = [None] * len(cases)

        def ask(i):
            messages, fields, _ = cases[i]
            answers[i] = self.server.chat(messages=messages, temperature=0, **fields)[2]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(cases))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([with_values(whole_answer(a)) for a in answers], [without_tokens(c[2]) for c in cases])

    def test_a_conversation_is_not_read_again(self):
        """The bundled model has recurrent state, so this needs snapshots as well as pages."""
        messages = [{"role": "system", "content": "You answer short questions. " * 20}]
        known = 0
        for question in ("What colour is the sky?", "What is the opposite of soft?", "Say hello."):
            messages.append({"role": "user", "content": question})
            common = dict(messages=messages, max_tokens=20, temperature=0)
            answers = [self.server.chat(**common, **extra)[2] for extra in ({}, {}, {"cache_salt": question})]
            usages = [answer["usage"] for answer in answers]
            cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
            self.assertGreaterEqual(cached[0] + 32 + 1, known, "the turn before was read whole")
            self.assertGreaterEqual(cached[1] + 64, usages[1]["prompt_tokens"])
            self.assertEqual(cached[2], 0, "another salt")
            texts = {answer["choices"][0]["message"]["content"] for answer in answers}
            self.assertEqual(len(texts), 1, texts)
            known = usages[0]["prompt_tokens"] - len(question) - 8
            messages.append({"role": "assistant", "content": texts.pop()})

    def test_limits_and_stops_end_an_answer(self):
        _, _, body = self.server.chat(messages=USER, temperature=0, max_tokens=3, max_completion_tokens=50)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")
        self.assertEqual(body["usage"]["completion_tokens"], 3)
        _, _, body = self.server.chat(messages=USER, temperature=0, max_tokens=0)
        self.assertEqual(body["choices"][0]["message"]["content"], "")
        self.assertEqual(body["choices"][0]["finish_reason"], "length")
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        self.assertGreater(body["usage"]["prompt_tokens"], 0)
        _, _, body = self.server.chat(messages=USER, temperature=0, stop=["zzz", "can I"])
        self.assertEqual(body["choices"][0]["message"]["content"], "Hello! How ")
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        self.assertEqual(body["choices"][0]["stop_reason"], "can I")
        _, _, body = self.server.chat(**dict(LONG, max_tokens=150))
        self.assertEqual(body["usage"]["completion_tokens"], 150)

    def test_a_seed_repeats_an_answer_and_choices_differ(self):
        request = {"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 1.5, "top_p": 1,
                   "top_k": 0, "seed": -5, "n": 3, "max_tokens": 60}
        _, headers, first = self.server.chat(**request)
        _, _, second = self.server.chat(**request)
        texts = [c["message"]["content"] for c in first["choices"]]
        self.assertEqual(headers["x-flare-seed"], "-5")
        self.assertEqual(texts, [c["message"]["content"] for c in second["choices"]])
        self.assertEqual(len(set(texts)), 3)

    def token_ids(self, text):
        listed = subprocess.run([FLARE, "tokenize", NANO, "--text", text, "--json"], check=True, capture_output=True)
        return json.loads(listed.stdout)["result"]["ids"]

    def greedy(self, **fields):
        status, _, body = self.server.chat(messages=USER, temperature=0, **fields)
        self.assertEqual(status, 200, body)
        return body["choices"][0]["message"]["content"]

    def test_b061_biases_and_bans_act_on_ids(self):
        free = self.greedy()
        self.assertTrue(free.startswith("Hello! How"), free)
        hello, bang = self.token_ids("Hello"), self.token_ids("!")
        self.assertEqual((len(hello), len(bang)), (1, 1))
        self.assertNotIn("Hello", self.greedy(logit_bias={hello[0]: -100}))
        self.assertEqual(self.greedy(logit_bias={bang[0]: 100}, max_tokens=3), "!!!")
        self.assertEqual(self.greedy(allowed_token_ids=bang, max_tokens=3), "!!!")
        for temperature in (0.7, 3):
            _, _, body = self.server.chat(messages=USER, temperature=temperature, top_k=0, top_p=1, max_tokens=100,
                                          n=4, logit_bias={hello[0]: -100, bang[0]: -100}, ignore_eos=True)
            for choice in body["choices"]:
                self.assertNotIn("Hello", choice["message"]["content"])

    def test_bad_words_are_never_said(self):
        free = self.greedy()
        words = free.split()[:3]  # "Hello!", "How", "can"
        for word in words:
            self.assertNotIn(word, self.greedy(bad_words=[word]).split(), word)
        both = self.greedy(bad_words=words)
        self.assertFalse(set(words) & set(both.split()), both)

    def test_min_tokens_keeps_an_answer_going(self):
        _, _, body = self.server.chat(messages=USER, temperature=0)
        n = body["usage"]["completion_tokens"]
        _, _, longer = self.server.chat(messages=USER, temperature=0, min_tokens=n + 20)
        self.assertGreaterEqual(longer["usage"]["completion_tokens"], n + 20)
        self.assertTrue(longer["choices"][0]["message"]["content"].startswith(
            body["choices"][0]["message"]["content"]))

    def test_every_filter_runs(self):
        # A filter of one id is greedy whatever the temperature.
        free = self.greedy()
        for fields in ({"top_k": 1}, {"top_n_sigma": 1e-6}, {"min_p": 1}, {"top_p": 1e-6}):
            _, _, body = self.server.chat(messages=USER, temperature=2, **dict({"top_k": 0, "top_p": 1}, **fields))
            self.assertEqual(body["choices"][0]["message"]["content"], free, fields)
        # The likeliest id goes, or what repeats itself does.
        self.assertNotEqual(self.greedy(repetition_penalty=5, repeat_last_n=-1), free)
        _, _, body = self.server.chat(messages=USER, temperature=1, top_k=2, top_p=1, min_p=0, xtc_probability=1,
                                      xtc_threshold=0, max_tokens=20)
        self.assertNotEqual(body["choices"][0]["message"]["content"][:10], free[:10])
        _, _, body = self.server.chat(messages=USER, temperature=1, typical_p=0.5, dry_multiplier=0.8, max_tokens=20,
                                      frequency_penalty=1, presence_penalty=1)
        self.assertTrue(body["choices"][0]["message"]["content"])
        # Ever the same word, unless its repetition is penalised.
        same = {"temperature": 0, "max_tokens": 30, "ignore_eos": True, "allowed_token_ids":
                self.token_ids("!") + self.token_ids("Hello") + self.token_ids("How")}
        _, _, stuck = self.server.chat(messages=USER, **same)
        _, _, dry = self.server.chat(messages=USER, dry_multiplier=5, **same)
        stuck, dry = (b["choices"][0]["message"]["content"] for b in (stuck, dry))
        self.assertNotEqual(stuck, dry)

    def test_timings_come_when_asked(self):
        _, _, body = self.server.chat(messages=USER, timings=True)
        self.assertEqual(body["timings"]["predicted_n"], body["usage"]["completion_tokens"])
        self.assertNotIn("timings", self.server.chat(messages=USER)[2])

    def test_b062_log_probabilities_come_with_text_calls_and_streams(self):
        for question, fields in (("Who are you?", {}), ("How is the weather in Paris?", {"tools": WEATHER})):
            with self.subTest(question=question):
                request = dict(fields, messages=[{"role": "user", "content": question}], temperature=0, logprobs=True,
                               top_logprobs=2)
                status, _, body = self.server.chat(**request)
                self.assertEqual(status, 200, body)
                entries = body["choices"][0]["logprobs"]["content"]
                self.assertEqual(len(entries), body["usage"]["completion_tokens"] - 1)  # the end has no text
                for entry in entries:
                    self.assertEqual(set(entry), {"token", "logprob", "bytes", "top_logprobs"})
                    self.assertEqual(len(entry["top_logprobs"]), 2)
                    self.assertEqual(entry["top_logprobs"][0]["logprob"], entry["logprob"])
                text = b"".join(bytes(e["bytes"]) for e in entries).decode()
                self.assertIn(body["choices"][0]["message"]["content"] or "get_weather", text)
                connection, response = self.server.open_stream(**{k: v for k, v in request.items()})
                streamed = [e["choices"][0].get("logprobs") for e in events(response) if e != "[DONE]" and e["choices"]]
                connection.close()
                self.assertEqual(sum((s["content"] for s in streamed if s), []), entries)
        self.assertIsNone(self.server.chat(messages=USER)[2]["choices"][0]["logprobs"])

    def test_unknown_fields_are_named_and_null_is_absent(self):
        status, headers, _ = self.server.chat(messages=USER, strange=1, temperature=None, max_tokens=5.0)
        self.assertEqual(status, 200)
        self.assertEqual(headers["x-flare-ignored"], "strange")

    def test_wrong_fields_have_their_code(self):
        tool = {"type": "function", "function": {"name": "f"}}
        for fields, status, code, param in [
            ({"temperature": "1"}, 400, "invalid_type", "temperature"),
            ({"temperature": 101}, 400, "invalid_value", "temperature"),
            ({"temperature": True}, 400, "invalid_type", "temperature"),
            ({"top_k": -2}, 400, "invalid_value", "top_k"),
            ({"top_k": 1.5}, 400, "invalid_type", "top_k"),
            ({"top_p": 1.1}, 400, "invalid_value", "top_p"),
            ({"min_p": -0.1}, 400, "invalid_value", "min_p"),
            ({"presence_penalty": 3}, 400, "invalid_value", "presence_penalty"),
            ({"repetition_penalty": 0}, 400, "invalid_value", "repetition_penalty"),
            ({"repeat_last_n": 5000}, 400, "invalid_value", "repeat_last_n"),
            ({"seed": 2**63}, 400, "invalid_value", "seed"),
            ({"max_tokens": -1}, 400, "invalid_value", "max_tokens"),
            ({"n": 0}, 400, "invalid_value", "n"),
            ({"n": 9}, 400, "invalid_value", "n"),
            ({"stop": 5}, 400, "invalid_type", "stop"),
            ({"stop": ""}, 400, "invalid_value", "stop"),
            ({"stop": ["x"] * 17}, 400, "invalid_value", "stop"),
            ({"stop": "x" * 257}, 400, "invalid_value", "stop"),
            ({"stream": "yes"}, 400, "invalid_type", "stream"),
            ({"stream_options": {"include_usage": 1}}, 400, "invalid_type", "stream_options.include_usage"),
            ({"model": "gpt"}, 404, "model_not_found", "model"),
            ({"model": 5}, 400, "invalid_type", "model"),
            ({"logprobs": 1}, 400, "invalid_type", "logprobs"),
            ({"top_logprobs": 2}, 400, "conflicting_parameters", "top_logprobs"),
            ({"logprobs": True, "top_logprobs": 21}, 400, "invalid_value", "top_logprobs"),
            ({"store": True}, 400, "unsupported_parameter", "store"),
            ({"mirostat": 2}, 400, "unsupported_parameter", "mirostat"),
            ({"typical_p": 1.5}, 400, "invalid_value", "typical_p"),
            ({"logit_bias": {"999999": 1}}, 400, "invalid_value", "logit_bias"),
            ({"bad_words": [""]}, 400, "invalid_value", "bad_words"),
            ({"bad_words": ["x"] * 257}, 400, "invalid_value", "bad_words"),
            ({"response_format": {"type": "xml"}}, 400, "invalid_value", "response_format.type"),
            ({"tools": [{"type": "function"}]}, 400, "missing_field", "tools[0].function"),
            ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 400, "invalid_value",
             "tools[0].function.name"),
            ({"tools": [tool, tool]}, 400, "invalid_value", "tools"),
            ({"prompt_logprobs": 1}, 400, "prompt_logprobs_unavailable", "prompt_logprobs"),
            ({"prompt_logprobs": 21}, 400, "invalid_value", "prompt_logprobs"),
            ({"tools": [tool], "tool_choice": "sometimes"}, 400, "invalid_value", "tool_choice"),
            ({"tools": [tool], "tool_choice": 1}, 400, "invalid_type", "tool_choice"),
            ({"tool_choice": "required"}, 400, "invalid_tool_choice", "tool_choice"),
            ({"tools": [tool], "tool_choice": {"type": "function", "name": "g"}}, 400, "invalid_tool_choice",
             "tool_choice"),
            ({"tools": [tool], "tool_choice": {"type": "custom", "name": "f"}}, 400, "invalid_value",
             "tool_choice.type"),
            ({"tools": [tool], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "g"}]}},
             400, "invalid_tool_choice", "tool_choice"),
            ({"tools": [tool], "tool_choice": "required", "ignore_eos": True}, 400, "conflicting_parameters",
             "ignore_eos"),
            ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {
                "type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}]},
             400, "invalid_tool_schema", "tools"),
            ({"include_reasoning": "no"}, 400, "invalid_type", "include_reasoning"),
            ({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "g"}}}, 400,
             "invalid_tool_choice", "tool_choice"),
            ({"chat_template_kwargs": {"messages": []}}, 400, "invalid_value", "chat_template_kwargs.messages"),
            ({"chat_template_kwargs": {str(i): i for i in range(65)}}, 400, "invalid_value",
             "chat_template_kwargs"),
            ({"messages": []}, 400, "empty_prompt", "messages"),
            ({"messages": [{"role": "user", "content": "a b " * 5000}]}, 400, "context_length_exceeded",
             "messages"),
            ({"messages": USER + [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}]},
             400, "prefill_not_supported", "messages[1]"),
        ]:
            with self.subTest(fields=str(fields)[:80]):
                got, _, body = self.server.chat(**dict({"messages": USER}, **fields))
                self.assertEqual((got, body["error"]["code"], body["error"]["param"]), (status, code, param), body)
                self.assertEqual(set(body["error"]), {"message", "type", "param", "code"})

    def test_neutral_values_of_missing_features_pass(self):
        status, _, body = self.server.chat(
            messages=USER, max_tokens=1, logprobs=False, top_logprobs=0, store=False, modalities=["text"],
            functions=[], best_of=1, typical_p=1.0, top_n_sigma=-1, dry_multiplier=0, xtc_probability=0.0,
            logit_bias={}, mirostat=0, response_format={"type": "text"}, tools=[], tool_choice="none",
            metadata={}, user="me", parallel_tool_calls=True, audio=None)
        self.assertEqual(status, 200, body)

    def test_http_errors_have_their_status(self):
        for method, path, body, headers, status, code in [
            ("GET", "/nope", None, {}, 404, "not_found"),
            ("GET", "/v1/models/x", None, {}, 404, "model_not_found"),
            ("DELETE", "/health", None, {}, 405, "method_not_allowed"),
            ("GET", "/v1/chat/completions", None, {}, 405, "method_not_allowed"),
            ("POST", "/v1/chat/completions", "{}", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
            ("POST", "/v1/chat/completions", "{", {"Content-Type": "application/json"}, 400, "invalid_json"),
            ("POST", "/v1/chat/completions", b'{"a":"\xff"}', {"Content-Type": "application/json"}, 400,
             "invalid_encoding"),
            ("GET", "/health", None, {"Host": "evil.example"}, 403, "host_not_allowed"),
            ("GET", "/health", None, {"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ]:
            with self.subTest(path=path, code=code):
                got, headers, answer = self.server.request(method, path, body, headers)
                self.assertEqual((got, answer["error"]["code"]), (status, code))
                self.assertEqual("Allow" in headers, status == 405)

    def test_probes_and_models(self):
        for path in ("/health", "/live", "/ready", "/version"):
            self.assertEqual(self.server.request("GET", path)[0], 200)
            self.assertEqual(self.server.request("HEAD", path)[0], 200)
        _, _, models = self.server.request("GET", "/v1/models")
        self.assertEqual([m["id"] for m in models["data"]], ["nano"])
        self.assertEqual(self.server.request("GET", "/v1/models/nano")[2], models["data"][0])

    def test_a_client_that_leaves_frees_its_place(self):
        # All places and then some: if leaving freed nothing, the last answer would never come.
        for _ in range(20):
            connection, response = self.server.open_stream(**LONG)
            next(events(response))
            response.close()
            connection.close()
        self.assertEqual(self.server.chat(messages=USER, temperature=0)[0], 200)

    def test_text_of_the_caller_never_becomes_a_marker(self):
        _, _, plain = self.server.chat(messages=USER, max_tokens=0)
        _, _, marked = self.server.chat(messages=[{"role": "user", "content": "Hello!<|im_end|>"}], max_tokens=0)
        added = marked["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"]
        self.assertGreater(added, 1)  # the special token would be one


class Queue(unittest.TestCase):
    def test_a_full_queue_answers_429(self):
        server = Server(FLARE, "--max-concurrency", "1", "--max-pending", "0")
        try:
            connection, response = server.open_stream(**LONG)
            chunks = events(response)
            next(chunks), next(chunks), next(chunks)  # a step has ended: it counts as running
            status, headers, body = server.chat(messages=USER)
            self.assertEqual((status, body["error"]["code"]), (429, "server_overloaded"))
            self.assertIn("Retry-After", headers)
            self.assertEqual(server.request("GET", "/ready")[0], 503)
            self.assertEqual(server.request("GET", "/health")[0], 200)
            connection.close()
        finally:
            server.kill()

    def test_who_waits_too_long_hears_it_before_any_status(self):
        server = Server(FLARE, "--max-concurrency", "1", "--pending-timeout", "1")
        over = threading.Event()

        def keep_it_busy():
            while not over.is_set():
                server.chat(messages=USER, ignore_eos=True, max_tokens=200, priority=10)

        # Three that come back at once: one of them always waits before those of lower priority.
        busy = [threading.Thread(target=keep_it_busy) for _ in range(3)]
        try:
            connection, response = server.open_stream(**LONG, priority=10)
            next(events(response))
            for thread in busy:
                thread.start()
            results = []
            for stream in (False, True):
                status, headers, body = server.request(
                    "POST", "/v1/chat/completions", {"messages": USER, "stream": stream, "priority": -10},
                    {"x-request-timeout-ms": "20"})
                results.append((status, body["error"]["code"]))
            self.assertEqual(results, [(504, "deadline_exceeded")] * 2)
            status, headers, body = server.chat(messages=USER, stream=True, priority=-10)
            self.assertEqual((status, body["error"]["code"]), (503, "queue_timeout"))
            self.assertIn("Retry-After", headers)
            connection.close()
        finally:
            over.set()
            for thread in busy:
                if thread.ident:
                    thread.join()
            server.kill()

    def test_wrong_priorities_and_deadlines_are_named(self):
        server = Server(FLARE)
        try:
            for value in (11, -11):
                status, _, body = server.chat(messages=USER, priority=value)
                self.assertEqual((status, body["error"]["code"], body["error"]["param"]),
                                 (400, "invalid_value", "priority"))
            for value in ("0", "soon", "-5", "99999999999"):
                status, _, body = server.request("POST", "/v1/chat/completions", {"messages": USER},
                                                 {"x-request-timeout-ms": value})
                self.assertEqual((status, body["error"]["param"]), (400, "x-request-timeout-ms"))
            status, headers, _ = server.request("POST", "/v1/chat/completions",
                                                {"messages": USER, "priority": -10, "max_tokens": 2},
                                                {"x-request-timeout-ms": "600000"})
            self.assertEqual(status, 200)
            self.assertNotIn("x-flare-ignored", headers)
        finally:
            server.kill()

    def test_B107_a_client_that_leaves_the_queue_disturbs_nobody(self):
        server = Server(FLARE, "--max-concurrency", "1")
        try:
            running, response = server.open_stream(messages=USER, ignore_eos=True, max_tokens=600, temperature=0)
            chunks = events(response)
            next(chunks)
            body = json.dumps({"messages": USER, "max_tokens": 2}).encode()
            with socket.create_connection(("127.0.0.1", server.port)) as leaver:
                leaver.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            rest = list(chunks)
            self.assertEqual(rest[-1], "[DONE]")
            self.assertEqual(rest[-2]["choices"][0]["finish_reason"], "length")
            self.assertEqual(server.chat(messages=USER, max_tokens=2)[0], 200)
        finally:
            server.kill()


class Signals(unittest.TestCase):
    def test_a_server_outlives_the_reader_of_its_log(self):
        process = subprocess.Popen([FLARE, "run", "--port", "0"], stderr=subprocess.PIPE, text=True)
        while not process.stderr.readline().startswith("ready "):
            self.assertIsNone(process.poll())
        process.stderr.close()
        process.send_signal(signal.SIGTERM)  # logs that it drains
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_idle_servers_leave_with_zero(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.assertEqual(Server(FLARE).stop(number), 0)

    def test_the_first_signal_lets_running_answers_end(self):
        server = Server(FLARE, "--drain-timeout", str(PATIENCE_S))
        try:
            connection, response = server.open_stream(**dict(LONG, max_tokens=400))
            chunks = events(response)
            next(chunks), next(chunks)
            server.process.send_signal(signal.SIGTERM)
            rest = list(chunks)
            self.assertEqual(rest[-1], "[DONE]")
            self.assertEqual(rest[-2]["choices"][0]["finish_reason"], "length")
            connection.close()
            self.assertEqual(server.wait(), 0)
        finally:
            server.kill()

    def test_after_the_drain_timeout_the_stream_ends_with_an_error(self):
        server = Server(FLARE, "--drain-timeout", "0")
        try:
            connection, response = server.open_stream(**LONG)
            chunks = events(response)
            next(chunks), next(chunks)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(list(chunks)[-1]["error"]["code"], "server_draining")
            connection.close()
            self.assertEqual(server.wait(), 1)
        finally:
            server.kill()

    def test_the_second_signal_leaves_at_once(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            server = Server(FLARE, "--drain-timeout", "1000")
            try:
                streams = [server.open_stream(**LONG) for _ in range(8)]
                next(events(streams[0][1]))
                server.process.send_signal(signal.SIGTERM)
                while not any("draining" in line for line in server.lines):
                    server.reader.join(0.01)
                self.assertEqual(server.request("GET", "/ready")[0], 503)
                status, _, body = server.chat(messages=USER)
                self.assertEqual((status, body["error"]["code"]), (503, "server_draining"))
                server.process.send_signal(number)
                self.assertEqual(server.wait(), code)
                for connection, response in streams:
                    response.close()
                    connection.close()
            finally:
                server.kill()


class Start(unittest.TestCase):
    def refused(self, *flags):
        done = subprocess.run([FLARE, "run", *flags], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertTrue(done.stderr.splitlines()[-2].startswith("error: "), done.stderr)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("hint: "), done.stderr)
        self.assertEqual(done.stdout, "")
        return done.returncode

    def test_exit_codes_of_wrong_starts(self):
        self.assertEqual(self.refused("/no/such/model"), 3)
        self.assertEqual(self.refused("--port", "99999"), 2)
        self.assertEqual(self.refused("--port", "x"), 2)
        self.assertEqual(self.refused("--host", "0.0.0.0", "--port", "0"), 2)
        self.assertEqual(self.refused("--host", "nowhere", "--allow-unauthenticated"), 2)
        self.assertEqual(self.refused("--log-level", "loud"), 2)
        self.assertEqual(self.refused("--recipe", "q99", "--port", "0"), 2)
        self.assertEqual(self.refused("--max-context", "100000", "--port", "0"), 2)
        self.assertEqual(self.refused("--max-context", "1"), 2)
        self.assertEqual(self.refused("--max-pending=-1"), 2)
        self.assertEqual(self.refused("--prot", "1"), 2)
        for flag in ("--prefill-slowdown=0.5", "--prefill-slowdown=nan", "--prefill-slowdown=inf", "--memory-limit=x",
                     "--memory-limit=1.5", "--memory-limit=0.0", "--memory-limit=-", "--clock=-1"):
            self.assertEqual(self.refused(flag, "--port", "0"), 2, flag)
        self.assertEqual(self.refused("--memory-limit=1M", "--port", "0"), 7)
        self.assertEqual(self.refused("--kv-cache-limit=all", "--port", "0"), 2)
        self.assertEqual(self.refused("--kv-cache-limit=1K", "--port", "0"), 7)
        self.assertEqual(self.refused("--max-context", "1", "/no/such/model"), 2)  # before it looks for one

    def test_the_environment_gives_the_log_level_unless_a_flag_does(self):
        with unittest.mock.patch.dict(os.environ, FLARE_LOG="loud"):
            self.assertEqual(self.refused("/no/such/model", "--port", "0"), 2)
            self.assertEqual(self.refused("/no/such/model", "--port", "0", "--log-level", "warn"), 3)
        for level, words in (("error", 0), ("info", 2)):
            with unittest.mock.patch.dict(os.environ, FLARE_LOG=level):
                server = Server(FLARE)
                self.assertEqual(server.stop(), 0)
                self.assertEqual(sum(" info  " in line for line in server.lines), words, server.lines)

    def test_a_model_that_shrinks_under_the_server_ends_it_with_its_name(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(NANO, pathlib.Path(folder, "nano"), ignore=shutil.ignore_patterns("train"))
            model = copy / "model.safetensors"
            server = Server(FLARE, str(copy))
            try:
                self.assertTrue(any(re.search(r"weights: .* mapped", line) for line in server.lines), server.lines)
                os.truncate(model, 4096)
                with self.assertRaises((OSError, http.client.HTTPException)):
                    server.chat(messages=USER, max_tokens=2)
                self.assertEqual(server.wait(), 4)
                self.assertIn(f"error: {model}: its bytes are gone", "\n".join(server.lines))
            finally:
                server.kill()

    def test_a_port_in_use_is_a_network_failure(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assertEqual(self.refused("--port", str(taken.getsockname()[1])), 9)

    def test_the_ready_line_names_the_model_and_its_places(self):
        server = Server(FLARE, str(NANO), "--model-id", "a", "--model-id", "b", "--max-concurrency", "3",
                        "--max-context", "512", "--threads", "1")
        try:
            self.assertEqual(server.ready.groups()[2:], ("a", "1", "3"))
            models = server.request("GET", "/v1/models")[2]["data"]
            self.assertEqual([(m["id"], m["max_model_len"]) for m in models], [("a", 512), ("b", 512)])
            self.assertEqual(server.chat(messages=USER, model="b", max_tokens=1)[2]["model"], "b")
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()

    def test_memory_keeps_within_its_limit(self):
        for limit, most in (("60M", 60), ("0.01", 1 << 20)):
            server = Server(FLARE, "--memory-limit", limit, "--prefill-slowdown", "1.5")
            try:
                plan = next(line for line in server.lines if line.startswith("memory: "))
                planned, budget = re.search(r" = ([0-9.]+) MiB of ([0-9.]+) [MG]iB$", plan).groups()
                self.assertLessEqual(float(planned), most, plan)
                if limit == "60M":
                    self.assertEqual(float(budget), 60, plan)
                self.assertEqual(server.chat(messages=USER, max_tokens=2)[0], 200)
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()

    def test_pages_keep_within_theirs(self):
        for limit, pages in (("context", 32), ("concurrency", 64), ("3M", 48), ("memory", 500)):
            server = Server(FLARE, "--max-concurrency", "2", "--memory-limit", "120M", "--kv-cache-limit", limit)
            try:
                total = server.request("GET", "/v1/flare/status")[2]["cache"]["pages"]["total"]
                (self.assertGreater if limit == "memory" else self.assertEqual)(total, pages)
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()

    def test_templates_see_the_clock_that_was_set(self):
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder, "t.jinja")
            template.write_text("{{ strftime_now('%Y') }} {{ messages[0].content }}")
            server = Server(FLARE, "--chat-template", str(template), "--clock", str(86400 * 365 * 60))
            try:
                body = server.request("POST", "/apply-template", {"messages": USER})[2]
                self.assertEqual(body["prompt"], "2029 " + USER[0]["content"])
                self.assertEqual(server.stop(), 0)
            finally:
                server.kill()

    def test_strict_fields_refuse_unknown_names(self):
        server = Server(FLARE, "--strict-fields")
        try:
            self.assertEqual(server.chat(messages=USER, strange=1)[2]["error"]["code"], "unknown_field")
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()


if __name__ == "__main__":
    unittest.main()
