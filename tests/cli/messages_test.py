#!/usr/bin/python3
# The Messages API on the wire, with the bundled model (serving.md S1, S2.11, S3–S7, S10.4).
#
# usage: messages_test.py FLARE [unittest arguments]
import json
import re
import sys
import unittest

from flare_process import Server
from messages_shape import joined
from reference_answers import reference_case, reference_cases

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
HELLO = "Hello! How can I help you?"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age"],
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "age": {"type": "integer", "minimum": 3, "maximum": 99}}}


def in_blocks(message):
    """A chat message as Messages has it: role and content."""
    if message["role"] == "tool":
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"],
                                             "content": message["content"]}]}
    if not message.get("tool_calls"):
        return {"role": message["role"], "content": message["content"]}
    calls = [{"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": c["function"]["arguments"]}
             for c in message["tool_calls"]]
    text = [{"type": "text", "text": message["content"]}] if message["content"] else []
    return {"role": "assistant", "content": text + calls}


def in_schemas(tools):
    return [{"name": t["function"]["name"], "description": t["function"].get("description", ""),
             "input_schema": t["function"]["parameters"]} for t in tools]


def request_of(case):
    """The Messages request of a reference case, and the answer it must get."""
    messages, fields, answer = case
    body = {"messages": [in_blocks(m) for m in messages if m["role"] != "system"]}
    system = [m["content"] for m in messages if m["role"] == "system"]
    if system:
        body["system"] = system[0]
    if "tools" in fields:
        body["tools"] = in_schemas(fields["tools"])
    if fields["chat_template_kwargs"]["enable_thinking"]:
        body["thinking"] = {"type": "adaptive"}
    return body, answer


