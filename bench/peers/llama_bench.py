#!/usr/bin/python3
"""llama-bench's two tests through the library of the PyPI wheel xllamacpp, where nobody has half an hour to build llama.cpp.

Usage: llama_bench.py --library FILE.so [-m MODEL.gguf] [-t THREADS] [-p TOKENS] [-n TOKENS] [-d TOKENS] [-r N]
                      [-o json] [--no-warmup]

As llama-bench does it: random tokens, batches of 2048 in pieces of 512, f16 keys and values, windowed layers
keep their window; -p times one prompt, -n single tokens behind -d others, each after a round that does not
count. Prints [{"avg_ts": tokens per second}]. Without a model it loads the library and ends: what of a
process's time and memory is the interpreter's.
"""
import argparse
import ctypes
import json
import random
import struct
import sys
import time

N_CONTEXT, N_BATCH, N_MICRO = 512, 2048, 512  # llama_context_default_params
# embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified as they are by default.
FLAGS, SWA_FULL = b"\0\1\1\1\1\0", 4


class Blob(ctypes.Structure):
    """A parameter struct of unknown length, larger than any: passed in memory, of which callees read their part."""
    _fields_ = [("words", ctypes.c_uint64 * 64)]


class Batch(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 7)]


def parse_arguments():
    p = argparse.ArgumentParser()
    p.format_usage = p.format_help = lambda: __doc__
    p.add_argument("--library", required=True)
    p.add_argument("-m")
    for flag, value in (("-t", 1), ("-p", 0), ("-n", 0), ("-d", 0), ("-r", 1)):
        p.add_argument(flag, type=int, default=value)
    p.add_argument("-o")
    p.add_argument("--no-warmup", action="store_true")
    return p.parse_args()


def load(path):
    lib = ctypes.CDLL(path)
    void, blob = ctypes.c_void_p, Blob
    for name, result, arguments in (
            ("llama_backend_init", None, []), ("llama_model_default_params", blob, []),
            ("llama_context_default_params", blob, []),
            ("llama_model_load_from_file", void, [ctypes.c_char_p, blob]),
            ("llama_init_from_model", void, [void, blob]), ("llama_set_n_threads", None, [void, ctypes.c_int32, ctypes.c_int32]),
            ("llama_model_get_vocab", void, [void]), ("llama_vocab_n_tokens", ctypes.c_int32, [void]),
            ("llama_batch_get_one", Batch, [void, ctypes.c_int32]), ("llama_decode", ctypes.c_int32, [void, Batch]),
            ("llama_synchronize", None, [void]), ("llama_get_memory", void, [void]),
            ("llama_memory_clear", None, [void, ctypes.c_bool]), ("llama_log_set", None, [void, void])):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def context_parameters(lib, n_context):
    parameters = lib.llama_context_default_params()
    data = bytearray(bytes(parameters))
    if struct.unpack_from("<3I", data) != (N_CONTEXT, N_BATCH, N_MICRO) or data.count(FLAGS) != 1:
        sys.exit("llama_context_params has another layout than this program knows")
    struct.pack_into("<I", data, 0, n_context)
    data[data.index(FLAGS) + SWA_FULL] = 0
    return Blob.from_buffer_copy(data)


class Session:
    def __init__(self, lib, a):
        self.lib = lib
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(a.m.encode(), lib.llama_model_default_params())
        if not self.model:
            sys.exit(f"{a.m}: llama.cpp does not load it")
        n_context = (max(a.p, a.n + a.d) + 255) // 256 * 256
        self.context = lib.llama_init_from_model(self.model, context_parameters(lib, n_context))
        lib.llama_set_n_threads(self.context, a.t, a.t)
        self.n_vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.random = random.Random(1)

    def decode(self, n):
        tokens = (ctypes.c_int32 * n)(*(self.random.randrange(self.n_vocabulary) for _ in range(n)))
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, n)) != 0:
            sys.exit("llama_decode fails")

    def prompt(self, n):
        while n > 0:
            self.decode(min(n, N_BATCH))
            n -= N_BATCH
        self.lib.llama_synchronize(self.context)

    def generate(self, n):
        for _ in range(n):
            self.decode(1)
            self.lib.llama_synchronize(self.context)

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), False)


LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)


def main():
    a = parse_arguments()
    lib = load(a.library)
    lib.llama_log_set(LOG, None)
    if not a.m:
        return
    session = Session(lib, a)
    if not a.no_warmup:
        session.prompt(a.p or 1)
        session.generate(1 if a.n else 0)
    rates = []
    for _ in range(a.r):
        session.clear()
        session.prompt(a.d)
        begin = time.monotonic()
        session.prompt(a.p)
        session.generate(a.n)
        rates.append((a.p + a.n) / (time.monotonic() - begin))
    print(json.dumps([dict(avg_ts=sum(rates) / len(rates))]))


if __name__ == "__main__":
    main()
