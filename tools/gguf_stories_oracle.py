"""Greedy answers of stories260k-q8_0.gguf, by numpy in binary64 over exactly dequantised weights.

Usage: gguf_stories_oracle.py STORIES.gguf GREEDY.json > ANSWERS.json
Prompts and lengths are those of GREEDY.json; margins are best minus second-best logit.
"""
import json, struct, sys
import numpy as np

data = open(sys.argv[1], 'rb').read()
at = 4


def number(code):
    global at
    value, = struct.unpack_from('<' + code, data, at)
    at += struct.calcsize('<' + code)
    return value


def text():
    global at
    n = number('Q')
    at += n
    return data[at - n:at].decode()


KINDS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


def value(kind):
    if kind == 8:
        return text()
    if kind == 9:
        kind = number('I')
        return [value(kind) for _ in range(number('Q'))]
    return number(KINDS[kind])


number('I')
n_tensors, n_keys = number('Q'), number('Q')
keys = {}
for _ in range(n_keys):
    name = text()
    keys[name] = value(number('I'))
table = []
for _ in range(n_tensors):
    name = text()
    shape = [number('Q') for _ in range(number('I'))][::-1]
    table.append((name, shape, number('I'), number('Q')))
base = (at + 31) // 32 * 32


def load(shape, kind, offset):
    n = int(np.prod(shape))
    if kind == 0:
        flat = np.frombuffer(data, '<f4', n, base + offset)
    elif kind == 1:
        flat = np.frombuffer(data, '<f2', n, base + offset)
    else:
        assert kind == 8
        blocks = np.frombuffer(data, np.dtype([('d', '<f2'), ('q', 'i1', 32)]), n // 32, base + offset)
        flat = blocks['d'].astype(np.float64)[:, None] * blocks['q']
    return flat.astype(np.float64).reshape(shape)


w = {name: load(shape, kind, offset) for name, shape, kind, offset in table}
heads, kv = keys['llama.attention.head_count'], keys['llama.attention.head_count_kv']
eps = keys['llama.attention.layer_norm_rms_epsilon']
d = keys['llama.embedding_length'] // heads
layers = keys['llama.block_count']


def norm(x, name):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + '.weight']


def rope(x):  # [T, H, d], pairs of neighbours, as the file stores them
    t = np.arange(x.shape[0])[:, None]
    angle = t * 10000.0 ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return out


def logits(ids):
    x = w['token_embd.weight'][ids]
    n = len(ids)
    mask = np.where(np.tril(np.ones((n, n), bool)), 0, -np.inf)
    for i in range(layers):
        p = f'blk.{i}.'
        h = norm(x, p + 'attn_norm')
        q = rope((h @ w[p + 'attn_q.weight'].T).reshape(n, heads, d))
        k = rope((h @ w[p + 'attn_k.weight'].T).reshape(n, kv, d)).repeat(heads // kv, 1)
        v = (h @ w[p + 'attn_v.weight'].T).reshape(n, kv, d).repeat(heads // kv, 1)
        a = np.einsum('qhd,khd->hqk', q, k) / np.sqrt(d) + mask
        a = np.exp(a - a.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        x = x + np.einsum('hqk,khd->qhd', a, v).reshape(n, -1) @ w[p + 'attn_output.weight'].T
        h = norm(x, p + 'ffn_norm')
        g = h @ w[p + 'ffn_gate.weight'].T
        x = x + (g / (1 + np.exp(-g)) * (h @ w[p + 'ffn_up.weight'].T)) @ w[p + 'ffn_down.weight'].T
    head = w.get('output.weight', w['token_embd.weight'])
    return norm(x[-1:], 'output_norm') @ head.T


out = []
for story in json.load(open(sys.argv[2])):
    ids = list(story['prompt_ids'])
    n_prompt, margins = len(ids), []
    while len(ids) < len(story['greedy_ids']):
        y = logits(ids)[0]
        best = np.sort(y)[-2:]
        margins.append(round(float(best[1] - best[0]), 4))
        ids.append(int(y.argmax()))
    out.append({'prompt_ids': ids[:n_prompt], 'answer_ids': ids[n_prompt:], 'margins': margins})
json.dump(out, sys.stdout, separators=(',', ':'))
