#!/usr/bin/python3
# `flare tokenize`, `detokenize` and `render` as processes, against the bundled model's own records.
#
# usage: tokenize_test.py FLARE [unittest arguments]
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

FLARE = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
CASES = [c for c in json.loads((NANO / "greedy.json").read_text())["cases"] if c.get("messages")]
SENTENCEPIECE = ROOT.parent / "shared/data/goldens/tokenizers/sentencepiece"
VOCABULARIES = ROOT.parent / "shared/data/tokenizers/gguf-vocab"


def flare(*words, stdin=""):
    return subprocess.run([FLARE, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=120)


def result(*words, stdin=""):
    done = flare("--json", *words, stdin=stdin)
    if done.returncode != 0:
        raise AssertionError(done.stderr + done.stdout)
    return json.loads(done.stdout)["result"]


class Tokenize(unittest.TestCase):
    def test_prompts_have_the_reference_ids(self):
        for case in CASES[:5]:
            got = result("tokenize", NANO, "--special", "--text", case["prompt"])
            self.assertEqual(got["ids"], case["prompt_ids"])
            self.assertEqual("".join(got["pieces"]), case["prompt"])

    def test_markers_are_text_unless_asked_for(self):
        plain = result("tokenize", NANO, "--text", "a<|im_end|>b")["ids"]
        special = result("tokenize", NANO, "--text", "a<|im_end|>b", "--special")["ids"]
        self.assertNotIn(2, plain)
        self.assertIn(2, special)

    def test_text_comes_from_flag_file_or_standard_input(self):
        wanted = result("tokenize", NANO, "--text", "Hello, world")["ids"]
        self.assertEqual(result("tokenize", NANO, stdin="Hello, world")["ids"], wanted)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "text")
            path.write_text("Hello, world")
            self.assertEqual(result("tokenize", NANO, "--file", path)["ids"], wanted)
        lines = flare("tokenize", NANO, "--text", "Hello, world").stdout.splitlines()
        self.assertEqual([int(line.split()[0]) for line in lines], wanted)
        self.assertEqual("".join(json.loads(line[9:]) for line in lines), "Hello, world")
        self.assertEqual(flare("tokenize", NANO, "--text", "").stdout, "")

    def test_parts_of_characters_are_bytes(self):
        pieces = result("tokenize", NANO, "--text", "\U0001fae0")["pieces"]
        self.assertEqual(b"".join(bytes(p) if isinstance(p, list) else p.encode() for p in pieces).decode(),
                         "\U0001fae0")

    def test_many_texts_a_line_each(self):
        texts = ["Hello", "", "zwei\nZeilen", "<|im_end|>"]
        done = flare("tokenize", NANO, "--jsonl", "-", stdin="".join(json.dumps(t) + "\n" for t in texts))
        ids = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(ids, [result("tokenize", NANO, "--text", t)["ids"] for t in texts])
        back = flare("detokenize", NANO, "--jsonl", "-", stdin=done.stdout)
        self.assertEqual([json.loads(line) for line in back.stdout.splitlines()], texts)
        bad = flare("tokenize", NANO, "--jsonl", "-", stdin='"a"\n5\n')
        self.assertEqual(bad.returncode, 4)
        self.assertIn("line 2", bad.stderr)

    def test_a_tokenizer_alone_is_enough(self):
        wanted = result("tokenize", NANO, "--text", "Hello, world")["ids"]
        self.assertEqual(result("tokenize", NANO / "tokenizer.json", "--text", "Hello, world")["ids"], wanted)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
                shutil.copy(NANO / name, folder)
            self.assertEqual(result("tokenize", folder, "--text", "Hello, world")["ids"], wanted)
            chat = pathlib.Path(folder, "chat.json")
            chat.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
            self.assertEqual(flare("render", folder, "--messages", chat).stdout,
                             flare("render", NANO, "--messages", chat).stdout)

    @unittest.skipUnless(SENTENCEPIECE.exists(), f"{SENTENCEPIECE} is absent")
    def test_a_sentencepiece_model_is_a_tokenizer(self):
        model = next(iter(sorted(SENTENCEPIECE.glob("*.model"))))
        done = flare("tokenize", model, "--text", "hello world", "--special")
        self.assertEqual(done.returncode, 0, done.stderr)
        ids = ",".join(line.split()[0] for line in done.stdout.splitlines())
        self.assertEqual(flare("detokenize", model, "--tokens", ids).stdout.strip(), "hello world")

    @unittest.skipUnless(VOCABULARIES.exists(), f"{VOCABULARIES} is absent")
    def test_gguf_vocabularies_give_their_recorded_ids(self):
        n = vocabularies = 0
        for path in sorted(VOCABULARIES.glob("*.gguf")):
            texts, ids = pathlib.Path(f"{path}.inp"), pathlib.Path(f"{path}.out")
            if not texts.exists():
                continue
            blocks = texts.read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
            done = flare("tokenize", path, "--special", "--jsonl", "-",
                         stdin="".join(json.dumps(b) + "\n" for b in blocks))
            if done.returncode != 0:  # a kind of vocabulary that no model here has
                self.assertRegex(done.stderr, r"tokenizer\.ggml\.(pre|model)")
                continue
            vocabularies += 1
            for text, line, wanted in zip(blocks, done.stdout.splitlines(), ids.read_text().splitlines()):
                self.assertEqual(json.loads(line), [int(x) for x in wanted.split()], (path.name, text))
                n += 1
        self.assertGreater(vocabularies, 1)
        self.assertGreater(n, 40)


