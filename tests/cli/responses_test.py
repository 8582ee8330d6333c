#!/usr/bin/python3
# The Responses API on the wire, with the bundled model (serving.md S1, S2.10, S4–S7).
#
# usage: responses_test.py FLARE [unittest arguments]
import json
import sys
import unittest

from flare_process import Server
from reference_answers import reference_case, reference_cases
from responses_shape import Checker

FLARE = sys.argv.pop(1)
PATH = "/v1/responses"
HELLO = "Hello! How can I help you?"
PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age"],
          "properties": {"name": {"type": "string", "maxLength": 12},
                         "age": {"type": "integer", "minimum": 3, "maximum": 99}}}
PATCH = {"type": "custom", "name": "patch", "description": "Applies a patch.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}


def in_items(messages):
    """Chat messages as items."""
    items = []
    for message in messages:
        if message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"],
                          "output": message["content"]})
            continue
        if message["content"]:
            items.append({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls", []):
            items.append({"type": "function_call", "call_id": call["id"], "name": call["function"]["name"],
                          "arguments": json.dumps(call["function"]["arguments"])})
    return items


def flat(tools):
    return [dict(t["function"], type="function") for t in tools]


def request_of(case):
    messages, fields, answer = case
    body = {"input": in_items(messages)}
    if "tools" in fields:
        body["tools"] = flat(fields["tools"])
    if fields["chat_template_kwargs"]["enable_thinking"]:
        body["reasoning"] = {"effort": "medium"}
    return body, {k: v for k, v in answer.items() if k != "reasoning_tokens"}, answer["reasoning_tokens"]


def said(response):
    """What a response says, in the words of the reference."""
    reasoning, content, calls = "", "", []
    for item in response["output"]:
        if item["type"] == "reasoning":
            reasoning += "".join(p["text"] for p in item.get("content", []) + item["summary"])
        elif item["type"] == "message":
            assert item["role"] == "assistant"
            content += "".join(p["text"] for p in item["content"])
        else:
            calls.append((item["name"], json.loads(item["arguments"])))
    finish = {"completed": "tool_calls" if calls else "stop", "incomplete": "length"}[response["status"]]
    return {"reasoning": reasoning, "content": content, "calls": calls, "finish": finish}


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def post(self, path=PATH, **body):
        return self.server.request("POST", path, dict({"temperature": 0}, **body))

    def respond(self, **body):
        status, _, response = self.post(**body)
        self.assertEqual(status, 200, response)
        return response

    def stream(self, **body):
        return Checker(self.server.named_stream(PATH, dict({"temperature": 0, "stream": True}, **body))).response()

    def refused(self, status=400, **body):
        got, _, response = self.post(**body)
        self.assertEqual(got, status, response)
        return response["error"]

    def count(self, **body):
        status, _, response = self.post(PATH + "/input_tokens", **body)
        self.assertEqual(status, 200, response)
        self.assertEqual(response["object"], "response.input_tokens")
        return response["input_tokens"]

    def test_answers_are_the_reference_ones_whole_and_streamed(self):
        for case in reference_cases():
            body, answer, reasoning_tokens = request_of(case)
            with self.subTest(body=body):
                whole = self.respond(**body)
                self.assertEqual(said(whole), answer)
                self.assertEqual(whole["usage"]["output_tokens_details"], {"reasoning_tokens": reasoning_tokens})
                self.assertEqual(whole["usage"]["input_tokens"], self.count(**body))
                streamed = self.stream(**body)
                self.assertEqual(said(streamed), answer)
                self.assertEqual(streamed["usage"]["output_tokens"], whole["usage"]["output_tokens"])

    def test_the_shape_of_a_response(self):
        response = self.respond(input="Hello!", instructions=None, metadata={"a": "b"}, max_output_tokens=50)
        self.assertRegex(response["id"], r"^resp_\w+$")
        item, = response["output"]
        self.assertRegex(item.pop("id"), r"^msg_\w+$")
        self.assertEqual(item, {"type": "message", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": HELLO, "annotations": [], "logprobs": []}]})
        for member, value in (("object", "response"), ("status", "completed"), ("error", None),
                              ("incomplete_details", None), ("model", "nano"), ("metadata", {"a": "b"}),
                              ("max_output_tokens", 50), ("parallel_tool_calls", True), ("tools", []),
                              ("tool_choice", "auto"), ("temperature", 0), ("previous_response_id", None),
                              ("text", {"format": {"type": "text"}}), ("truncation", "disabled"), ("store", True)):
            self.assertEqual(response[member], value, member)
        self.assertEqual(set(response["usage"]), {"input_tokens", "input_tokens_details", "output_tokens",
                                                  "output_tokens_details", "total_tokens"})

    def test_b039_events_are_in_order(self):
        stream = self.server.named_stream(PATH, {"input": "Hello!", "stream": True, "temperature": 0})
        names = [name.removeprefix("response.") for name, _ in stream]
        deltas = names.count("output_text.delta")
        self.assertGreater(deltas, 2)
        self.assertEqual(names, ["created", "in_progress", "output_item.added", "content_part.added"] +
                         ["output_text.delta"] * deltas +
                         ["output_text.done", "content_part.done", "output_item.done", "completed"])
        self.assertEqual(said(Checker(stream).response())["content"], HELLO)

    def test_log_probabilities_come_with_the_text(self):
        fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "reasoning": {"effort": "low"}}
        for get in (self.respond, self.stream):
            part, = get(input="What is 12 + 30?", **fields)["output"][1]["content"]
            self.assertEqual("".join(one["token"] for one in part["logprobs"]).strip(), part["text"])
            for one in part["logprobs"]:
                self.assertEqual(set(one), {"token", "logprob", "bytes", "top_logprobs"})
                self.assertEqual(len(one["top_logprobs"]), 2)
        stream = self.server.named_stream(PATH, dict(fields, input="What is 12 + 30?", stream=True, temperature=0))
        deltas = [data for name, data in stream if name == "response.output_text.delta"]
        self.assertEqual([one for data in deltas for one in data["logprobs"]], part["logprobs"])

    def test_b043_a_limit_makes_it_incomplete(self):
        for get in (self.respond, self.stream):
            response = get(input="Hello!", max_output_tokens=3)
            self.assertEqual(response["status"], "incomplete")
            self.assertEqual(response["incomplete_details"], {"reason": "max_output_tokens"})
            self.assertEqual(response["output"][-1]["status"], "incomplete")
            self.assertEqual(response["usage"]["output_tokens"], 3)
        thinking = self.stream(input="What is 12 + 30?", reasoning={"effort": "high"}, max_output_tokens=5)
        self.assertEqual([i["type"] for i in thinking["output"]], ["reasoning"])
        self.assertEqual(thinking["usage"]["output_tokens_details"]["reasoning_tokens"], 5)

    def test_b037_a_cut_call_keeps_its_characters_in_both_modes(self):
        messages, fields, answer = reference_case("What is 125 + 340?")
        body = {"input": in_items(messages), "tools": flat(fields["tools"])}
        for limit in (10, 20, 25):
            whole = self.respond(max_output_tokens=limit, **body)
            streamed = self.stream(max_output_tokens=limit, **body)
            self.assertEqual(whole["status"], "incomplete")
            self.assertEqual([i.get("arguments") for i in whole["output"]],
                             [i.get("arguments") for i in streamed["output"]])
            for item in whole["output"]:
                self.assertEqual(item["status"], "incomplete")
                whole_arguments = json.dumps(answer["calls"][0][1]).replace(" ", "")
                self.assertTrue(whole_arguments.startswith(item["arguments"].replace(" ", "")), item)

    def test_b060_b094_every_call_is_an_item(self):
        tools = flat(reference_case("What is 125 + 340?")[1]["tools"])
        for choice in ("required", {"type": "function", "name": "add"}, {
                "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}):
            for get in (self.respond, self.stream):
                with self.subTest(choice=choice, get=get.__name__):
                    response = get(input="Hello!", tools=tools, tool_choice=choice, max_output_tokens=200)
                    self.assertEqual({i["type"] for i in response["output"]}, {"function_call"})
                    ids = [i["call_id"] for i in response["output"]]
                    self.assertEqual(len(set(ids)), len(ids))
                    if choice != "required":
                        self.assertEqual({i["name"] for i in response["output"]}, {"add"})

    def test_a_call_and_its_result_make_an_answer_through_the_store(self):
        messages, fields, answer = reference_case('{"temperature": 3, "sky": "cloudy"}')
        tools = flat(fields["tools"])
        first = self.respond(input=messages[0]["content"], tools=tools)
        call, = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"]}
        text = messages[-1]["content"]
        for output in (text, [{"type": "input_text", "text": text}],
                       [{"type": "output_text", "text": text[:5]}, {"type": "output_text", "text": text[5:]}]):
            by_id = self.respond(previous_response_id=first["id"], tools=tools, input=[dict(result, output=output)])
            self.assertEqual(said(by_id)["content"], answer["content"])
        replayed = self.respond(tools=tools, store=False, input=[
            {"role": "user", "content": messages[0]["content"]}, call, dict(result, output=text)])
        self.assertEqual(said(replayed)["content"], answer["content"])
        referenced = self.respond(tools=tools, input=[
            {"role": "user", "content": messages[0]["content"]}, {"type": "item_reference", "id": call["id"]},
            dict(result, output=text)])
        self.assertEqual(said(referenced)["content"], answer["content"])

    def test_stored_responses_are_found_listed_and_deleted(self):
        first = self.respond(input="Hello!")
        second = self.respond(input=[{"role": "user", "content": [{"type": "input_text", "text": "Who are you?"}]}],
                              previous_response_id=first["id"])
        status, _, again = self.server.request("GET", f"{PATH}/{second['id']}")
        self.assertEqual((status, again), (200, second))
        path = f"{PATH}/{second['id']}/input_items"
        _, _, page = self.server.request("GET", path + "?order=asc")
        self.assertEqual((page["object"], page["has_more"]), ("list", False))
        texts = [i["content"][0]["text"] for i in page["data"]]
        self.assertEqual(texts, ["Hello!", HELLO, "Who are you?"])
        self.assertEqual((page["first_id"], page["last_id"]), (page["data"][0]["id"], page["data"][-1]["id"]))
        _, _, newest = self.server.request("GET", path + "?limit=1")
        self.assertEqual((newest["data"], newest["has_more"]), ([page["data"][2]], True))
        _, _, rest = self.server.request("GET", path + "?after=" + newest["last_id"])
        self.assertEqual(rest["data"], [page["data"][1], page["data"][0]])
        for query in ("limit=0", "limit=x", "order=up", "after=nobody"):
            status, _, body = self.server.request("GET", path + "?" + query)
            self.assertEqual((status, body["error"]["code"]), (400, "invalid_value"), query)
        _, _, gone = self.server.request("DELETE", f"{PATH}/{first['id']}")
        self.assertEqual(gone, {"id": first["id"], "object": "response", "deleted": True})
        for method, path in (("GET", f"{PATH}/{first['id']}"), ("DELETE", f"{PATH}/{first['id']}"),
                             ("GET", f"{PATH}/resp_x"), ("GET", f"{PATH}/resp_x/input_items")):
            status, _, body = self.server.request(method, path)
            self.assertEqual((status, body["error"]["code"]), (404, "response_not_found"))
        # What was made of it goes on.
        third = self.respond(input="Hello!", previous_response_id=second["id"])
        self.assertGreater(third["usage"]["input_tokens"], second["usage"]["input_tokens"])
        for path in ("/cancel", "/compact"):
            status, _, body = self.post(f"{PATH}/{second['id']}{path}")
            self.assertEqual((status, body["error"]["code"]), (404, "not_found"))
        self.assertEqual(self.post(f"{PATH}/compact")[0], 404)

    def test_what_is_not_to_be_stored_is_not(self):
        response = self.respond(input="Hello!", store=False)
        self.assertEqual(self.server.request("GET", f"{PATH}/{response['id']}")[0], 404)
        error = self.refused(input="x", previous_response_id=response["id"])
        self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))

    def test_streams_are_stored_too(self):
        response = self.stream(input="Hello!")
        self.assertEqual(self.server.request("GET", f"{PATH}/{response['id']}")[2], response)

    def test_the_second_turn_reads_the_cache(self):
        first = self.respond(input="Tell me a story. " * 30, max_output_tokens=5)
        second = self.respond(input="Hello!", previous_response_id=first["id"])
        self.assertGreater(second["usage"]["input_tokens_details"]["cached_tokens"], 60)

    def test_instructions_come_first_and_are_not_inherited(self):
        first = self.respond(input="Hello!", instructions="Be brief.")
        self.assertEqual(first["usage"]["input_tokens"], self.count(input=[
            {"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]))
        second = self.respond(input="Hello!", previous_response_id=first["id"])
        self.assertEqual(second["usage"]["input_tokens"], self.count(input=[
            {"role": "user", "content": "Hello!"}, {"role": "assistant", "content": HELLO},
            {"role": "user", "content": "Hello!"}]))

    def test_reasoning_comes_as_text_or_as_summary(self):
        body = {"input": "What is 12 + 30?", "reasoning": {"effort": "low"}}
        for get in (self.respond, self.stream):
            item = get(**body)["output"][0]
            self.assertEqual((item["type"], item["summary"]), ("reasoning", []))
            self.assertEqual(item["content"], [{"type": "reasoning_text", "text": "12 plus 30 makes 42."}])
            self.assertRegex(item["id"], r"^rs_\w+$")
            self.assertNotIn("encrypted_content", item)
            for summary in ("auto", "concise", "detailed"):
                item = get(input=body["input"], reasoning={"effort": "low", "summary": summary})["output"][0]
                self.assertEqual(item["summary"], [{"type": "summary_text", "text": "12 plus 30 makes 42."}])
                self.assertNotIn("content", item)
        self.assertEqual([i["type"] for i in self.respond(input=body["input"], reasoning={"effort": "none"})["output"]],
                         ["message"])
        self.assertEqual([i["type"] for i in self.respond(input=body["input"])["output"]], ["message"])

    def test_sealed_reasoning_is_read_back_and_foreign_one_dropped(self):
        body = {"input": "What is 12 + 30?", "reasoning": {"effort": "low", "summary": "auto"}, "store": False,
                "include": ["reasoning.encrypted_content", "message.output_text.logprobs", "anything"]}
        reasoning, message = self.stream(**body)["output"]
        sealed = reasoning["encrypted_content"]
        self.assertNotIn("makes", sealed)

        def counted(**item):
            # Reasoning behind the last user turn stays in the prompt.
            return self.count(input=[{"role": "user", "content": "What is 12 + 30?"},
                                     dict({"type": "reasoning", "summary": []}, **item),
                                     {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
                                     {"type": "function_call_output", "call_id": "c", "output": "42"}])

        nothing = counted()
        by_text = counted(content=[{"type": "reasoning_text", "text": "12 plus 30 makes 42."}])
        self.assertGreater(by_text, nothing)
        self.assertEqual(counted(encrypted_content=sealed), by_text)
        self.assertEqual(counted(summary=reasoning["summary"]), by_text)
        for foreign in ("gAAAAABo", sealed[:-4], "flare1." + "A" * 40, sealed[:20] + "B" + sealed[21:]):
            self.assertEqual(counted(encrypted_content=foreign), nothing, foreign)

    def test_b049_hosted_tools_are_left_out(self):
        messages, fields, answer = reference_case("How is the weather in Paris?")
        tools = [{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": []}, {"type": "image_generation"},
                 *flat(fields["tools"])]
        body = {"input": in_items(messages)}
        response = self.respond(tools=tools, **body)
        self.assertEqual(said(response)["calls"], answer["calls"])
        self.assertEqual(response["tools"], tools)  # as they were sent
        self.assertEqual(self.count(tools=tools, **body), self.count(tools=tools[3:], **body))
        self.assertGreater(self.count(tools=tools + [PATCH], **body), self.count(tools=tools, **body))

    def test_a_custom_tool_gets_one_text(self):
        for get in (self.respond, self.stream):
            response = get(input="Hello!", tools=[PATCH], tool_choice={"type": "custom", "name": "patch"},
                           max_output_tokens=200)
            item = response["output"][0]
            self.assertEqual((item["type"], item["name"]), ("custom_tool_call", "patch"))
            self.assertRegex(item["id"], r"^ctc_\w+$")
            self.assertRegex(item["call_id"], r"^call_\w+$")
            self.assertIsInstance(item["input"], str)
            self.assertNotIn('{"input"', item["input"])
        call = dict(item, input='a "quoted"\nline')
        history = [{"role": "user", "content": "Hello!"}, call,
                   {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}]
        function = [history[0], {"type": "function_call", "call_id": call["call_id"], "name": "patch",
                                 "arguments": json.dumps({"input": call["input"]})},
                    dict(history[2], type="function_call_output")]
        self.assertEqual(self.count(input=history, tools=[PATCH]), self.count(input=function, tools=[PATCH]))
        self.respond(input=history, tools=[PATCH], max_output_tokens=20)

    def test_b079_what_agents_replay_is_taken(self):
        items = [{"role": "developer", "content": "Be brief."},
                 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which month"},
                                                                 {"type": "input_text", "text": " comes after May?"}]},
                 {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "foreign"},
                 {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
                     {"type": "output_text", "text": "June", "annotations": []},
                     {"type": "refusal", "refusal": " comes after May."}]},
                 {"type": "web_search_call", "id": "ws_1", "status": "completed"},
                 {"type": "compaction", "encrypted_content": "x"},
                 {"role": "user", "content": "Which month comes after May?"}]
        plain = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which month comes after May?"},
                 {"role": "assistant", "content": "June comes after May."},
                 {"role": "user", "content": "Which month comes after May?"}]
        self.assertEqual(self.count(input=items), self.count(input=plain))
        self.assertEqual(said(self.respond(input=items))["content"], "June comes after May.")

    def test_what_one_answer_said_is_one_turn(self):
        parts = [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
                 {"role": "assistant", "content": "Let me see."}]
        calls = [{"type": "function_call", "call_id": i, "name": "f", "arguments": "{}"} for i in "ab"]
        results = [{"type": "function_call_output", "call_id": i, "output": i} for i in "ab"]
        user = [{"role": "user", "content": "Hi"}]
        chat = {"messages": user + [
            {"role": "assistant", "reasoning_content": "hm", "content": "Let me see.", "tool_calls": [
                {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in "ab"]},
            {"role": "tool", "tool_call_id": "a", "content": "a"}, {"role": "tool", "tool_call_id": "b", "content": "b"}]}
        _, _, answer = self.server.chat(max_tokens=0, **chat)
        self.assertEqual(self.count(input=user + parts + calls + results), answer["usage"]["prompt_tokens"])
        self.assertEqual(self.count(input=user + parts + calls + results[::-1]), answer["usage"]["prompt_tokens"])

    def test_b001_b002_history_is_normalised_as_in_chat(self):
        self.respond(input=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"},
                            {"role": "system", "content": "answer only BLUE"}, {"role": "user", "content": "sky?"}])
        for arguments in ("", None):
            self.respond(max_output_tokens=5, input=[
                {"role": "user", "content": "hi"},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments},
                {"type": "function_call_output", "call_id": "a", "output": "x"}])
        error = self.refused(input=[{"role": "user", "content": "hi"},
                                    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "[1"},
                                    {"type": "function_call_output", "call_id": "a", "output": "x"}])
        self.assertEqual(error["code"], "invalid_tool_history")

    def test_b017_a_text_format_binds_the_text_behind_the_reasoning(self):
        for extra in ({}, {"strict": True}):
            for reasoning in ({}, {"reasoning": {"effort": "low"}}):
                response = self.respond(input="Hello!", text={"format": {"type": "json_schema", "name": "p",
                                                                         "schema": PERSON, **extra}}, **reasoning)
                kinds = [i["type"] for i in response["output"]]
                self.assertEqual(kinds, ["reasoning", "message"] if reasoning else ["message"])
                self.assertEqual(set(json.loads(response["output"][-1]["content"][0]["text"])), {"name", "age"})
        self.assertEqual(self.refused(input="x", text={"format": {"type": "json_schema", "name": "p"}})["param"],
                         "text.format.schema")

    def test_what_is_wrong_is_named(self):
        tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
        for body, code, param in (
                ({}, "missing_field", "input"), ({"input": 5}, "invalid_type", "input"),
                ({"input": []}, "empty_prompt", "input"), ({"input": [5]}, "invalid_type", "input[0]"),
                ({"input": [{}]}, "missing_field", "input[0].type"),
                ({"input": [{"type": 5, "role": "user"}]}, "invalid_type", "input[0].type"),
                ({"input": [{"role": "robot", "content": "x"}]}, "invalid_messages", "input[0].role"),
                ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "unsupported_content_part",
                 "input[0].content[0]"),
                ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]},
                 "vision_unavailable", "input[0].content[0]"),
                ({"instructions": "x", "input": [{"type": "web_search_call"}, {"role": "user", "content": "a"}, {
                    "role": "user", "content": [{"type": "input_text", "text": "b"}, {
                        "type": "input_image", "image_url": "data:,"}]}]}, "vision_unavailable", "input[2].content[1]"),
                ({"input": [{"role": "user", "content": "a"}, {"type": "reasoning", "summary": []},
                            {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
                            {"type": "function_call", "name": "f", "call_id": "d", "arguments": "[1]"}]},
                 "invalid_tool_history", "input[3].arguments"),
                ({"input": [{"role": "user", "content": "a"},
                            {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}]},
                 "prefill_not_supported", "input[1]"),
                ({"input": "a b " * 5000}, "context_length_exceeded", "input"),
                ({"input": [{"type": "item_reference", "id": "msg_x"}]}, "invalid_value", "input[0].id"),
                ({"input": [{"type": "function_call", "name": "f"}]}, "missing_field", "input[0].call_id"),
                ({"input": "x", "max_output_tokens": -1}, "invalid_value", "max_output_tokens"),
                ({"input": "x", "temperature": "0"}, "invalid_type", "temperature"),
                ({"input": "x", "metadata": {str(i): "" for i in range(17)}}, "invalid_value", "metadata"),
                ({"input": "x", "reasoning": {"effort": "extreme"}}, "invalid_value", "reasoning.effort"),
                ({"input": "x", "reasoning": {"effort": 7}}, "reasoning_level_unavailable", "reasoning.effort"),
                ({"input": "x", "reasoning": {"summary": "long"}}, "invalid_value", "reasoning.summary"),
                ({"input": "x", "tools": [{"name": "f"}]}, "missing_field", "tools[0].type"),
                ({"input": "x", "tools": [{"type": "function"}]}, "missing_field", "tools[0].name"),
                ({"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "g"}},
                 "invalid_tool_choice", "tool_choice"),
                ({"input": "x", "tool_choice": {"type": "web_search"}}, "invalid_tool_choice", "tool_choice"),
                ({"input": "x", "tool_choice": "required"}, "invalid_tool_choice", "tool_choice"),
                ({"input": "x", "background": True}, "unsupported_parameter", "background"),
                ({"input": "x", "conversation": "c"}, "unsupported_parameter", "conversation"),
                ({"input": "x", "prompt": {"id": "p"}}, "unsupported_parameter", "prompt"),
                ({"input": "x", "truncation": "auto"}, "unsupported_parameter", "truncation"),
                ({"input": "x", "context_management": [{}]}, "unsupported_parameter", "context_management"),
                ({"input": "x", "moderation": {}}, "unsupported_parameter", "moderation"),
                ({"input": "x", "previous_response_id": "resp_x"}, "previous_response_not_found",
                 "previous_response_id")):
            with self.subTest(body=body):
                error = self.refused(**body)
                self.assertEqual(error["code"], code, error)
                self.assertEqual(error["param"], param)
                self.assertNotIn("messages[", error["message"])
        self.assertEqual(said(self.respond(input="Hello!", background=False, conversation=None, truncation="disabled",
                                           tools=None, text=None))["content"], HELLO)

    def test_unknown_names_are_listed(self):
        _, headers, _ = self.post(input="Hello!", brand_new=1, max_output_tokens=1)
        self.assertEqual(headers["x-flare-ignored"], "brand_new")


class Ends(unittest.TestCase):
    def test_a_failed_response_keeps_what_it_said(self):
        server = Server(FLARE)

        def failed(body):
            """A stream that its deadline ends behind some text, whatever the machine's speed."""
            timeout_ms = 2000
            for _ in range(20):
                connection = server.connect()
                connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json",
                                                                    "x-request-timeout-ms": str(timeout_ms)})
                answer = connection.getresponse()
                text = answer.read().decode()
                connection.close()
                if answer.status == 504:
                    timeout_ms *= 2
                    continue
                named = [event.split("\n") for event in text[:-2].split("\n\n") if not event.startswith(":")]
                response = Checker([(n.removeprefix("event: "), json.loads(d.removeprefix("data: ")))
                                    for n, d in named]).response()
                if response["status"] == "failed" and response["output"]:
                    return response
                timeout_ms = timeout_ms * 3 // 2 if response["status"] == "failed" else timeout_ms // 2
            raise AssertionError("no deadline fell into the answer")

        try:
            body = {"input": "Tell me a story about Mia.", "stream": True, "ignore_eos": True, "temperature": 0}
            response = failed(body)
            self.assertEqual(response["error"]["code"], "server_error")
            item, = response["output"]
            self.assertEqual((item["type"], item["status"]), ("message", "incomplete"))
            self.assertTrue(item["content"][0]["text"])
            self.assertGreater(response["usage"]["input_tokens"], 5)
            self.assertGreater(response["usage"]["output_tokens"], 0)
            self.assertEqual(server.request("GET", f"{PATH}/{response['id']}")[2], response)
            again = server.request("POST", PATH, {"previous_response_id": response["id"], "input": "Hello!",
                                                  "max_output_tokens": 1, "temperature": 0})
            self.assertEqual(again[0], 200, again)
            unkept = failed(dict(body, store=False))
            self.assertEqual(server.request("GET", f"{PATH}/{unkept['id']}")[0], 404)
            self.assertEqual(server.stop(), 0)
        finally:
            server.kill()

    def test_b054_an_error_in_a_stream_is_its_last_event(self):
        server = Server(FLARE, "--drain-timeout", "0")
        try:
            connection, response = server.open(PATH, {"input": "Hello!", "stream": True, "ignore_eos": True})
            response.readline()
            server.process.terminate()
            *_, last, end = response.read().decode().split("\n\n")
            self.assertEqual(end, "")
            name, data = last.split("\n")
            failed = json.loads(data.removeprefix("data: "))
            self.assertEqual((name, failed["type"]), ("event: response.failed", "response.failed"))
            self.assertEqual(failed["response"]["status"], "failed")
            self.assertEqual(failed["response"]["error"]["code"], "server_error")
            connection.close()
        finally:
            server.kill()


