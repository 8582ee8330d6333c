#!/usr/bin/python3
# Constrained decoding beside its peers: Flare, XGrammar and llguidance on the same schemas, the same
# tokenizer and the same instances, in one run, one thread each.
#
# usage: mask_peers.py BENCH_MASK TOKENIZER_JSON BENCH_JSONL [LIMIT]
#
# Needs the Python packages xgrammar, llguidance, tokenizers and numpy (tests need none of them).
# Times are CPU times of the thread. Peers are called from Python, which adds about a microsecond
# to each mask.
import importlib.metadata
import json
import subprocess
import sys
import time

import llguidance
import llguidance.numpy
import tokenizers
import xgrammar


def quantiles(values):
    values = sorted(values)
    pick = lambda q: values[min(len(values) - 1, int(q * len(values)))] if values else 0.0
    return {"n": len(values), "mean": sum(values) / max(1, len(values)), "p50": pick(0.5),
            "p90": pick(0.9), "p95": pick(0.95), "p99": pick(0.99), "max": pick(1)}


def measure(name, compile_schema, start, fill, allows, accept, tokenizer, records):
    compile_us, mask_us = [], []
    schemas = refused = wrong = 0
    for record in records:
        schema = json.dumps(record["schema"])
        begin = time.thread_time()
        try:
            compiled = compile_schema(schema)
        except Exception:
            refused += 1
            continue
        compile_us.append((time.thread_time() - begin) * 1e6)
        schemas += 1
        for test in record["tests"]:
            if not test["valid"]:
                continue
            text = json.dumps(test["data"], ensure_ascii=False)
            matcher = start(compiled)
            for token in tokenizer.encode(text, add_special_tokens=False).ids:
                begin = time.thread_time()
                fill(matcher)
                mask_us.append((time.thread_time() - begin) * 1e6)
                if not allows(token) or not accept(matcher, token):
                    wrong += 1
                    break
    return {"engine": name, "schemas": schemas, "refused": refused, "wrong": wrong,
            "mask_us": quantiles(mask_us), "compile_us": quantiles(compile_us)}


def xgrammar_run(tokenizer, vocabulary, stop, records):
    info = xgrammar.TokenizerInfo(vocabulary, vocab_type=xgrammar.VocabType.BYTE_LEVEL,
                                  vocab_size=len(vocabulary), stop_token_ids=[stop])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    mask = xgrammar.allocate_token_bitmask(1, len(vocabulary))
    rows = mask.numpy()

    def fill(matcher):
        matcher.fill_next_token_bitmask(mask)

    return measure("xgrammar " + importlib.metadata.version("xgrammar"),
                   lambda s: compiler.compile_json_schema(s, any_whitespace=True, strict_mode=False),
                   lambda c: xgrammar.GrammarMatcher(c), fill,
                   lambda t: bool(rows[0, t // 32] >> (t % 32) & 1),
                   lambda m, t: m.accept_token(t), tokenizer, records)


def llguidance_run(tokenizer, tokenizer_text, records):
    adapter = llguidance.LLTokenizer(tokenizer_text)
    mask = llguidance.numpy.allocate_token_bitmask(1, adapter.vocab_size)

    def compile_schema(schema):
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        matcher = llguidance.LLMatcher(adapter, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return grammar

    return measure("llguidance " + importlib.metadata.version("llguidance"), compile_schema, lambda g: llguidance.LLMatcher(adapter, g),
                   lambda m: llguidance.numpy.fill_next_token_bitmask(m, mask, 0),
                   lambda t: bool(mask[0, t // 32] >> (t % 32) & 1),
                   lambda m, t: m.consume_token(t), tokenizer, records)


def main():
    bench, tokenizer_path, data = sys.argv[1:4]
    limit = int(sys.argv[4]) if len(sys.argv) > 4 else 10**9
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer_path)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    vocabulary = [tokenizer.id_to_token(i) or "" for i in range(size)]
    stop = next(tokenizer.token_to_id(t) for t in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>")
                if tokenizer.token_to_id(t) is not None)
    records = [json.loads(line) for line in open(data)][:limit]
    flare = subprocess.run([bench, tokenizer_path, data, "--limit", str(limit)],
                           capture_output=True, text=True)
    results = [json.loads(flare.stdout.splitlines()[-1]),
               xgrammar_run(tokenizer, vocabulary, stop, records),
               llguidance_run(tokenizer, open(tokenizer_path).read(), records)]
    for result in results:
        print(json.dumps(result))
    print("| engine | schemas | refused | valid token masked | mask p50 | p99 | max | compile p50 | p95 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in results:
        m, c = r["mask_us"], r["compile_us"]
        print(f"| {r['engine']} | {r['schemas']} | {r['refused']} | {r['wrong']} | {m['p50']:.1f} us | "
              f"{m['p99']:.0f} us | {m['max'] / 1000:.1f} ms | {c['p50'] / 1000:.2f} ms | "
              f"{c['p95'] / 1000:.2f} ms |")


main()
