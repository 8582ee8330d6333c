#!/usr/bin/python3
# `flare generate` and `flare chat` as processes: what goes to stdout, and exit codes.
#
# usage: generate_test.py FLARE [unittest arguments]
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

FLARE = sys.argv.pop(1)
NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
CASES = json.loads((NANO / "greedy.json").read_text())["cases"]
GREEDY = ("--temperature", "0")


def flare(*words, stdin=""):
    return subprocess.run([FLARE, *words], input=stdin, capture_output=True, text=True, timeout=120)


def case(question):
    return next(c for c in CASES if c["messages"][-1]["content"] == question and not c["enable_thinking"])


def answer(question):
    return case(question)["text"].removesuffix("<|im_end|>")


class Generate(unittest.TestCase):
    def test_stdout_is_the_answer_alone(self):
        done = flare("generate", "--prompt", "Who are you?", *GREEDY)
        self.assertEqual((done.returncode, done.stdout), (0, answer("Who are you?")))
        self.assertRegex(done.stderr, r"^\d+ tokens in [\d.]+ s · prefill \d+ tokens, [\d.]+ tok/s · decode [\d.]+ tok/s\n$")
        self.assertEqual(flare("-q", "generate", "--prompt", "Who are you?", *GREEDY).stderr, "")

    def test_every_source_of_a_prompt(self):
        question = "What is the capital of Italy?"
        self.assertEqual(flare("generate", "--prompt-file", "-", *GREEDY, stdin=question).stdout, answer(question))
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "prompt.txt")
            text.write_text(question)
            self.assertEqual(flare("generate", str(NANO), "--prompt-file", str(text), *GREEDY).stdout,
                             answer(question))
            chat = pathlib.Path(folder, "chat.json")
            chat.write_text(json.dumps({"messages": [{"role": "system", "content": "Be brief."},
                                                     {"role": "user", "content": "Which month comes after May?"}]}))
            self.assertEqual(flare("generate", "--messages", str(chat), *GREEDY).stdout,
                             answer("Which month comes after May?"))
            ids = pathlib.Path(folder, "ids")
            ids.write_text(" ".join(map(str, case(question)["prompt_ids"])))
            self.assertEqual(flare("generate", "--tokens", str(ids), *GREEDY).stdout, answer(question))
        raw = flare("generate", "--raw", "--prompt", case(question)["prompt"], *GREEDY)
        self.assertEqual(raw.stdout, answer(question))

    def test_json_has_text_ids_and_counts(self):
        wanted = case("Spell apple.")
        done = flare("--json", "generate", "--prompt", "Spell apple.", *GREEDY)
        document = json.loads(done.stdout)
        self.assertTrue(document["ok"])
        result = document["result"]
        self.assertEqual(result["text"], answer("Spell apple."))
        self.assertEqual(result["ids"], wanted["greedy_ids"][:-1])  # the last one ended the turn
        self.assertEqual(result["finish_reason"], "stop")
        self.assertEqual(result["usage"]["prompt_tokens"], len(wanted["prompt_ids"]))
        self.assertEqual(result["usage"]["completion_tokens"], len(wanted["greedy_ids"]))
        self.assertIn("predicted_per_second", result["timings"])

    def test_calls_are_lines_of_json(self):
        wanted = case("How is the weather in Paris?")
        self.assertIn("<function=get_weather>\n<parameter=city>\nParis\n</parameter>", wanted["text"])
        with tempfile.TemporaryDirectory() as folder:
            chat = pathlib.Path(folder, "chat.json")
            chat.write_text(json.dumps({"messages": wanted["messages"], "tools": wanted["tools"]}))
            done = flare("generate", "--messages", str(chat), *GREEDY)
            self.assertEqual(json.loads(done.stdout), {"name": "get_weather", "arguments": {"city": "Paris"}})
            self.assertTrue(done.stdout.endswith("}\n"))
            result = json.loads(flare("--json", "generate", "--messages", str(chat), *GREEDY).stdout)["result"]
        call, = result["tool_calls"]
        self.assertEqual((call["name"], json.loads(call["arguments"])), ("get_weather", {"city": "Paris"}))
        self.assertEqual((result["text"], result["finish_reason"]), ("", "tool_calls"))

    def test_reasoning_is_not_the_answer(self):
        wanted = next(c for c in CASES if c["enable_thinking"])
        reasoning, content = wanted["text"].removesuffix("<|im_end|>").split("\n</think>\n\n")
        source = (NANO / "chat_template.jinja").read_text()
        thinks = source.replace("enable_thinking is defined and enable_thinking", "true")
        self.assertNotEqual(thinks, source)
        with tempfile.TemporaryDirectory() as folder:
            template = pathlib.Path(folder, "thinks.jinja")
            template.write_text(thinks)
            words = ["--chat-template", str(template), *GREEDY]
            ask = ["--prompt", wanted["messages"][0]["content"]]
            done = flare("generate", *words, *ask)
            self.assertEqual((done.stdout, done.stderr.splitlines()[0]), (content, reasoning))
            self.assertEqual(flare("-q", "generate", *words, *ask).stderr, "")
            result = json.loads(flare("--json", "generate", *words, *ask).stdout)["result"]
            self.assertEqual((result["reasoning"], result["text"]), (reasoning, content))
            saved = pathlib.Path(folder, "saved.json")
            done = flare("chat", *words, stdin=f"{wanted['messages'][0]['content']}\n/save {saved}\n")
            self.assertEqual(done.stdout, content + "\n")
            self.assertIn(reasoning, done.stderr)
            self.assertEqual(json.loads(saved.read_text())["messages"][1],
                             {"role": "assistant", "content": content, "reasoning_content": reasoning})

    def test_exact_stories_are_the_reference_ones(self):
        story = case("Tell me a story about Mia.")
        done = flare("--json", "generate", "--exact", "--prompt", "Tell me a story about Mia.", *GREEDY,
                     "--max-tokens", "20")
        self.assertEqual(json.loads(done.stdout)["result"]["ids"], story["greedy_ids"][:20])

    def test_limits_stops_and_seeds(self):
        self.assertEqual(flare("generate", "--prompt", "Hello!", *GREEDY, "--stop", "x", "--stop", "can").stdout,
                         "Hello! How ")
        tokens = json.loads(flare("--json", "generate", "--prompt", "Hello!", "--max-tokens", "2").stdout)
        self.assertEqual(tokens["result"]["finish_reason"], "length")
        told = [flare("generate", "--prompt", "Tell me a story.", "--temperature", "1.5", "--top-k", "0",
                      "--top-p", "1", "--seed", seed, "--max-tokens", "60").stdout for seed in ("1", "1", "2")]
        self.assertEqual(told[0], told[1])
        self.assertNotEqual(told[0], told[2])

    def test_a_schema_binds_the_answer(self):
        with tempfile.TemporaryDirectory() as folder:
            schema = pathlib.Path(folder, "schema.json")
            schema.write_text(json.dumps({"type": "object", "required": ["a"], "additionalProperties": False,
                                          "properties": {"a": {"enum": [1, 2]}}}))
            done = flare("generate", "--prompt", "Hello!", "--json-schema", str(schema))
            self.assertIn(json.loads(done.stdout), [{"a": 1}, {"a": 2}])
            schema.write_text('{"not": {}}')
            done = flare("generate", "--prompt", "Hello!", "--json-schema", str(schema))
            self.assertEqual((done.returncode, done.stdout), (4, ""))
            self.assertIn(str(schema), done.stderr)
            self.assertIn("/not", done.stderr)

    def test_exit_codes_of_wrong_calls(self):
        for code, words in [
            (2, ["generate"]),
            (2, ["generate", "--prompt", "a", "--raw", "--tokens", "1"]),
            (2, ["generate", "--tokens", "1,x"]),
            (2, ["generate", "--prompt", "a", "--temperature", "101"]),
            (2, ["generate", "--prompt", "a", "--temperature", "hot"]),
            (2, ["generate", "--prompt", "a", "--temperature", "nan"]),
            (2, ["generate", "--prompt", "a", "--top-p=-inf"]),
            (2, ["generate", "--prompt", "a", "--isa", "v9"]),
            (2, ["generate", "--prompt", "a", "--max-context", "1"]),
            (2, ["generate", "--prompt", "a", "--seed", "9223372036854775808"]),
            (2, ["generate", "--promt", "a"]),
            (2, ["genrate"]),
            (2, []),
            (3, ["generate", "/no/such/model", "--prompt", "a"]),
            (3, ["generate", "--prompt-file", "/no/such/file"]),
            (4, ["generate", "--tokens", "99999"]),
            (4, ["generate", "--messages", str(NANO / "README.md")]),
        ]:
            with self.subTest(words=words):
                done = flare(*words)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, r"^error: .*\nhint: .*\n$")
        self.assertIn("--prompt", flare("generate", "--promt", "a").stderr.splitlines()[1])
        failure = json.loads(flare("--json", "generate", "/no/such/model", "--prompt", "a").stdout)
        self.assertEqual((failure["ok"], failure["error"]["code"]), (False, "not_found"))

    def test_streams_that_are_closed_or_full(self):
        words = f"'{FLARE}' generate --prompt 'Who are you?' --temperature 0"

        def shell(redirection):
            return subprocess.run(["bash", "-c", f"{words} {redirection}"], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=120)

        self.assertEqual(shell("2>&-").returncode, 0)
        self.assertEqual(shell("2>&-").stdout, answer("Who are you?"))
        for lost in (">/dev/full", ">&-", "--json >/dev/full"):
            with self.subTest(lost):
                self.assertEqual(shell(lost).returncode, 3)

    def test_sampling_flags_are_the_fields_of_a_request(self):
        for flag, value, expected in (("--top-p", "1.5", "0..1"), ("--typical-p", "-1", "0..1"),
                                      ("--top-k", "1.5", "integer"), ("--dry-base", "0.5", "1..100"),
                                      ("--repeat-last-n", "-2", "-1.."), ("--xtc-threshold", "2", "0..1"),
                                      ("--min-tokens", "-1", "0..")):
            done = flare("generate", "--prompt", "a", f"{flag}={value}")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(flag, done.stderr)
            self.assertIn(expected, done.stderr)
        free = flare("generate", "--prompt", "Hello!", *GREEDY).stdout
        for flags in (("--top-k", "1"), ("--min-p", "1", "--top-k", "0"), ("--top-n-sigma", "1e-6", "--top-k", "0")):
            self.assertEqual(flare("generate", "--prompt", "Hello!", "--temperature", "2", "--top-p", "1", *flags).stdout,
                             free)
        self.assertNotEqual(flare("generate", "--prompt", "Hello!", *GREEDY, "--repetition-penalty", "9",
                                  "--repeat-last-n=-1").stdout, free)

    def test_logprobs_are_those_of_the_tokens(self):
        done = flare("--json", "generate", "--prompt", "Hello!", *GREEDY, "--logprobs", "2")
        result = json.loads(done.stdout)["result"]
        self.assertEqual([e["id"] for e in result["logprobs"]], result["ids"])
        for entry in result["logprobs"]:
            self.assertLessEqual(entry["logprob"], 0)
            self.assertEqual([e["logprob"] for e in entry["top"]],
                             sorted((e["logprob"] for e in entry["top"]), reverse=True))
            self.assertEqual(entry["top"][0]["id"], entry["id"])
            self.assertEqual(len(entry["top"]), 2)
        self.assertEqual(flare("generate", "--prompt", "a", "--logprobs", "2").returncode, 2)

    def test_help_is_there_for_every_command(self):
        for command in ("run", "chat", "generate"):
            done = flare(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)
            self.assertEqual(done.stderr, "")


class Chat(unittest.TestCase):
    def test_a_conversation_through_a_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = pathlib.Path(folder, "saved.json")
            lines = ["Hi", "What is 5 + 6?", f"/save {saved}", "/stats", "/reset", "Who are you?", "/frobnicate",
                     "/quit", "never read"]
            done = flare("chat", *GREEDY, stdin="\n".join(lines) + "\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            first, second, third = done.stdout.splitlines()
            self.assertEqual(second, "5 + 6 = 11")
            self.assertEqual(third, answer("Who are you?"))
            self.assertIn("tok/s", done.stderr)
            self.assertIn("unknown command", done.stderr)
            self.assertEqual(json.loads(saved.read_text())["messages"],
                             [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": first},
                              {"role": "user", "content": "What is 5 + 6?"},
                              {"role": "assistant", "content": second}])

    def test_the_end_of_input_leaves_and_the_system_text_counts(self):
        done = flare("chat", *GREEDY, "--system", "Be brief.", stdin="Which month comes after May?")
        self.assertEqual((done.returncode, done.stdout), (0, answer("Which month comes after May?") + "\n"))


if __name__ == "__main__":
    unittest.main()
