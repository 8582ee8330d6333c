#!/usr/bin/env python3
# Writes src/frontend/tokenizer/testdata/sentencepiece: models whose settings and pieces were
# edited, and what the SentencePiece library makes of texts and ids with them.
#
# usage: sentencepiece_cases.py GOLDENS
#
# GOLDENS is the folder of the .model files to begin with (../shared/data/goldens/tokenizers/
# sentencepiece). Needs sentencepiece 0.2.3 and protobuf. Other versions of the library score
# user-defined pieces, and take unused ones apart, in other ways.
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "src/frontend/tokenizer/testdata/sentencepiece"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)

FRAGMENTS = [
    " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u2581", "\u2581\u2581", "\u3000", "\u00a0",
    "\u200b", "\u200d", "\ufeff", "\u2028", "\u00ad", "\0", "\x01", "\x7f", "\x85", "<s>", "</s>",
    "<unk>", "<tok>", "<begin>", "<0x41>", "<0xFF>", " \u2047 ", "a", "ab", "abc", "aaaaaaaaaaa",
    "the", " the", " of", "ing", "x", " x", "x ", "x y", "e\u0301", "\u00e9", "\u0301", "\u1100\u1161\u11a8",
    "\uac01", "\ufb01", "\uff21", "\uff5e", "\u0e33", "\U0001f600", "\ufffd", "\U0010ffff", "\u0378",
    "\u4e2d", "\u0410", "1", "12", ".", ",", "Hello", "world", "\uffff", "\ue000",
]
BROKEN = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x96", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80",
          b"\x80", b"\xe2", b"\xf8\x88\x80\x80\x80"]


def every(model, step, piece_type):
    normal = [p for p in model.pieces if p.type == NORMAL]
    for piece in normal[::step]:
        piece.type = piece_type


def add(model, texts, piece_type=USER):
    have = {p.piece: p for p in model.pieces}
    for text in texts:
        if text in have:
            have[text].type = piece_type
        else:
            model.pieces.add(piece=text, score=0.0, type=piece_type)


def spaces(model, prefix, remove, suffix):
    model.normalizer_spec.add_dummy_prefix = prefix
    model.normalizer_spec.remove_extra_whitespaces = remove
    model.trainer_spec.treat_whitespace_as_suffix = suffix


def user_pieces(model):
    add(model, ["\u2581", "\u2581\u2581", "ab", "abc", "\n", " x", "x y"])


def large_scores(model):
    for i, piece in enumerate(model.pieces):
        piece.score = -30000.0 - i % 7 / 8


def no_unknown(model):
    del model.pieces[[p.type for p in model.pieces].index(UNKNOWN)]


def zero_piece(model):
    add(model, ["\0"])


def suffixed_words(model):
    spaces(model, True, True, True)
    every(model, 9, CONTROL)
    every(model, 5, UNUSED)


def unescaped(model):
    spaces(model, True, False, False)
    model.normalizer_spec.escape_whitespaces = False
    add(model, [" the", "  "], NORMAL)


def named_ends(model):
    spaces(model, False, True, False)
    add(model, ["<begin>"], CONTROL)
    model.trainer_spec.bos_piece = "<begin>"
    model.trainer_spec.eos_piece = "the"  # no control piece: there is no end
    model.trainer_spec.bos_id = 7


def small_charsmap(model):
    rules = [("\ufffd", " "), ("\ufb01", "fi"), ("\u200b", ""), ("ab", "  x"), ("\u3000", " "),
             ("e\u0301", "\u00e9")]
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "rules.tsv")
        table.write_text("".join(
            "\t".join(" ".join("%X" % ord(c) for c in side) for side in rule) + "\n"
            for rule in rules))
        text = pathlib.Path(folder, "text")
        text.write_text("\n".join("the words of a text %d" % i for i in range(99)))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=folder + "/m", vocab_size=30, model_type="char",
            num_threads=1, hard_vocab_limit=False, minloglevel=2,
            normalization_rule_tsv=str(table))
        other = sentencepiece_model_pb2.ModelProto()
        other.ParseFromString(pathlib.Path(folder, "m.model").read_bytes())
    model.normalizer_spec.precompiled_charsmap = other.normalizer_spec.precompiled_charsmap


MODELS = {
    "unigram_user_pieces": ("unigram_suffix", user_pieces),
    "unigram_unused": ("unigram_no_bytes", lambda m: every(m, 4, UNUSED)),
    "unigram_large_scores": ("unigram_suffix", large_scores),
    "unigram_no_unknown": ("unigram_identity_bytes", no_unknown),
    "unigram_charsmap": ("unigram_suffix", small_charsmap),
    "unigram_named_ends": ("unigram_no_bytes", named_ends),
    "bpe_zero_piece": ("bpe_llama", zero_piece),
    "bpe_unused": ("bpe_no_bytes", lambda m: every(m, 6, UNUSED)),
    "bpe_unescaped": ("bpe_no_bytes", unescaped),
    "char_unused": ("char", lambda m: every(m, 5, UNUSED)),
    "word_suffix": ("word", suffixed_words),
}


def some_text(rng, pieces):
    out = b""
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        if kind < 0.6:
            out += rng.choice(FRAGMENTS).encode()
        elif kind < 0.9:
            out += rng.choice(pieces).replace("\u2581", rng.choice([" ", "\u2581"])).encode()
        else:
            out += rng.choice(BROKEN)
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lines = [{"library": "sentencepiece " + sentencepiece.__version__}]
    for name, (base, edit) in MODELS.items():
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString(pathlib.Path(sys.argv[1], base + ".model").read_bytes())
        edit(model)
        data = model.SerializeToString()
        (OUT / (name + ".model")).write_bytes(data)
        library = sentencepiece.SentencePieceProcessor()
        library.LoadFromSerializedProto(data)
        begin, end = ([i] * (i >= 0) for i in (library.bos_id(), library.eos_id()))
        rng = random.Random(name)
        pieces = [p.piece for p in model.pieces]
        odd = [i for i, p in enumerate(model.pieces) if p.type != NORMAL]
        for _ in range(60):
            text = some_text(rng, pieces)
            ids = library.encode(text)
            lines.append({"model": name, "text": text.hex(), "ids": ids,
                          "with_ends": begin + ids + end})
        for _ in range(40):
            ids = [rng.choice(odd) if rng.random() < 0.6 else rng.randrange(len(pieces))
                   for _ in range(rng.randrange(10))]
            lines.append({"model": name, "decode": ids, "text": library.decode(ids).encode().hex()})
    with open(OUT / "cases.jsonl", "w", encoding="ascii") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


main()