def said(message):
    """What a message says, in the words of the reference."""
    kinds = [b["type"] for b in message["content"]]
    assert kinds == sorted(kinds, key=["thinking", "text", "tool_use"].index), kinds
    return {"reasoning": "".join(b["thinking"] for b in message["content"] if b["type"] == "thinking"),
            "content": "".join(b["text"] for b in message["content"] if b["type"] == "text"),
            "calls": [(b["name"], b["input"]) for b in message["content"] if b["type"] == "tool_use"],
            "finish": {"end_turn": "stop", "tool_use": "tool_calls"}.get(message["stop_reason"],
                                                                         message["stop_reason"])}


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def post(self, path="/v1/messages", headers=None, **body):
        body = dict({"model": "claude-any", "max_tokens": 200, "messages": USER, "temperature": 0}, **body)
        return self.server.request("POST", path, {k: v for k, v in body.items() if v is not Ellipsis}, headers)

    def message(self, **body):
        status, _, answer = self.post(**body)
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, **body):
        body = dict({"model": "m", "max_tokens": 200, "messages": USER, "temperature": 0, "stream": True}, **body)
        return joined(self.server.named_stream("/v1/messages", body))

    def refused(self, status=400, **body):
        got, headers, answer = self.post(**body)
        self.assertEqual(got, status, answer)
        self.assertEqual((answer["type"], set(answer)), ("error", {"type", "error", "request_id"}))
        self.assertEqual(set(answer["error"]), {"type", "message", "code"})
        self.assertEqual(answer["request_id"], headers["request-id"])
        return answer["error"]

    def count(self, **body):
        status, _, answer = self.post("/v1/messages/count_tokens", max_tokens=..., **body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(set(answer), {"input_tokens"})
        return answer["input_tokens"]

    def test_answers_are_the_reference_ones_whole_and_streamed(self):
        for case in reference_cases():
            body, answer = request_of(case)
            with self.subTest(body=body):
                whole = self.message(**body)
                expected = {k: v for k, v in answer.items() if k != "reasoning_tokens"}
                self.assertEqual(said(whole), expected)
                usage = whole["usage"]
                self.assertEqual(usage["output_tokens_details"]["thinking_tokens"], answer["reasoning_tokens"])
                streamed = self.stream(**body)
                self.assertEqual(said(streamed), expected)
                self.assertEqual(streamed["usage"]["output_tokens"], usage["output_tokens"])

    def test_the_shape_of_a_message(self):
        message = self.message(model="claude-opus-9")
        self.assertRegex(message.pop("id"), r"^msg_\w+$")
        usage = message.pop("usage")
        self.assertEqual(message, {"type": "message", "role": "assistant", "model": "claude-opus-9",
                                   "content": [{"type": "text", "text": HELLO}], "stop_reason": "end_turn",
                                   "stop_sequence": None})
        self.assertEqual(set(usage), {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
                                      "output_tokens", "output_tokens_details"})

    def test_b052_blocks_of_a_stream_keep_their_order(self):
        """Reasoning, text, then calls; what the model does not say by itself a beginning makes it say."""
        thought = self.stream(messages=[{"role": "user", "content": "What is 12 + 30?"}],
                              thinking={"type": "enabled", "budget_tokens": 4000})
        self.assertEqual([b["type"] for b in thought["content"]], ["thinking", "text"])
        self.assertTrue(thought["content"][0]["signature"])
        tools = reference_case("What is 125 + 340?")[1]["tools"]
        forced = self.stream(messages=[{"role": "user", "content": "What is 125 + 340?"}], tools=in_schemas(tools),
                             tool_choice={"type": "any"})
        self.assertIn("tool_use", [b["type"] for b in forced["content"]])
        for block in forced["content"]:
            if block["type"] == "tool_use":
                self.assertRegex(block["id"], r"^toolu_\w+$")
                self.assertIsInstance(json.loads(block["partial"]), dict)
        self.assertEqual(forced["stop_reason"], "tool_use")

    def test_stop_reasons(self):
        self.assertEqual(self.message(max_tokens=3)["stop_reason"], "max_tokens")
        stopped = self.message(stop_sequences=["nothing", " can I"])
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", " can I"))
        self.assertEqual(stopped["content"], [{"type": "text", "text": "Hello! How"}])
        streamed = self.stream(stop_sequences=["nothing", " can I"])
        self.assertEqual({k: streamed[k] for k in ("stop_reason", "stop_sequence", "content")},
                         {k: stopped[k] for k in ("stop_reason", "stop_sequence", "content")})
        full = self.message(max_tokens=10**12, ignore_eos=True,
                            messages=[{"role": "user", "content": "a b c d e f g h " * 220}])
        self.assertEqual(full["stop_reason"], "model_context_window_exceeded")
        self.assertEqual(self.message(stop_token_ids=[6])["stop_reason"], "stop_sequence")

    def test_b037_a_cut_call_has_its_complete_members(self):
        messages, fields, answer = reference_case("What is 125 + 340?")
        body = {"messages": messages, "tools": in_schemas(fields["tools"])}
        (name, arguments), = answer["calls"]
        seen = []
        for limit in range(1, 30):
            message = self.message(max_tokens=limit, **body)
            self.assertEqual(message["stop_reason"], "max_tokens")
            for block in message["content"]:
                if block["type"] == "text":  # no tool is named yet
                    self.assertEqual(seen, [])
                    continue
                self.assertEqual((block["type"], block["name"]), ("tool_use", name))
                self.assertTrue(block["input"].items() <= arguments.items(), block)
                seen.append(len(block["input"]))
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(set(seen), {0, 1, 2} if 2 in seen else {0, 1})
        streamed = self.stream(max_tokens=20, **body)
        self.assertEqual(streamed["stop_reason"], "max_tokens")
        partial = streamed["content"][0]["partial"].replace(" ", "")
        self.assertTrue(json.dumps(arguments).replace(" ", "").startswith(partial), streamed)

    def test_b060_a_named_choice_ends_with_tool_use(self):
        tools = in_schemas(reference_case("What is 125 + 340?")[1]["tools"])
        for choice in ({"type": "tool", "name": "add"}, {"type": "any"},
                       {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}):
            for get in (self.message, self.stream):
                with self.subTest(choice=choice, get=get.__name__):
                    message = get(tools=tools, tool_choice=choice)
                    calls = [b for b in message["content"] if b["type"] == "tool_use"]
                    self.assertEqual(message["stop_reason"], "tool_use")
                    self.assertEqual({b["name"] for b in calls}, {choice["name"]} if "name" in choice else
                                     {b["name"] for b in calls})

    def test_no_call_is_made_where_none_is_to_be(self):
        messages, fields, _ = reference_case("How is the weather in Paris?")
        tools = in_schemas(fields["tools"])
        message = self.message(messages=messages, tools=tools, tool_choice={"type": "none"}, max_tokens=40)
        self.assertNotIn("tool_use", [b["type"] for b in message["content"]])
        # The tools stand in the prompt all the same.
        self.assertEqual(self.count(messages=messages, tools=tools, tool_choice={"type": "none"}),
                         self.count(messages=messages, tools=tools))

    def test_a_call_and_its_result_make_an_answer(self):
        messages, fields, answer = reference_case('{"temperature": 3, "sky": "cloudy"}')
        tools = in_schemas(fields["tools"])
        asked = {"role": "user", "content": messages[0]["content"]}
        call = self.message(messages=[asked], tools=tools)
        self.assertEqual(said(call)["calls"], [("get_weather", {"city": "Oslo"})])
        for content in (messages[-1]["content"], [{"type": "text", "text": messages[-1]["content"]}],
                        [{"type": "text", "text": messages[-1]["content"][:9]},
                         {"type": "text", "text": messages[-1]["content"][9:]}]):
            result = {"type": "tool_result", "tool_use_id": call["content"][0]["id"], "content": content}
            last = self.message(tools=tools, messages=[
                asked, {"role": "assistant", "content": call["content"]},
                {"role": "user", "content": [result, {"type": "text", "text": ""}]}])
            self.assertEqual(said(last)["content"], answer["content"])

    def test_results_are_put_in_call_order(self):
        tools = in_schemas(reference_case("What is 125 + 340?")[1]["tools"])
        calls = [{"type": "tool_use", "id": i, "name": "add", "input": {"a": 1, "b": 2}} for i in ("x", "y")]
        results = [{"type": "tool_result", "tool_use_id": i, "content": text} for i, text in (("x", "3"), ("y", "44"))]
        history = USER + [{"role": "assistant", "content": calls}]
        first, second = (self.message(tools=tools, messages=history + [{"role": "user", "content": list(order)}])
                         for order in (results, reversed(results)))
        self.assertEqual(first["content"], second["content"])
        self.assertGreater(second["usage"]["cache_read_input_tokens"], 0.9 * sum(
            first["usage"][n] for n in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")))

    def test_b065_images_in_tool_results_are_named_to_a_model_that_reads_text_only(self):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        tools = in_schemas(reference_case("How is the weather in Paris?")[1]["tools"])

        def counted(content):
            return self.count(tools=tools, messages=USER + [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get_weather",
                                                   "input": {"city": "Rome"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]}])

        self.assertEqual(counted([{"type": "text", "text": "seen: "}, image]),
                         counted("seen: [image omitted: no vision]"))
        error = self.refused(messages=[{"role": "user", "content": [image]}])
        self.assertEqual((error["type"], error["code"]), ("invalid_request_error", "vision_unavailable"))

    def test_b080_what_coding_agents_send_is_taken(self):
        agent = {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
                 "messages": [{"role": "user", "content": [{"type": "text", "text": ""},
                                                           {"type": "text", "text": "Which month comes after May?"}]},
                              {"role": "assistant", "content": [{"type": "thinking", "thinking": "easy"},
                                                                {"type": "redacted_thinking", "data": "x"},
                                                                {"type": "text", "text": "June comes after May."}]},
                              {"role": "user", "content": [{"type": "text", "text": "Which month comes after May?",
                                                            "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}],
                 "metadata": {"user_id": "u"}, "context_management": {"edits": []}, "brand_new_field": 1,
                 "tools": [{"type": "web_search_20250305", "name": "web_search"}, {"name": "f", "input_schema": {
                     "type": "object", "properties": {}}}]}
        status, headers, answer = self.post("/v1/messages?beta=true", headers={"anthropic-beta": "a,b"}, **agent)
        self.assertEqual(status, 200, answer)
        self.assertEqual(headers["x-flare-ignored"], "brand_new_field")
        usage = answer["usage"]
        counted = self.count(**agent)
        self.assertEqual(counted, usage["input_tokens"] + usage["cache_read_input_tokens"] +
                         usage["cache_creation_input_tokens"])
        again = self.message(**agent)["usage"]
        self.assertEqual(counted, again["input_tokens"] + again["cache_read_input_tokens"] +
                         again["cache_creation_input_tokens"])
        self.assertGreater(again["cache_read_input_tokens"], 0)

    def test_b004_a_billing_header_does_not_hide_the_prefix(self):
        def asked(cch, first=True):
            header = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={cch};"}
            text = {"type": "text", "text": "You are a test. " * 8}
            return self.message(system=[header, text] if first else [text, header], max_tokens=8)

        before = asked("aaaaa")["usage"]
        after = asked("bbbbb")["usage"]
        total = before["input_tokens"] + before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
        self.assertGreater(after["cache_read_input_tokens"], 0.7 * total)
        self.assertEqual(self.count(system="You are a test. " * 8), total)
        # Elsewhere the same words are text.
        self.assertGreater(asked("ccccc", first=False)["usage"]["input_tokens"] +
                           asked("ccccc", first=False)["usage"]["cache_read_input_tokens"], 0)
        words = "x-anthropic-billing-header: cch=d;"
        self.assertGreater(self.count(messages=[{"role": "user", "content": words}]),
                           self.count(messages=[{"role": "user", "content": ""}]) + 5)

    def test_b001_system_text_anywhere_is_taken(self):
        for messages in ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"},
                          {"role": "system", "content": "answer only BLUE"}, {"role": "user", "content": "sky?"}],
                         [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}] + USER):
            self.message(messages=messages)
        self.assertEqual(self.count(messages=[{"role": "system", "content": "a"}] + USER), self.count(system="a"))

    def test_what_is_marked_is_counted_as_kept(self):
        mark = {"cache_control": {"type": "ephemeral"}}
        text = "Unheard words about harbours and feathers. " * 4
        body = {"system": [{"type": "text", "text": text, **mark}], "cache_salt": "marks"}
        whole = self.count(**body)
        first = self.message(**body)["usage"]
        self.assertEqual(first["cache_read_input_tokens"], 0)
        self.assertGreater(first["cache_creation_input_tokens"], 20)
        self.assertGreater(first["input_tokens"], 5)  # the user's turn
        self.assertEqual(sum(first[n] for n in ("input_tokens", "cache_creation_input_tokens")), whole)
        other = dict(body, messages=[{"role": "user", "content": "Spell apple."}])
        second = self.message(**other)["usage"]
        self.assertEqual(second["cache_read_input_tokens"], first["cache_creation_input_tokens"])
        self.assertEqual(second["cache_creation_input_tokens"], 0)
        unmarked = self.message(system=text, cache_salt="no marks")["usage"]
        self.assertEqual((unmarked["cache_read_input_tokens"], unmarked["cache_creation_input_tokens"]), (0, 0))
        later = self.message(cache_salt="other", system=text, messages=[
            {"role": "user", "content": [dict(type="text", text="Hello!", **mark)]}])["usage"]
        self.assertGreater(later["cache_creation_input_tokens"], first["cache_creation_input_tokens"])
        tools = in_schemas(reference_case("What is 125 + 340?")[1]["tools"])
        tools[-1].update(mark)
        usage = self.message(cache_salt="tools", tools=tools)["usage"]
        self.assertGreater(usage["cache_creation_input_tokens"], 50)
        # A mark stands behind its block, not behind the message.
        block = dict(type="text", text=text, **mark)
        tail = "Something else that is asked for. " * 4
        for place in ("system", "user"):
            with self.subTest(place=place):
                def marked(end, last={}, place=place):
                    content = [block, dict(type="text", text=tail + end, **last)]
                    body = {"system": content} if place == "system" else {
                        "messages": [{"role": "user", "content": content}]}
                    return self.message(cache_salt="block " + place, **body)["usage"]

                first = marked("One.")
                self.assertGreater(first["cache_creation_input_tokens"], 20)
                self.assertGreater(first["input_tokens"], 20)
                second = marked("Two.")
                self.assertGreaterEqual(second["cache_read_input_tokens"], first["cache_creation_input_tokens"])
                third = marked("Three.", mark)
                self.assertGreater(third["cache_read_input_tokens"] + third["cache_creation_input_tokens"],
                                   first["cache_creation_input_tokens"] + 20)
        error = self.refused(system=[{"type": "text", "text": "x", **mark}] * 5)
        self.assertEqual(error["code"], "invalid_value")

    def test_thinking_is_switched_by_every_type(self):
        question = {"messages": [{"role": "user", "content": "What is 12 + 30?"}]}
        for thinking, expected in (({"type": "enabled", "budget_tokens": 1024}, True), ({"type": "adaptive"}, True),
                                   ({"type": "disabled"}, False), ({"type": "between_tools"}, False),
                                   ({"type": "enabled", "budget_tokens": 0}, False), (None, False)):
            with self.subTest(thinking=thinking):
                message = self.message(thinking=thinking, **question)
                self.assertEqual([b["type"] for b in message["content"]],
                                 ["thinking", "text"] if expected else ["text"])
                self.assertEqual(message["content"][-1]["text"], "12 + 30 = 42")
        omitted = {"type": "adaptive", "display": "omitted"}
        for get in (self.message, self.stream):
            block = get(thinking=omitted, **question)["content"][0]
            self.assertEqual((block["type"], block["thinking"]), ("thinking", ""))
            self.assertTrue(block["signature"])
        # Effort alone asks for no thinking.
        message = self.message(output_config={"effort": "high"}, **question)
        self.assertEqual([b["type"] for b in message["content"]], ["text"])

    def test_a_budget_ends_the_block(self):
        question = {"messages": [{"role": "user", "content": "What is 12 + 30?"}]}
        full = self.message(thinking={"type": "adaptive"}, **question)["content"][0]["thinking"]
        for budget in (1, 3, 5):
            for get in (self.message, self.stream):
                message = get(thinking={"type": "enabled", "budget_tokens": budget}, max_tokens=60, **question)
                thinking, text = message["content"]
                self.assertTrue(full.startswith(thinking["thinking"].rstrip("\n")), thinking)
                self.assertLess(len(thinking["thinking"]), len(full))
                self.assertEqual(text["type"], "text")
                closing = message["usage"]["output_tokens_details"]["thinking_tokens"] - budget
                self.assertIn(closing, (1, 2, 3))

    def test_b017_output_format_binds_the_text_behind_the_reasoning(self):
        for config in ({"output_config": {"format": {"type": "json_schema", "schema": PERSON}}},
                       {"output_format": {"type": "json_schema", "schema": PERSON}}):
            for extra in ({}, {"thinking": {"type": "adaptive"}}):
                message = self.message(**config, **extra)
                self.assertEqual(message["content"][0]["type"], "thinking" if extra else "text")
                person = json.loads(message["content"][-1]["text"])
                self.assertEqual(set(person), {"name", "age"})
                self.assertTrue(3 <= person["age"] <= 99)
        error = self.refused(output_config={"format": {"type": "json_schema", "schema": {"not": {}}}})
        self.assertEqual(error["code"], "unsupported_json_schema")

    def test_b025_a_beginning_is_continued(self):
        begun = [{"role": "user", "content": "What is the capital of Italy?"}]
        whole = said(self.message(messages=begun))["content"]
        for start in ("The", "The capital of"):
            message = self.message(messages=begun + [{"role": "assistant", "content": start}])
            self.assertEqual(start + said(message)["content"], whole)
        for empty in ("", [], [{"type": "text", "text": ""}]):
            self.assertEqual(said(self.message(messages=begun + [{"role": "assistant", "content": empty}]))["content"],
                             whole)
        error = self.refused(messages=begun + [{"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}}]}])
        self.assertEqual(error["code"], "prefill_not_supported")

    def test_documents_of_text_are_text(self):
        document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hello!"}}
        self.assertEqual(said(self.message(messages=[{"role": "user", "content": [document]}]))["content"], HELLO)
        pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
        error = self.refused(messages=[{"role": "user", "content": [pdf]}])
        self.assertEqual(error["code"], "unsupported_content_part")

    def test_blocks_of_hosted_tools_are_left_out(self):
        history = [{"role": "user", "content": "Hi"},
                   {"role": "assistant", "content": [
                       {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                       {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                       {"type": "text", "text": HELLO}]}] + USER
        plain = [history[0], {"role": "assistant", "content": HELLO}] + USER
        self.assertEqual(self.count(messages=history), self.count(messages=plain))

    def test_b013_a_prompt_beyond_the_context_is_refused(self):
        error = self.refused(messages=[{"role": "user", "content": "word " * 6000}])
        self.assertEqual((error["type"], error["code"]), ("invalid_request_error", "context_length_exceeded"))
        self.assertEqual(len(re.findall(r"\d{4}", error["message"])), 2, error)

    def test_what_is_wrong_is_named(self):
        tool = {"name": "f", "input_schema": {"type": "object"}}
        cases = (({"max_tokens": ...}, "missing_field", "max_tokens"), ({"max_tokens": 0}, "invalid_value", "max_tokens"),
                 ({"max_tokens": "5"}, "invalid_type", "max_tokens"), ({"messages": ...}, "missing_field", "messages"),
                 ({"messages": []}, "empty_prompt", "messages"), ({"messages": {}}, "invalid_type", "messages"),
                 ({"messages": [{"content": "x"}]}, "missing_field", "messages[0].role"),
                 ({"messages": [{"role": "tool", "content": "x"}]}, "invalid_messages", "messages[0].role"),
                 ({"messages": [{"role": "user", "content": 5}]}, "invalid_type", "messages[0].content"),
                 ({"messages": [{"role": "user", "content": ["x"]}]}, "invalid_type", "messages[0].content[0]"),
                 ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "missing_field", "content[0].type"),
                 ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "missing_field", "content[0].text"),
                 ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "unsupported_content_part", "audio"),
                 ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}]},
                  "unsupported_content_part", "tool_use"),
                 ({"messages": USER + [{"role": "assistant", "content": [
                     {"type": "tool_use", "id": "a", "name": "f", "input": "[1"}]}] + USER}, "invalid_tool_history", ""),
                 ({"system": 5}, "invalid_type", "system"), ({"temperature": 101}, "invalid_value", "temperature"),
                 ({"temperature": "0.7"}, "invalid_type", "temperature"),
                 ({"stop_sequences": "x"}, "invalid_type", "stop_sequences"),
                 ({"tools": [{"name": "a b", "input_schema": {}}]}, "invalid_value", "tools[0].name"),
                 ({"tools": [tool], "tool_choice": {"type": "tool", "name": "g"}}, "invalid_tool_choice", "g"),
                 ({"tool_choice": {"type": "any"}}, "invalid_tool_choice", "tool_choice"),
                 ({"tool_choice": {"type": "perhaps"}}, "invalid_value", "tool_choice.type"),
                 ({"thinking": {"type": "sometimes"}}, "invalid_value", "thinking.type"),
                 ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "invalid_value", "thinking.budget_tokens"),
                 ({"thinking": {"type": "enabled"}, "output_config": {"effort": "none"}}, "conflicting_parameters", ""),
                 ({"output_config": {"effort": "extreme"}}, "invalid_value", "output_config.effort"),
                 ({"mcp_servers": [{"url": "x"}]}, "unsupported_parameter", "mcp_servers"),
                 ({"container": "x"}, "unsupported_parameter", "container"))
        for body, code, words in cases:
            with self.subTest(body=body):
                error = self.refused(**body)
                self.assertEqual((error["type"], error["code"]), ("invalid_request_error", code), error)
                self.assertIn(words, error["message"])
        self.assertEqual(self.message(mcp_servers=[], container=None, tools=None)["content"][0]["text"], HELLO)

    def test_other_errors_have_the_same_shape(self):
        status, _, answer = self.server.request("POST", "/v1/messages", b"{", {"Content-Type": "application/json"})
        self.assertEqual((status, answer["error"]["code"]), (400, "invalid_json"))
        self.assertEqual(answer["type"], "error")
        status, headers, answer = self.server.request("GET", "/v1/messages")
        self.assertEqual((status, headers["Allow"], answer["error"]["type"]), (405, "POST", "invalid_request_error"))


