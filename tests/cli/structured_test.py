#!/usr/bin/python3
# Structured output on the wire: what a client asks of an answer's text holds, or the request fails
# by name (serving.md S7).
#
# usage: structured_test.py FLARE [unittest arguments]
import json
import re
import sys
import unittest

from flare_process import Server, events

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 3,
                                                                              "maximum": 99},
                         "tags": {"type": "array", "maxItems": 3, "items": {"enum": ["red", "blue"]}}}}


def format_of(schema, **more):
    return {"type": "json_schema", "json_schema": dict({"name": "x", "schema": schema}, **more)}


class Structured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def answer(self, messages=USER, **fields):
        status, headers, body = self.server.chat(messages=messages, temperature=0, **fields)
        self.assertEqual(status, 200, body)
        choice = body["choices"][0]
        return choice["message"], choice["finish_reason"], headers

    def check_person(self, text):
        person = json.loads(text)
        self.assertEqual(set(person), {"name", "age", "tags"})
        self.assertTrue(isinstance(person["name"], str) and len(person["name"]) <= 12)
        self.assertTrue(isinstance(person["age"], int) and 3 <= person["age"] <= 99)
        self.assertTrue(len(person["tags"]) <= 3 and set(person["tags"]) <= {"red", "blue"})

    def test_json_object_answers_are_objects(self):
        message, finish, _ = self.answer(response_format={"type": "json_object"}, max_tokens=300)
        if finish == "stop":
            self.assertIsInstance(json.loads(message["content"]), dict)
        else:
            self.assertTrue(message["content"].startswith("{"))

    def test_schemas_bind_every_spelling_of_the_field(self):
        for fields in ({"response_format": format_of(PERSON)}, {"response_format": format_of(PERSON, strict=True)},
                       {"response_format": {"type": "json_schema", "schema": PERSON}},
                       {"structured_outputs": {"json": PERSON}}, {"structured_outputs": {"json": json.dumps(PERSON)}},
                       {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}):
            with self.subTest(fields=fields):
                message, finish, _ = self.answer(**fields)
                self.assertEqual(finish, "stop")
                self.check_person(message["content"])

    def test_patterns_choices_and_grammars_bind_the_whole_answer(self):
        grammar = 'root ::= "x=" [0-9]{2} (";" [0-9]{2})*'
        for fields, pattern in (({"structured_outputs": {"regex": r"[A-C]{3}-\d{4}"}}, r"[A-C]{3}-\d{4}"),
                                ({"guided_regex": r"(yes|no)!"}, r"(yes|no)!"),
                                ({"structured_outputs": {"choice": ["left", "right"]}}, "left|right"),
                                ({"guided_choice": ["left", "right"]}, "left|right"),
                                ({"structured_outputs": {"grammar": grammar}}, r"x=\d\d(;\d\d)*"),
                                ({"grammar": grammar}, r"x=\d\d(;\d\d)*")):
            with self.subTest(fields=fields):
                message, finish, _ = self.answer(max_tokens=60, **fields)
                if finish == "stop":
                    self.assertRegex(message["content"], "^(" + pattern + ")$")
                else:
                    self.assertTrue(message["content"].startswith("x="))

    def test_streams_say_the_same(self):
        fields = {"messages": USER, "temperature": 0, "response_format": format_of(PERSON)}
        whole = self.answer(**{k: v for k, v in fields.items() if k != "temperature"})[0]["content"]
        connection, response = self.server.open_stream(**fields)
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events(response) if e != "[DONE]")
        connection.close()
        self.assertEqual(text, whole)

    def test_every_choice_is_bound(self):
        _, _, body = self.server.chat(messages=USER, n=3, seed=5, response_format=format_of(PERSON))
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2])
        for choice in body["choices"]:
            self.check_person(choice["message"]["content"])

    def test_b017_reasoning_is_free_and_the_answer_behind_it_is_bound(self):
        message, finish, _ = self.answer(response_format=format_of(PERSON),
                                         chat_template_kwargs={"enable_thinking": True})
        self.assertNotEqual(message.get("reasoning_content", ""), "")
        self.assertEqual(finish, "stop")
        self.check_person(message["content"].lstrip("\n"))

    def test_b075_tools_may_be_called_and_only_a_text_answer_is_bound(self):
        question = [{"role": "user", "content": "How is the weather in Paris?"}]
        message, finish, _ = self.answer(question, tools=WEATHER, response_format=format_of(PERSON))
        self.assertEqual(finish, "tool_calls")
        self.assertEqual(json.loads(message["tool_calls"][0]["function"]["arguments"]), {"city": "Paris"})
        message, finish, _ = self.answer(question, tools=WEATHER, tool_choice="none", response_format=format_of(PERSON))
        self.assertEqual(finish, "stop")
        self.check_person(message["content"])

    def test_a_given_beginning_is_taken_or_refused(self):
        begun = USER + [{"role": "assistant", "content": '{"name":"Bo","age":'}]
        message, finish, _ = self.answer(begun, response_format=format_of(PERSON))
        self.assertEqual(finish, "stop")
        self.check_person(begun[1]["content"] + message["content"])
        status, _, body = self.server.chat(messages=USER + [{"role": "assistant", "content": "Sure: {"}],
                                           response_format=format_of(PERSON))
        self.assertEqual((status, body["error"]["code"]), (400, "constraint_prefill_mismatch"))

    def test_a_stop_string_still_cuts(self):
        message, finish, _ = self.answer(response_format=format_of(PERSON), stop='"age"')
        self.assertEqual(finish, "stop")
        self.assertNotIn("age", message["content"])

    def test_what_is_widened_is_named(self):
        overlapping = {"oneOf": [{"type": "integer"}, {"type": "number"}]}
        _, _, headers = self.answer(response_format=format_of(overlapping), max_tokens=20)
        self.assertIn("oneOf", headers["x-flare-relaxed"])
        ahead = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?=b)b$"}}}
        _, _, headers = self.answer(response_format=format_of(ahead), max_tokens=20)
        self.assertIn("/properties/a/pattern: look-around", headers["x-flare-relaxed"])

    def test_what_cannot_be_held_is_refused_by_name(self):
        for fields, code, param in (
                ({"response_format": {"type": "json_schema"}}, "missing_field", "response_format.schema"),
                ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "missing_field",
                 "response_format.json_schema.schema"),
                ({"response_format": {}}, "missing_field", "response_format.type"),
                ({"response_format": "json"}, "invalid_type", "response_format"),
                ({"response_format": format_of({"not": {}})}, "unsupported_json_schema", None),
                ({"response_format": format_of({"type": "strin"})}, "invalid_json_schema", None),
                ({"response_format": format_of({"type": "string", "minLength": 3, "maxLength": 1})},
                 "unsatisfiable_json_schema", None),
                ({"response_format": format_of({"$ref": "http://example.com/a"})}, "unsupported_json_schema", None),
                ({"structured_outputs": {"regex": "(a"}}, "invalid_regex", None),
                ({"structured_outputs": {"regex": "[^\\s\\S]"}}, "invalid_regex", "structured_outputs.regex"),
                ({"guided_regex": "a[^\\s\\S]"}, "invalid_regex", "guided_regex"),
                ({"structured_outputs": {}}, "missing_field", "structured_outputs"),
                ({"structured_outputs": {"regex": None}}, "missing_field", "structured_outputs"),
                ({"structured_outputs": {"regex": 5}}, "invalid_type", "structured_outputs.regex"),
                ({"structured_outputs": {"choice": []}}, "invalid_value", "structured_outputs.choice"),
                ({"structured_outputs": {"choice": ["a"] * 1025}}, "invalid_value", "structured_outputs.choice"),
                ({"structured_outputs": {"grammar": "root ::= other"}}, "invalid_grammar", None),
                ({"structured_outputs": {"yaml": "x"}}, "unsupported_parameter", "structured_outputs.yaml"),
                ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "conflicting_parameters", None),
                ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "conflicting_parameters", None),
                ({"guided_regex": "a", "ignore_eos": True}, "conflicting_parameters", "ignore_eos"),
                ({"guided_regex": "a" * 70000}, "constraint_too_large", "guided_regex")):
            with self.subTest(fields=str(fields)[:80]):
                for limit in (1, 0):  # whether or not a token is to be generated
                    status, _, body = self.server.chat(messages=USER, max_tokens=limit, **fields)
                    self.assertEqual((status, body["error"]["code"]), (400, code), body)
                if param:
                    self.assertEqual(body["error"]["param"], param)
                else:
                    self.assertTrue(body["error"]["param"], body)

    def test_a_rule_that_begins_with_itself_is_named(self):
        for grammar in ('root ::= items\nitems ::= items "a" | "b"',
                        'root ::= "x" items\nitems ::= tail "a" | "b"\ntail ::= items | "c"'):
            status, _, body = self.server.chat(messages=USER, structured_outputs={"grammar": grammar})
            self.assertEqual((status, body["error"]["code"]), (400, "invalid_grammar"), body)
            self.assertRegex(body["error"]["message"], "'(items|tail)'")
            self.assertIn("left recursion", body["error"]["message"])

    def test_neutral_formats_bind_nothing(self):
        plain = self.answer(max_tokens=8)[0]["content"]
        for fields in ({"response_format": {"type": "text"}}, {"response_format": None}, {"grammar": ""}):
            self.assertEqual(self.answer(max_tokens=8, **fields)[0]["content"], plain)


if __name__ == "__main__":
    unittest.main()
