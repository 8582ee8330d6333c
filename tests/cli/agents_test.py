#!/usr/bin/python3
# What coding agents and chat pages really send, with the bundled model (serving.md S16).
#
# usage: agents_test.py FLARE [unittest arguments]
import json
import sys
import threading
import unittest

from flare_process import Server, events
from messages_shape import joined
from reference_answers import reference_case
from responses_shape import Checker

FLARE = sys.argv.pop(1)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CACHED = {"cache_control": {"type": "ephemeral"}}


class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.lines

    def claude_code(self, turn, cch):
        """A request in the manner of Claude Code, its conversation `turn` turns long."""
        tools = [{"name": f"Tool{i}", "description": f"Does thing {i}.", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
            "properties": {"path": {"type": "string"}, "n": {"type": "integer", "minimum": 0}},
            "required": ["path"]}} for i in range(20)]
        messages = [
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nBe quick.\n</system-reminder>"},
                                         {"type": "text", "text": ""}, {"type": "text", "text": "Look at it."}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I read the picture.", "signature": ""},
                {"type": "text", "text": ""},
                {"type": "tool_use", "id": "toolu_1", "name": "Tool1", "input": {"path": "a.png"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]}]},
            {"role": "system", "content": "The file changed."},
            {"role": "user", "content": [dict(type="text", text="What is the capital of Italy?", **CACHED)]}]
        if turn == 2:
            messages += [{"role": "assistant", "content": [{"type": "text", "text": "Rome."}]},
                         {"role": "user", "content": [dict(type="text", text="Thanks!", **CACHED)]}]
        return {"model": "claude-opus-4-5-20251101", "max_tokens": 32, "stream": True, "temperature": 1,
                "metadata": {"user_id": "user_1"}, "messages": messages, "tools": tools,
                "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                "system": [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={cch};"},
                           dict(type="text", text="You are Claude Code.", **CACHED),
                           dict(type="text", text="Here are your rules. " * 20, **CACHED)]}

    def test_claude_code(self):
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking",
                   "x-app": "cli", "user-agent": "claude-cli/2.1 (external, cli)"}
        path = "/v1/messages?beta=true"
        usages = []
        for turn, cch in ((1, "aaaa"), (2, "bbbb")):
            body = self.claude_code(turn, cch)
            usages.append(joined(self.server.named_stream(path, body))["usage"])
            counted = {k: v for k, v in body.items() if k not in ("max_tokens", "stream", "temperature", "metadata")}
            status, _, count = self.server.request("POST", "/v1/messages/count_tokens?beta=true", counted, headers)
            self.assertEqual(status, 200, count)
            self.assertEqual(count["input_tokens"], sum(usages[-1][n] for n in (
                "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")))
        first, second = usages
        self.assertGreater(first["cache_creation_input_tokens"], 100)
        # All of the first prompt but its generation prompt.
        self.assertGreater(second["cache_read_input_tokens"], 0.9 * first["cache_creation_input_tokens"])

    def test_codex(self):
        tools = [{"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": False,
                  "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"],
                                 "additionalProperties": False}},
                 {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {
                     "type": "grammar", "syntax": "lark", "definition": "start: begin_patch hunk+ end_patch"}},
                 {"type": "web_search", "external_web_access": False}, {"type": "local_shell"}]
        body = {"model": "nano", "instructions": "You are a coding agent.", "store": False, "stream": True,
                "include": ["reasoning.encrypted_content"], "parallel_tool_calls": False, "tool_choice": "auto",
                "tools": tools, "reasoning": {"effort": "medium", "summary": "auto"}, "prompt_cache_key": "thread-1",
                "text": {"verbosity": "low"}, "service_tier": "auto", "client_metadata": {"x": "y"},
                "max_output_tokens": 200, "temperature": 0,
                "input": [{"type": "message", "role": "developer", "content": [
                              {"type": "input_text", "text": "<permissions>read only</permissions>"}]},
                          {"type": "message", "role": "user", "content": [
                              {"type": "input_text", "text": "What is 12 + 30?"}]}]}
        first = Checker(self.server.named_stream("/v1/responses", body)).response()
        self.assertEqual(first["output"][0]["type"], "reasoning")
        self.assertTrue(first["output"][0]["encrypted_content"])
        body["input"] += first["output"] + [
            {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "a.txt"}]},
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "call_2"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Success."},
            {"type": "local_shell_call", "call_id": "call_3", "status": "completed", "action": {}},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is 12 + 30?"}]}]
        second = Checker(self.server.named_stream("/v1/responses", body)).response()
        self.assertIn(second["status"], ("completed", "incomplete"))
        self.assertGreater(second["usage"]["input_tokens_details"]["cached_tokens"], 50)
        self.assertEqual(self.server.request("GET", "/v1/responses/" + second["id"])[0], 404)

    def test_open_webui(self):
        _, _, models = self.server.request("GET", "/v1/models")
        self.assertEqual([m["id"] for m in models["data"]], ["nano"])
        chat = {"model": "nano", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0,
                "messages": [{"role": "user", "content": "What is 12 + 30?"}], "reasoning_effort": "high",
                "chat_id": "c", "session_id": "s", "id": "m", "background_tasks": {"title_generation": True},
                "features": {"web_search": False}, "variables": {"{{USER_NAME}}": "u"}, "filter_ids": [],
                "tool_ids": None, "tool_servers": []}
        connection, response = self.server.open("/v1/chat/completions", chat)
        self.assertEqual(response.status, 200)
        self.assertIn("chat_id", response.headers["x-flare-ignored"])
        # The title is asked for beside the stream.
        titles = []
        title = threading.Thread(target=lambda: titles.append(self.server.chat(
            model="nano", stream=False, max_completion_tokens=20,
            messages=[{"role": "user", "content": "### Task:\nGenerate a title."}])))
        title.start()
        chunks = list(events(response))
        connection.close()
        title.join()
        self.assertEqual(titles[0][0], 200)
        self.assertEqual(chunks.pop(), "[DONE]")
        self.assertTrue(chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] > 5)
        deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), "12 plus 30 makes 42.")
        self.assertEqual("".join(d.get("content", "") for d in deltas), "12 + 30 = 42")
        status, _, answer = self.server.chat(messages=[{"role": "user", "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]}])
        self.assertEqual((status, answer["error"]["code"]), (400, "vision_unavailable"))
        # The stop button closes the connection.
        connection, response = self.server.open_stream(messages=chat["messages"], ignore_eos=True, max_tokens=4000)
        response.readline()
        connection.close()
        messages, fields, answer = reference_case("Spell apple.")
        _, _, body = self.server.chat(messages=messages, temperature=0, **fields)
        self.assertEqual(body["choices"][0]["message"]["content"], answer["content"])


if __name__ == "__main__":
    unittest.main()