class Ends(unittest.TestCase):
    """Streams that wait or are cut, each on a server of its own."""

    ENDLESS = {"model": "m", "max_tokens": 4000, "messages": USER, "ignore_eos": True, "stream": True}

    def test_b007_a_waiting_stream_is_kept_alive_by_ping_events(self):
        server = Server(FLARE, "--max-concurrency", "1", "--sse-ping", "1", "--pending-timeout", "0")
        try:
            ahead = [server.open("/v1/messages", self.ENDLESS) for _ in range(4)]  # one runs, three wait
            waiting, response = server.open("/v1/messages", dict(self.ENDLESS, max_tokens=1))
            self.assertEqual(response.status, 200)
            self.assertEqual(response.readline(), b"event: ping\n")
            self.assertEqual(json.loads(response.readline().removeprefix(b"data: ")), {"type": "ping"})
            for connection, _ in ahead:
                connection.close()
            rest = response.read().decode().split("\n\n")
            self.assertIn("event: message_stop", rest[-2])
            waiting.close()
        finally:
            server.kill()

    def test_b054_an_error_in_a_stream_is_its_last_event(self):
        server = Server(FLARE, "--drain-timeout", "0")
        try:
            connection, response = server.open("/v1/messages", self.ENDLESS)
            response.readline()
            server.process.terminate()
            *_, last, end = response.read().decode().split("\n\n")
            self.assertEqual(end, "")
            name, data = last.split("\n")
            error = json.loads(data.removeprefix("data: "))
            self.assertEqual((name, error["type"], error["error"]["type"]),
                             ("event: error", "error", "overloaded_error"))
            self.assertEqual(error["request_id"], response.headers["request-id"])
            connection.close()
        finally:
            server.kill()


class Overload(unittest.TestCase):
    def test_a_full_queue_is_529(self):
        server = Server(FLARE, "--max-pending", "0")
        try:
            long = {"model": "m", "max_tokens": 4000, "messages": USER, "ignore_eos": True, "stream": True}
            busy = []
            while True:
                connection, response = server.open("/v1/messages", long)
                if response.status != 200:
                    break
                busy.append(connection)
                response.readline()
            answer = json.loads(response.read())
            self.assertEqual((response.status, answer["error"]["type"], answer["error"]["code"]),
                             (529, "overloaded_error", "server_overloaded"))
            self.assertTrue(int(response.headers["Retry-After"]) >= 0)
            for one in busy + [connection]:
                one.close()
        finally:
            server.kill()


if __name__ == "__main__":
    unittest.main()
