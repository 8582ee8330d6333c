#!/usr/bin/python3
# Names of request fields: under --strict-fields an endpoint takes each field that serving.md S1, S5,
# S8, S9 and S10 give it, one by one, and no other; types of fields without effect are checked
# (S1.2, S1.3). Headers that a request is judged by have one value.
#
# usage: fields_test.py FLARE [unittest arguments]
import json
import sys
import unittest

from flare_process import Server

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
TOOL = {"name": "get_weather", "description": "", "parameters": {"type": "object", "properties": {}}}

SAMPLING = {
    "temperature": 1, "top_k": 5, "top_p": 0.9, "typical_p": 0.9, "min_p": 0.1, "top_n_sigma": 1,
    "repetition_penalty": 1.1, "repeat_last_n": 64, "presence_penalty": 0.1, "frequency_penalty": 0.1,
    "dry_multiplier": 0.5, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1,
    "xtc_probability": 0.1, "xtc_threshold": 0.1, "logit_bias": {"5": 1}, "min_tokens": 1,
    "ignore_eos": False, "allowed_token_ids": [1, 2, 3], "stop_token_ids": [7], "bad_words": ["x"],
    "seed": -5, "mirostat": 0, "dynatemp_range": 0, "dynatemp_exponent": 1, "use_beam_search": False, "lora": []}
CACHE = {"cache_salt": "a", "session": "b", "prompt_cache_key": "c", "priority": 1}
FORMATS = {"response_format": {"type": "text"}, "structured_outputs": {"regex": "a+"}, "guided_json": {},
           "guided_regex": "a+", "guided_choice": ["a", "b"], "guided_grammar": 'root ::= "a"',
           "grammar": 'root ::= "a"', "json_schema": {}}

# Endpoint: the least body, fields beside it, and fields without effect with a value of a wrong type.
CHAT = ({"messages": USER, "max_tokens": 1}, {
    **SAMPLING, **CACHE, **FORMATS, "model": None, "max_completion_tokens": 1, "stop": ["a"], "n": 2, "stream": False,
    "stream_options": {"include_usage": True}, "tools": [{"type": "function", "function": TOOL}],
    "tool_choice": "none", "parallel_tool_calls": False, "chat_template_kwargs": {"a": 1},
    "continue_final_message": False, "add_generation_prompt": True,
    "prediction": {"type": "content", "content": "a"}, "timings": True, "timings_per_token": True,
    "return_progress": True, "include_reasoning": False, "reasoning_effort": "low", "enable_thinking": False,
    "thinking_budget": 3, "logprobs": True, "top_logprobs": 0, "metadata": {}, "user": "a",
    "safety_identifier": "a", "service_tier": "auto", "verbosity": "low", "prompt_cache_retention": "24h",
    "prompt_cache_options": {}, "store": False, "modalities": ["text"], "functions": [], "function_call": "none",
    "best_of": 1, "cache_prompt": True}, {
    "metadata": "a", "user": 5, "safety_identifier": 5, "service_tier": {}, "verbosity": 5,
    "prompt_cache_retention": 5, "cache_prompt": "true", "prediction": "a", "store": "false"})
COMPLETIONS = ({"prompt": "a", "max_tokens": 1}, {
    **SAMPLING, **CACHE, **FORMATS, "echo": True, "logprobs": 1, "n": 2, "stop": "a", "stream": False,
    "stream_options": {}, "add_special_tokens": False, "timings": True, "timings_per_token": True, "suffix": "",
    "best_of": 1, "store": False, "user": "a", "metadata": {}, "service_tier": "auto", "cache_prompt": True}, {
    "user": 5, "metadata": [], "service_tier": 5, "cache_prompt": 1})
RESPONSES = ({"input": "Hello!", "max_output_tokens": 1}, {
    **SAMPLING, **CACHE, "instructions": "a", "tools": [{"type": "function", **TOOL}], "tool_choice": "auto",
    "parallel_tool_calls": False, "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"},
    "include": ["message.output_text.logprobs"], "top_logprobs": 1, "stream": False, "store": False,
    "previous_response_id": None, "metadata": {"a": "b"}, "stop": "a", "user": "a", "safety_identifier": "a",
    "service_tier": "auto", "prompt_cache_retention": "24h", "prompt_cache_options": {}, "stream_options": {},
    "max_tool_calls": 3, "client_metadata": {}, "background": False, "conversation": None, "prompt": None,
    "truncation": "disabled", "context_management": [], "moderation": None}, {
    "user": 5, "safety_identifier": 5, "service_tier": 5, "prompt_cache_retention": 5, "stream_options": "a",
    "max_tool_calls": "3", "metadata": "a", "background": "no"})