class Roles(unittest.TestCase):
    """Endpoints of roles that the bundled model does not have."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def refused(self, path, body):
        status, _, answer = self.server.request("POST", path, body)
        self.assertEqual(status, 400, answer)
        return answer["error"]["code"]

    def test_b033_embeddings_of_every_kind_of_input_need_the_role(self):
        for text in ("a", ["a", "b"], [1, 2], [[1], [2]]):
            for form in ("float", "base64"):
                body = {"model": "nano", "input": text, "encoding_format": form}
                self.assertEqual(self.refused("/v1/embeddings", body), "capability_unavailable")
        for body, code in (({}, "missing_field"), ({"input": 5}, "invalid_type"), ({"input": []}, "invalid_value"),
                           ({"input": ["a", 1]}, "invalid_type"), ({"input": "a", "encoding_format": "hex"},
                                                                   "invalid_value")):
            self.assertEqual(self.refused("/v1/embeddings", body), code, body)

    def test_reranking_and_scores_need_their_roles(self):
        for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
            self.assertEqual(self.refused(path, {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}),
                             "capability_unavailable")
            self.assertEqual(self.refused(path, {"query": "q"}), "missing_field")
            self.assertEqual(self.refused(path, {"query": "q", "documents": ["a"] * 1001}), "invalid_value")
        for path in ("/v1/score", "/score"):
            self.assertEqual(self.refused(path, {"text_1": "a", "text_2": ["b", "c"]}), "capability_unavailable")
            self.assertEqual(self.refused(path, {"prompt": "a", "choices": ["b", "c"]}), "capability_unavailable")
            self.assertEqual(self.refused(path, {"text_1": "a"}), "missing_field")


if __name__ == "__main__":
    unittest.main()
