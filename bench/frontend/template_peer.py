#!/usr/bin/python3
# Chat templates rendered by bench_template and by jinja2 (sandboxed, set up as model libraries do) in one run.
#
# usage: template_peer.py BENCH_TEMPLATE FOLDER_OF_TEMPLATES [SECONDS]
# Conversations: 2 messages; 40 turns of 400 bytes; 40 turns with tools and calls. The outputs are compared first.
import copy
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import jinja_oracle  # noqa: E402

TEMPLATES = ("Qwen-Qwen3-0.6B", "Qwen3.5-4B", "meta-llama-Llama-3.1-8B-Instruct", "GLM-5.2", "google-gemma-4-31B-it")
TEXT = "The quick brown fox jumps over the lazy dog; 狐は犬を飛び越える. " * 6


def conversations():
    user, answer = {"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}
    tools = [{"type": "function", "function": {
        "name": f"tool_{i}", "description": "Does something with a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "description": "Any text"},
                                                        "count": {"type": "integer"}}, "required": ["text"]}}}
             for i in range(20)]
    call = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "abc123XYZ", "type": "function", "function": {"name": "tool_1", "arguments": {"text": TEXT, "count": 3}}}]}
    result = {"role": "tool", "tool_call_id": "abc123XYZ", "name": "tool_1", "content": TEXT}
    yield "short", {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    yield "40 turns", {"messages": [user, answer] * 20 + [user]}
    yield "40 turns, tools", {"messages": [user, call, result, answer] * 10 + [user], "tools": tools}


def jinja_time(template, variables, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        template.render(**variables)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main():
    bench, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    print("| template | conversation | prompt KB | jinja2 µs | here µs | times | here MB/s |\n|---|---|---|---|---|---|---|")
    for name in TEMPLATES:
        path = folder / f"{name}.jinja"
        template = jinja_oracle.ENV.from_string(path.read_text(encoding="utf-8"))
        template.globals["strftime_now"] = time.strftime
        for kind, conversation in conversations():
            variables = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **conversation}
            peer = jinja_time(template, copy.deepcopy(variables), seconds)
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(variables, file)
                file.flush()
                done = subprocess.run([bench, str(path), file.name, str(seconds)], capture_output=True, text=True, check=True)
            own = json.loads(done.stdout)
            wanted = len(template.render(**copy.deepcopy(variables)).encode())
            if own["bytes"] != wanted and "strftime_now" not in path.read_text(encoding="utf-8"):
                raise SystemExit(f"{name}, {kind}: {own['bytes']} bytes, jinja2 {wanted}")
            print(f"| {name} | {kind} | {own['bytes'] / 1000:.1f} | {peer:.0f} | {own['render_us']:.0f} | "
                  f"{peer / own['render_us']:.1f} | {own['bytes'] / own['render_us']:.0f} |", flush=True)


if __name__ == "__main__":
    main()