MESSAGES = ({"messages": USER, "max_tokens": 1}, {
    **SAMPLING, **CACHE, "system": "a", "tools": [{"name": "a", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto"}, "thinking": {"type": "disabled"}, "output_config": {"effort": "low"},
    "output_format": {"type": "text"}, "stop_sequences": ["a"], "stream": False,
    "cache_control": {"type": "ephemeral"}, "metadata": {}, "service_tier": "auto", "speed": "fast",
    "inference_geo": "eu", "diagnostics": {}, "context_management": {}, "mcp_servers": [], "container": None}, {
    "metadata": "a", "service_tier": 5, "speed": 5, "inference_geo": 5, "context_management": []})
NATIVE = ({"prompt": "a", "n_predict": 1}, {
    **SAMPLING, **CACHE, **FORMATS, "max_tokens": 1, "stop": ["a"], "stream": False, "n_probs": 1,
    "add_special_tokens": False, "cache_prompt": True, "id_slot": -1, "samplers": ["top_k"],
    "return_tokens": True, "timings_per_token": True}, {
    "cache_prompt": "a", "id_slot": "a", "return_tokens": 1})
TOKENIZE = ({"content": "a"}, {"add_special": True, "parse_special": False, "with_pieces": True}, {})
DETOKENIZE = ({"tokens": [1]}, {"model": None}, {})
ENDPOINTS = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETIONS, "/v1/responses": RESPONSES,
             "/v1/messages": MESSAGES, "/v1/messages/count_tokens": MESSAGES, "/completion": NATIVE,
             "/apply-template": CHAT, "/tokenize": TOKENIZE, "/detokenize": DETOKENIZE}
# What one field needs beside it.
COMPANIONS = {"top_logprobs": {"logprobs": True}, "tool_choice": {"tools": None}}


class FieldNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE, "--strict-fields")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def test_every_documented_field_is_known(self):
        for path, (least, fields, _) in ENDPOINTS.items():
            for name, value in fields.items():
                beside = {other: fields[other] for other in COMPANIONS.get(name, {}) if other in fields}
                with self.subTest(path=path, field=name):
                    status, headers, body = self.server.request("POST", path, {**least, **beside, name: value})
                    self.assertEqual(status, 200, body)
                    self.assertNotIn("x-flare-ignored", headers)

    def test_other_fields_are_named(self):
        for path, (least, _, _) in ENDPOINTS.items():
            with self.subTest(path=path):
                status, _, body = self.server.request("POST", path, {**least, "brand_new": None})
                self.assertEqual((status, body["error"]["code"]), (400, "unknown_field"), body)
                self.assertIn("brand_new", body["error"]["message"])

    def test_types_of_fields_without_effect_are_checked(self):
        for path, (least, _, wrong) in ENDPOINTS.items():
            for name, value in wrong.items():
                with self.subTest(path=path, field=name):
                    status, _, body = self.server.request("POST", path, {**least, name: value})
                    self.assertEqual((status, body["error"]["code"]), (400, "invalid_type"), body)
                    self.assertIn(name, body["error"]["message"])

    def test_headers_that_decide_something_say_it_once(self):
        for name, first, second in (("Content-Type", "application/json", "text/plain"), ("X-Api-Key", "a", "b"),
                                    ("x-request-timeout-ms", "60000", "1"), ("Authorization", "Bearer a", "Bearer b"),
                                    ("Origin", "http://localhost", "https://evil.example")):
            for values, expected in (((first, second), 400), ((first, first), 200)):
                with self.subTest(header=name, values=values):
                    connection = self.server.connect()
                    connection.putrequest("POST", "/tokenize")
                    fields = [("Content-Type", "application/json")] if name != "Content-Type" else []
                    for one in fields + [(name, value) for value in values] + [("Content-Length", "15")]:
                        connection.putheader(*one)
                    connection.endheaders(b'{"content":"a"}')
                    response = connection.getresponse()
                    body = json.loads(response.read())
                    connection.close()
                    self.assertEqual(response.status, expected, body)
                    if expected == 400:
                        self.assertIn(f"header {name.lower()} has several values", body["error"]["message"])


if __name__ == "__main__":
    unittest.main()