class Detokenize(unittest.TestCase):
    def test_special_tokens_are_visible(self):
        case = CASES[0]
        tokens = ",".join(map(str, case["prompt_ids"]))
        self.assertEqual(flare("detokenize", NANO, "--tokens", tokens).stdout, case["prompt"])
        self.assertEqual(result("detokenize", NANO, "--tokens", tokens), {"text": case["prompt"]})

    def test_wrong_ids_are_named(self):
        done = flare("detokenize", NANO, "--tokens", "1,99999999")
        self.assertEqual(done.returncode, 2)
        self.assertIn("99999999", done.stderr)
        for wrong, item in (("x", "item 1 is 'x'"), ("1,,2", "item 2 is ''"), ("1,2,", "item 3 is ''"),
                            (",1", "item 1 is ''"), ("1 2,x", "item 3 is 'x'"), ("1,-2", "item 2 is '-2'")):
            done = flare("detokenize", NANO, "--tokens", wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(f"--tokens: {item}, expected token ids", done.stderr)
        self.assertEqual(flare("detokenize", NANO).returncode, 2)
        for wrong in ("-1", "99999999999", "1.5", '"a"', "1e400"):
            done = flare("detokenize", NANO, "--jsonl", "-", stdin=f"[1]\n[2, {wrong}]\n")
            self.assertEqual((done.returncode, done.stdout.count("\n")), (4, 1))
            self.assertIn("line 2", done.stderr)
            self.assertIn(wrong if wrong != "1e400" else "number", done.stderr)
            self.assertNotIn("damaged", done.stderr)


class Render(unittest.TestCase):
    def test_prompts_are_the_reference_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            chat = pathlib.Path(folder, "chat.json")
            for case in CASES[:8]:
                request = {"messages": case["messages"]}
                if case.get("tools"):
                    request["tools"] = case["tools"]
                if case.get("enable_thinking") is not None:
                    request["chat_template_kwargs"] = {"enable_thinking": case["enable_thinking"]}
                chat.write_text(json.dumps(request))
                self.assertEqual(flare("render", NANO, "--messages", chat).stdout, case["prompt"])
                self.assertEqual(result("render", NANO, "--messages", chat),
                                 {"prompt": case["prompt"], "ids": case["prompt_ids"]})

    def test_tools_come_from_a_file_too(self):
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
        with tempfile.TemporaryDirectory() as folder:
            chat, listed = pathlib.Path(folder, "chat.json"), pathlib.Path(folder, "tools.json")
            chat.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
            listed.write_text(json.dumps(tools))
            self.assertIn("get_weather", flare("render", NANO, "--messages", chat, "--tools", listed).stdout)

    def test_many_conversations_and_prefill(self):
        chats = [[{"role": "user", "content": "Hi"}],
                 [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "According to "}]]
        done = flare("render", NANO, "--jsonl", "-", stdin="".join(json.dumps(c) + "\n" for c in chats))
        first, second = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", first)
        self.assertTrue(second.endswith("According to "), second)

    def test_errors_name_file_and_cause(self):
        with tempfile.TemporaryDirectory() as folder:
            chat = pathlib.Path(folder, "chat.json")
            chat.write_text(json.dumps([{"role": "robot", "content": "Hi"}]))
            done = flare("render", NANO, "--messages", chat)
            self.assertEqual(done.returncode, 4)
            self.assertIn("chat.json: 'messages[0].role'", done.stderr)
            bad = pathlib.Path(folder, "bad.jinja")
            bad.write_text("\n{% frobnicate %}")
            chat.write_text(json.dumps([{"role": "user", "content": "Hi"}]))
            done = flare("render", NANO, "--messages", chat, "--chat-template", bad)
            self.assertEqual(done.returncode, 4)
            self.assertIn("bad.jinja: line 2: unknown tag 'frobnicate'", done.stderr)
            bad.write_text("\n{{ raise_exception('No.') }}")
            done = flare("render", NANO, "--messages", chat, "--chat-template", bad)
            self.assertEqual(done.returncode, 4)
            self.assertIn("bad.jinja: line 2: No.", done.stderr)
            for request in ({"tools": "x"}, {"chat_template_kwargs": [1]}, {"add_generation_prompt": 1},
                            {"enable_thinking": True, "reasoning_effort": "none"}):
                chat.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}], **request}))
                done = flare("render", NANO, "--messages", chat)
                self.assertEqual(done.returncode, 4, request)
                self.assertIn(f"'{list(request)[-1]}'", done.stderr)
            chat.write_text('[{"role": "user", "content": "Hi"}]')
            done = flare("render", NANO, "--messages", chat, "--tools", NANO / "config.json")
            self.assertEqual(done.returncode, 4)
            self.assertIn("config.json: array expected", done.stderr)
            done = flare("render", NANO, "--messages", chat, "--tools", chat)
            self.assertEqual(done.returncode, 4)
            self.assertIn("chat.json: 'tools[0].function' is missing", done.stderr)
            done = flare("render", NANO, "--messages", "-", "--tools", "-", stdin="[]")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--tools", done.stderr)
            self.assertEqual(flare("render", NANO / "tokenizer.json", "--messages", folder + "/none").returncode, 3)
            self.assertEqual(flare("tokenize", folder + "/none", "--text", "a").returncode, 3)

    def test_a_request_gives_the_prompt_that_a_server_makes_of_it(self):
        messages = [{"role": "user", "content": "Hi"}]
        def ends(**request):
            done = flare("render", NANO, "--jsonl", "-", stdin=json.dumps({"messages": messages, **request}))
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout).partition("assistant\n")[2]
        closed, opened = "<think>\n\n</think>\n\n", "<think>\n"
        self.assertEqual(ends(), closed)
        for on in ({"enable_thinking": True}, {"reasoning_effort": "high"},
                   {"chat_template_kwargs": {"reasoning_effort": "low"}}):
            self.assertEqual(ends(**on), opened, on)
        for off in ({"enable_thinking": False}, {"reasoning_effort": "none"}, {"thinking_budget": 0}):
            self.assertEqual(ends(**off), closed, off)

    def test_formats_are_checked(self):
        done = flare("render", NANO, "--tool-format", "nonsense", "--messages", NANO / "config.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("hermes", done.stderr)

    def test_help_has_examples(self):
        for command in ("tokenize", "detokenize", "render"):
            self.assertIn(f"flare {command} ", flare(command, "--help").stdout)


if __name__ == "__main__":
    unittest.main()
