#!/usr/bin/python3
# Who gets into `flare run`: keys, origins, hosts, and the form of what the others are told.
#
# usage: security_test.py FLARE [unittest arguments]
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from flare_process import PATIENCE_S, Server, events

FLARE = sys.argv.pop(1)
USER = [{"role": "user", "content": "Hello!"}]
CHAT = {"messages": USER, "max_tokens": 2, "temperature": 0}
JSON = {"Content-Type": "application/json"}
OPEN = ("/health", "/live", "/ready", "/version")


class WithKeys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.keys = pathlib.Path(cls.folder.name, "keys")
        cls.keys.write_text("# callers\nk one\nanother two\n")
        cls.keys.chmod(0o600)
        cls.server = Server(FLARE, "--api-key-file", str(cls.keys), "--cors-origin", "*", "--host", "0.0.0.0")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.folder.cleanup()

    def ask(self, method, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.request(method, path, body, headers)

    def test_B108_keys_in_every_header_that_clients_use(self):
        for headers in ({"Authorization": "Bearer k"}, {"Authorization": "bearer k"}, {"x_api_key": "k"},
                        {"Authorization": "Bearer another"}):
            self.assertEqual(self.ask("POST", "/v1/chat/completions", CHAT, **headers)[0], 200)
            self.assertEqual(self.ask("GET", "/v1/models", **headers)[0], 200)
            self.assertEqual(self.ask("GET", "/nope", **headers)[0], 404)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"x_api_key": "wrong"}, {"Authorization": "k"}):
            for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/nope"),
                                 ("DELETE", "/v1/chat/completions"), ("GET", "/metrics")):
                with self.subTest(headers=headers, path=path):
                    status, got, body = self.ask(method, path, None, **headers)
                    self.assertEqual((status, body["error"]["code"], body["error"]["type"]),
                                     (401, "invalid_api_key", "authentication_error"))
                    self.assertEqual(got["WWW-Authenticate"], "Bearer")
                    self.assertNotIn("wrong", json.dumps(body))
            status, got, body = self.ask("POST", "/v1/messages?beta=true", CHAT, **headers)
            self.assertEqual((status, body["type"], body["error"]["type"], body["request_id"]),
                             (401, "error", "authentication_error", got["request-id"]))
        for path in OPEN:
            self.assertEqual(self.ask("GET", path)[0], 200)

    def test_a_refused_body_is_not_awaited(self):
        connection = self.server.connect()
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("Content-Length", str(32 << 20))
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 401)
        connection.close()

    def test_B032_preflight_without_key_and_the_origin_on_real_answers(self):
        origin = "https://chat.example"
        status, headers, _ = self.ask("OPTIONS", "/v1/chat/completions", Origin=origin,
                                      Access_Control_Request_Method="POST",
                                      Access_Control_Request_Headers="authorization,x-stainless-os")
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization,x-stainless-os")
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        for _ in range(2):
            self.assertEqual(headers["Access-Control-Allow-Origin"], origin)
            self.assertNotIn("Access-Control-Allow-Credentials", headers)
            status, headers, _ = self.ask("POST", "/v1/chat/completions", CHAT, Origin=origin, x_api_key="k")
            self.assertEqual(status, 200)
        # Errors too: else the page could not read why.
        status, headers, _ = self.ask("POST", "/v1/chat/completions", CHAT, Origin=origin)
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (401, origin))
        connection = self.server.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(dict(CHAT, stream=True)),
                           dict(JSON, Origin=origin, Authorization="Bearer k"))
        response = connection.getresponse()
        self.assertEqual(response.headers["Access-Control-Allow-Origin"], origin)
        self.assertEqual(list(events(response))[-1], "[DONE]")
        connection.close()

    def test_B063_callers_with_different_keys_share_no_cached_prefix(self):
        def cached(key, **fields):
            body = dict(CHAT, messages=[{"role": "user", "content": "One, two, three. " * 40}], **fields)
            status, _, answer = self.ask("POST", "/v1/chat/completions", body, x_api_key=key)
            self.assertEqual(status, 200, answer)
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached("k"), 0)
        self.assertGreater(cached("k"), 0)
        self.assertEqual(cached("another"), 0)
        self.assertGreater(cached("another"), 0)
        self.assertEqual(cached("another", cache_salt="mine"), 0)

    def test_the_log_and_the_command_line_hold_no_key(self):
        self.ask("POST", "/v1/chat/completions", CHAT, x_api_key="another")
        self.ask("POST", "/v1/chat/completions", CHAT, x_api_key="unheard")
        log = "\n".join(self.server.lines)
        self.assertNotIn("another", log)
        self.assertNotIn("unheard", log)


