# Conversations with the bundled model whose greedy answers are certain, made by the reference.
import json
import pathlib
import re

NANO = pathlib.Path(__file__).resolve().parents[2] / "models/nano"
THINK_END = 2047  # id of </think> in the bundled model
SMALLEST_MARGIN = 0.3  # below it, rounding may choose another token than the reference


def called(name, body, tools):
    """A call in the model's markup as name and arguments: text where the schema says string, else JSON."""
    schema = next(t["function"]["parameters"] for t in tools if t["function"]["name"] == name)["properties"]
    values = dict(re.findall(r"<parameter=(.*?)>\n(.*?)\n</parameter>\n", body, re.DOTALL))
    return name, {k: v if schema[k]["type"] == "string" else json.loads(v) for k, v in values.items()}


def expected_answer(case):
    """Reasoning, content and calls of a reference text, as clients see them."""
    text = case["text"].removesuffix("<|im_end|>")
    reasoning = ""
    if case["enable_thinking"]:
        reasoning, text = text.split("\n</think>\n\n")
    content, *regions = re.split(r"<tool_call>\n", text)
    calls = []
    for region in regions:
        name, body = re.fullmatch(r"<function=(.*?)>\n(.*)</function>\n</tool_call>\n?", region, re.DOTALL).groups()
        calls.append(called(name, body, case["tools"]))
    return {"reasoning": reasoning, "content": content, "calls": calls,
            "finish": "tool_calls" if calls else "stop"}


def reference_cases():
    """Conversations whose greedy answer is certain: (messages, request fields, expected answer)."""
    for case in json.loads((NANO / "greedy.json").read_text())["cases"]:
        if min(case["margins"]) < SMALLEST_MARGIN:
            continue
        fields = {"chat_template_kwargs": {"enable_thinking": case["enable_thinking"]}}
        if case["tools"]:
            fields["tools"] = case["tools"]
        answer = expected_answer(case)
        reasoned = case["greedy_ids"].index(THINK_END) + 1 if case["enable_thinking"] else 0
        yield case["messages"], fields, dict(answer, reasoning_tokens=reasoned)


def reference_case(question, thinking=False):
    """The one with that last message."""
    return next(c for c in reference_cases() if c[0][-1]["content"] == question and
                c[1]["chat_template_kwargs"]["enable_thinking"] == thinking)
