#!/usr/bin/python3
# Text completions and the native routes on the wire (serving.md S1, S2.7, S4.14).
#
# usage: completions_test.py FLARE IGNITION [unittest arguments]
import array
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from flare_process import Server, events

FLARE, IGNITION = sys.argv.pop(1), sys.argv.pop(1)
LOGPROB_TOLERANCE = 0.02  # the prompt may be read in pieces of another size
NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
PROMPT = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class Routes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def post(self, path, expected=200, **body):
        status, headers, answer = self.server.request("POST", path, body)
        self.assertEqual(status, expected, answer)
        return answer, headers

    def stream(self, path, **body):
        connection = self.server.connect()
        connection.request("POST", path, json.dumps(dict(body, stream=True)), {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        got = list(events(response))
        connection.close()
        return got

    def hello(self):
        _, _, body = self.server.chat(messages=[{"role": "user", "content": "Hello!"}], temperature=0,
                                      chat_template_kwargs={"enable_thinking": False})
        return body["choices"][0]["message"]["content"]


class Completions(Routes):
    def complete(self, **body):
        return self.post("/v1/completions", **dict({"prompt": PROMPT, "temperature": 0, "max_tokens": 200}, **body))[0]

    def test_markers_of_a_raw_prompt_count(self):
        body = self.complete()
        self.assertEqual(body["object"], "text_completion")
        choice, = body["choices"]
        self.assertEqual((choice["text"], choice["finish_reason"], choice["index"]), (self.hello(), "stop", 0))
        usage = body["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    def test_ids_and_texts_make_the_same_prompt(self):
        ids = self.post("/tokenize", content=PROMPT)[0]["tokens"]
        for prompt in (ids, [ids], [PROMPT], [float(i) for i in ids]):
            self.assertEqual(self.complete(prompt=prompt)["choices"][0]["text"], self.hello())

    def test_many_prompts_give_choices_in_order(self):
        other = PROMPT.replace("Hello!", "What is the capital of Spain?")
        alone = [self.complete(prompt=p)["choices"][0]["text"] for p in (PROMPT, other)]
        body = self.complete(prompt=[PROMPT, other], n=2)
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in body["choices"]], [alone[0], alone[0], alone[1], alone[1]])
        counts = [len(self.post("/tokenize", content=p)[0]["tokens"]) for p in (PROMPT, other)]
        self.assertEqual(body["usage"]["prompt_tokens"], sum(counts))

    def test_streams_say_the_same(self):
        got = self.stream("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=200, echo=True,
                          stream_options={"include_usage": True})
        self.assertEqual(got[-1], "[DONE]")
        self.assertEqual(got[-2]["choices"], [])
        self.assertEqual(got[-2]["usage"], self.complete()["usage"] | {"prompt_tokens_details": got[-2]["usage"][
            "prompt_tokens_details"]})
        self.assertEqual("".join(e["choices"][0]["text"] for e in got[:-2]), PROMPT + self.hello())
        self.assertEqual(got[-3]["choices"][0]["finish_reason"], "stop")

    def test_the_default_is_sixteen_tokens(self):
        body = self.post("/v1/completions", prompt="Once", ignore_eos=True)[0]
        self.assertEqual((body["usage"]["completion_tokens"], body["choices"][0]["finish_reason"]), (16, "length"))

    def test_stop_strings_cut_and_echo_precedes(self):
        whole = self.hello()
        body = self.complete(stop=whole[3:6], echo=True)
        self.assertEqual(body["choices"][0]["text"], PROMPT + whole[:whole.index(whole[3:6])])
        self.assertEqual(body["choices"][0]["stop_reason"], whole[3:6])

    def test_b062_log_probabilities_have_the_shape_of_completions(self):
        body = self.complete(logprobs=2)
        choice = body["choices"][0]
        lists = choice["logprobs"]
        self.assertEqual(set(lists), {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        self.assertEqual("".join(lists["tokens"]), choice["text"])
        for token, own, top, offset in zip(lists["tokens"], lists["token_logprobs"], lists["top_logprobs"],
                                           lists["text_offset"], strict=True):
            self.assertEqual(choice["text"][offset:offset + len(token)], token)
            self.assertTrue(1 <= len(top) <= 2)
            self.assertEqual(max(top.values()), own)  # greedy
            self.assertLessEqual(own, 0)
        got = self.stream("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=200, logprobs=2)
        pieces = [e["choices"][0]["logprobs"] for e in got[:-1]]
        for name in lists:
            self.assertEqual(sum((p[name] for p in pieces if p), []), lists[name])
        self.assertIsNone(self.complete()["choices"][0]["logprobs"])

    def test_log_probabilities_are_those_of_the_logits(self):
        ids = self.post("/tokenize", content=PROMPT)[0]["tokens"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "logits.safetensors")
            subprocess.run([IGNITION, "logits", NANO, "--tokens", ",".join(map(str, ids)), "--kv-dtype", "fp8_e4m3",
                            "--output", path], check=True, capture_output=True)
            data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        tensor = json.loads(data[8:8 + size])["logits"]
        row = array.array("f", data[8 + size + tensor["data_offsets"][0]:][:4 * tensor["shape"][0] * tensor["shape"][1]])
        row = row[-tensor["shape"][1]:]
        largest = max(row)
        whole = largest + math.log(sum(math.exp(x - largest) for x in row))
        body = self.post("/completion", prompt=ids, n_predict=1, temperature=0, n_probs=5)[0]
        entry = body["completion_probabilities"][0]
        best = sorted(range(len(row)), key=lambda i: -row[i])[:5]
        self.assertEqual([e["id"] for e in entry["top_logprobs"]], best)
        for e in entry["top_logprobs"]:
            self.assertAlmostEqual(e["logprob"], row[e["id"]] - whole, delta=LOGPROB_TOLERANCE)

    def test_constraints_bind(self):
        body = self.complete(structured_outputs={"regex": "[0-9]{4}"})
        self.assertRegex(body["choices"][0]["text"], "^[0-9]{4}$")

    def test_wrong_fields_have_their_code(self):
        for fields, code, param in (({"prompt": None}, "missing_field", "prompt"), ({"prompt": 5}, "invalid_type", "prompt"),
                                    ({"prompt": []}, "empty_prompt", "prompt"), ({"prompt": ""}, "empty_prompt", "prompt"),
                                    ({"prompt": [[]]}, "empty_prompt", "prompt"),
                                    ({"prompt": [1, "a"]}, "invalid_type", "prompt"),
                                    ({"prompt": ["a", 1]}, "invalid_type", "prompt"),
                                    ({"prompt": [10**9]}, "invalid_value", "prompt"),
                                    ({"prompt": [[-1]]}, "invalid_value", "prompt[0]"),
                                    ({"prompt": ["a"] * 65}, "invalid_value", "prompt"),
                                    ({"prompt": "a b " * 5000}, "context_length_exceeded", "prompt"),
                                    ({"suffix": "x"}, "unsupported_parameter", "suffix"),
                                    ({"best_of": 2}, "unsupported_parameter", "best_of"),
                                    ({"n": 9}, "invalid_value", "n"),
                                    ({"prompt": ["a"] * 64, "n": 8}, "invalid_value", "n"),
                                    ({"prompt": [1.5]}, "invalid_type", "prompt"), ({"max_tokens": -1}, "invalid_value", "max_tokens"),
                                    ({"echo": "yes"}, "invalid_type", "echo"), ({"logprobs": 21}, "invalid_value", "logprobs"),
                                    ({"logprobs": 1, "echo": True}, "prompt_logprobs_unavailable", "logprobs"),
                                   ({"prompt_logprobs": 1}, "prompt_logprobs_unavailable", "prompt_logprobs"),
                                   ({"prompt_logprobs": 21}, "invalid_value", "prompt_logprobs")):
            with self.subTest(fields=str(fields)[:60]):
                error = self.post("/v1/completions", 400, **dict({"prompt": "a"}, **fields))[0]["error"]
                self.assertEqual((error["code"], error["param"]), (code, param), error)


class PromptLogprobs(Routes):
    """A model prepared for them."""
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE, "--prompt-logprobs")

    def test_an_echoed_answer_has_the_logprobs_that_it_was_drawn_with(self):
        drawn = self.post("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=30, logprobs=1)[0]["choices"][0]
        n_prompt = len(self.post("/tokenize", content=PROMPT)[0]["tokens"])
        echoed = self.post("/v1/completions", prompt=PROMPT + drawn["text"], max_tokens=0, echo=True,
                           logprobs=1)[0]
        self.assertEqual(echoed["usage"]["completion_tokens"], 0)
        choice = echoed["choices"][0]
        self.assertEqual(choice["text"], PROMPT + drawn["text"])
        lists = choice["logprobs"]
        self.assertEqual("".join(lists["tokens"]), PROMPT + drawn["text"])
        self.assertEqual((lists["token_logprobs"][0], lists["top_logprobs"][0]), (None, None))
        self.assertEqual(len(lists["tokens"]), echoed["usage"]["prompt_tokens"])
        self.assertEqual(lists["tokens"][n_prompt:], drawn["logprobs"]["tokens"])
        for got, want in zip(lists["token_logprobs"][n_prompt:], drawn["logprobs"]["token_logprobs"]):
            self.assertAlmostEqual(got, want, delta=0.05)  # rows of a chunk round otherwise
        # The same as a list of its own, with what follows.
        both = self.post("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=3, prompt_logprobs=2, n=2)[0]
        for choice in both["choices"]:
            self.assertEqual(len(choice["prompt_logprobs"]), n_prompt)
            self.assertIsNone(choice["prompt_logprobs"][0])
            for entry, want in zip(choice["prompt_logprobs"][1:], lists["token_logprobs"][1:]):
                self.assertAlmostEqual(entry["logprob"], want, delta=0.05)
                self.assertEqual(len(entry["top_logprobs"]), 2)
        self.assertEqual(both["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_a_chat_has_those_of_its_rendered_prompt(self):
        chat = {"messages": [{"role": "user", "content": "Hello!"}]}
        rendered = self.post("/apply-template", **chat)[0]["prompt"]
        fields = {"temperature": 0, "max_tokens": 2, "prompt_logprobs": 3}
        raw = self.post("/v1/completions", prompt=rendered, **fields)[0]["choices"][0]["prompt_logprobs"]
        self.assertGreater(len(raw), 8)
        body = self.post("/v1/chat/completions", n=2, **chat, **fields)[0]
        self.assertEqual(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        connection, response = self.server.open_stream(**chat, **fields)
        ends = [e["choices"][0] for e in events(response) if e != "[DONE]" and e["choices"]]
        connection.close()
        self.assertFalse([e for e in ends[:-1] if "prompt_logprobs" in e])
        for choice in body["choices"] + ends[-1:]:
            self.assertEqual(choice["finish_reason"], "length")
            self.assertIsNone(choice["prompt_logprobs"][0])
            self.assertEqual([e and e["id"] for e in choice["prompt_logprobs"]], [e and e["id"] for e in raw])
            for got, want in zip(choice["prompt_logprobs"][1:], raw[1:]):
                self.assertAlmostEqual(got["logprob"], want["logprob"], delta=0.05)
                self.assertEqual(len(got["top_logprobs"]), 3)


class Native(Routes):
    def test_completion_has_the_native_shape(self):
        body = self.post("/completion", prompt=PROMPT, temperature=0)[0]
        self.assertEqual((body["content"], body["stop"], body["stop_type"]), (self.hello(), True, "eos"))
        self.assertEqual(body["tokens_predicted"], body["timings"]["predicted_n"])
        self.assertEqual(self.post("/detokenize", tokens=body["tokens"])[0]["content"], body["content"])
        limited = self.post("/completion", prompt=PROMPT, temperature=0, n_predict=2)[0]
        self.assertEqual((limited["stop_type"], limited["tokens_predicted"]), ("limit", 2))
        cut = self.post("/completion", prompt=PROMPT, temperature=0, stop=[self.hello()[2:5]])[0]
        self.assertEqual((cut["stop_type"], cut["stopping_word"]), ("word", self.hello()[2:5]))

    def test_streams_end_with_one_stop(self):
        got = self.stream("/completion", prompt=PROMPT, temperature=0)
        self.assertEqual([e["stop"] for e in got], [False] * (len(got) - 1) + [True])
        self.assertEqual("".join(e["content"] for e in got), self.hello())

    def test_grammars_and_schemas_bind(self):
        self.assertRegex(self.post("/completion", prompt=PROMPT, grammar='root ::= [a-c]{5}')[0]["content"], "^[a-c]{5}$")
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
                  "additionalProperties": False}
        self.assertIn(json.loads(self.post("/completion", prompt=PROMPT, json_schema=schema)[0]["content"])["a"], [1, 2])

    def test_tokens_are_those_of_the_command_line(self):
        text = "Hello wörld 🙂 <|im_end|>"
        ids = self.post("/tokenize", content=text)[0]["tokens"]
        listed = json.loads(subprocess.run([FLARE, "tokenize", NANO, "--text", text, "--special", "--json"], check=True,
                                           capture_output=True, text=True).stdout)
        self.assertEqual(ids, listed["result"]["ids"])
        self.assertEqual(self.post("/detokenize", tokens=ids)[0]["content"], text)
        self.assertNotEqual(self.post("/tokenize", content=text, parse_special=False)[0]["tokens"], ids)
        pieces = self.post("/tokenize", content=text, with_pieces=True)[0]["tokens"]
        self.assertEqual([p["id"] for p in pieces], ids)
        self.assertEqual(b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode()
                                  for p in pieces).decode(), text)

    def test_unknown_names_are_listed(self):
        messages = [{"role": "user", "content": "Hello!"}]
        for path, fields in (("/tokenize", {"content": "a", "with_pieces": True}), ("/detokenize", {"tokens": [1]}),
                             ("/tokenize", {"messages": messages, "add_special": False, "n": 1}),
                             ("/apply-template", {"messages": messages, "temperature": 0})):
            self.assertNotIn("x-flare-ignored", self.post(path, **fields)[1])
            self.assertEqual(self.post(path, brand_new=1, **fields)[1]["x-flare-ignored"], "brand_new")

    def test_templates_are_applied_as_for_a_chat(self):
        messages = [{"role": "user", "content": "Hello!"}]
        body = self.post("/apply-template", messages=messages, chat_template_kwargs={"enable_thinking": False})[0]
        self.assertEqual(body["prompt"], PROMPT)
        self.assertEqual(body["tokens"], self.post("/tokenize", messages=messages,
                                                   chat_template_kwargs={"enable_thinking": False})[0]["tokens"])
        self.assertEqual(body["tokens"], self.post("/tokenize", content=PROMPT)[0]["tokens"])
        _, _, chat = self.server.chat(messages=messages, max_tokens=1, chat_template_kwargs={"enable_thinking": False})
        self.assertEqual(chat["usage"]["prompt_tokens"], len(body["tokens"]))

    def test_wrong_fields_have_their_code(self):
        for path, fields, code, param in (("/tokenize", {}, "missing_field", "content"),
                                          ("/tokenize", {"content": 5}, "invalid_type", "content"),
                                          ("/tokenize", {"content": "a", "messages": []}, "conflicting_parameters", "messages"),
                                          ("/detokenize", {}, "missing_field", "tokens"),
                                          ("/detokenize", {"tokens": "abc"}, "invalid_type", "tokens"),
                                          ("/detokenize", {"tokens": [2**31]}, "invalid_value", "tokens"),
                                          ("/apply-template", {"messages": []}, "empty_prompt", "messages"),
                                          ("/completion", {}, "missing_field", "prompt"),
                                          ("/completion", {"prompt": ["a", "b"]}, "invalid_value", "prompt")):
            with self.subTest(path=path, fields=fields):
                error = self.post(path, 400, **fields)[0]["error"]
                self.assertEqual((error["code"], error["param"]), (code, param), error)


if __name__ == "__main__":
    unittest.main()