class WithoutKeys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(FLARE, "--allowed-host", "box.example", "--cors-origin", "https://chat.example",
                            "--max-body", "1M")

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def test_B032_only_listed_origins_and_loopback_hosts(self):
        for headers, status, code in (
                ({"Origin": "https://chat.example"}, 200, None),
                ({"Origin": f"http://127.0.0.1:{self.server.port}"}, 200, None),  # its own page
                ({"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
                ({"Origin": "null"}, 403, "origin_not_allowed"),
                ({"Host": "box.example:99"}, 200, None),
                ({"Host": "evil.example"}, 403, "host_not_allowed"),
                ({"Host": "evil.example", "Origin": "http://evil.example"}, 403, "host_not_allowed")):
            with self.subTest(headers=headers):
                got, answer_headers, body = self.server.request("GET", "/v1/models", None, headers)
                self.assertEqual(got, status)
                if code:
                    self.assertEqual(body["error"]["code"], code)
                self.assertEqual(answer_headers["Access-Control-Allow-Origin"],
                                 headers.get("Origin") if status == 200 else None)
        status, _, body = self.server.request("OPTIONS", "/v1/messages", None, {
            "Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual((status, body["error"]["code"]), (403, "origin_not_allowed"))

    def test_every_answer_has_its_ids_and_the_form_of_its_protocol(self):
        for method, path, body, headers, status in (
                ("POST", "/v1/messages", b"x" * 100, {"Content-Length": str(2 << 20)}, 413),
                ("POST", "/v1/messages", b"{}", {"Origin": "https://evil.example"}, 403),
                ("POST", "/v1/messages/nope", b"{}", {}, 404),
                ("POST", "/v1/chat/completions", b"{", JSON, 400),
                ("POST", "/v1/chat/completions", b"{}", {"Content-Type": "text/plain"}, 415),
                ("GET", "/health", None, {}, 200),
                ("OPTIONS", "/health", None, {}, 405)):
            with self.subTest(path=path, status=status):
                got, answer_headers, answer = self.server.request(method, path, body,
                                                                  dict({"X-Request-Id": "mine-1"}, **headers))
                self.assertEqual(got, status, answer)
                self.assertEqual((answer_headers["x-request-id"], answer_headers["request-id"]), ("mine-1",) * 2)
                if path.startswith("/v1/messages"):
                    self.assertEqual((answer["type"], answer["request_id"]), ("error", "mine-1"))
                elif status >= 400:
                    self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})


    def chat(self, messages, **fields):
        return self.server.request("POST", "/v1/chat/completions", dict(CHAT, messages=messages, **fields))

    def refusal(self, messages):
        status, _, body = self.chat(messages)
        return status, body["error"]["code"]

    def test_B024_deep_json_ends_its_request_alone(self):
        deep = b"[" * 100_000
        for body in (deep, b'{"messages":' + deep, b'{"messages":' + deep + b"]" * 100_000 + b"}",
                     b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
            status, _, answer = self.server.request("POST", "/v1/chat/completions", body, JSON)
            self.assertEqual((status, answer["error"]["code"]), (400, "invalid_json"))
        self.assertEqual(self.chat(USER)[0], 200)

    def test_B082_a_text_model_has_no_eyes(self):
        # A pixel, what is none, a remote one: nothing of them is looked at or fetched (S11.5).
        for url in ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw"
                    "AAAABJRU5ErkJggg==", "data:image/png;base64,!", "https://127.0.0.1:1/picture.png"):
            part = {"type": "image_url", "image_url": {"url": url}}
            self.assertEqual(self.refusal([{"role": "user", "content": [{"type": "text", "text": "?"}, part]}]),
                             (400, "vision_unavailable"))

    def test_B065_an_image_in_a_tool_result_is_left_out(self):
        messages = USER + [
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
                                                  "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": [
                {"type": "text", "text": "seen "}, {"type": "image_url", "image_url": {"url": "data:,"}}]}]
        status, _, body = self.server.request("POST", "/apply-template", {"messages": messages})
        self.assertEqual(status, 200, body)
        self.assertIn("seen [image omitted: no vision]", body["prompt"])
        self.assertEqual(self.chat(messages)[0], 200)

    def test_B081_a_data_url_beyond_the_limit_is_no_image_but_a_body(self):
        url = "data:image/png;base64," + "A" * (2 << 20)
        status, _, body = self.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])
        self.assertEqual((status, body["error"]["code"]), (413, "body_too_large"))
        self.assertNotIn("AAAAAAAA", "\n".join(self.server.lines) + json.dumps(body))


class Start(unittest.TestCase):
    def refused(self, *flags):
        done = subprocess.run([FLARE, "run", "--port", "0", *flags], capture_output=True, text=True,
                              timeout=PATIENCE_S)
        self.assertTrue(done.stderr.splitlines()[-1].startswith("hint: "), done.stderr)
        return done.returncode, done.stderr

    def test_another_host_needs_keys_or_the_word_for_none(self):
        code, text = self.refused("--host", "0.0.0.0")
        self.assertEqual(code, 2)
        self.assertIn("--api-key-file", text)
        self.assertIn("--allow-unauthenticated", text)

    def test_key_files_that_others_can_write_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("secret-key label\n")
            for mode in (0o666, 0o620):
                keys.chmod(mode)
                code, text = self.refused("--api-key-file", str(keys))
                self.assertEqual(code, 4)
                self.assertIn("chmod", text)
                self.assertNotIn("secret-key", text)
        self.assertEqual(self.refused("--api-key-file", "/no/such/file")[0], 3)

    def test_any_origin_needs_keys(self):
        self.assertEqual(self.refused("--cors-origin", "*")[0], 2)
        self.assertEqual(self.refused("--cors-origin", "chat.example")[0], 2)
        self.assertEqual(self.refused("--allowed-host", "http://x")[0], 2)


if __name__ == "__main__":
    unittest.main()
