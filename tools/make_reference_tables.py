#!/usr/bin/env python3
"""Writes reference_tables.cc: character sets of the reference library that are found out by asking it.
These are the scripts of UnicodeScripts and what BertNormalizer takes for an accent.

Usage: make_reference_tables.py > src/frontend/tokenizer/reference_tables.cc
Needs the package tokenizers 0.23.3.
"""
from tokenizers import normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ask = pre_tokenizers.UnicodeScripts().pre_tokenize_str


def together(a, b):
    return len(ask(chr(a) + chr(b))) == 1


def table(items):
    line = "   "
    for item in items:
        if len(line) + len(item) > 99:
            print(line)
            line = "   "
        line += item
    print(line)


def main():
    latin, greek = ord("a"), ord("\u03b1")

    def is_any(c):
        return together(latin, c) and together(greek, c)

    # Runs of one script; 0 is the one that cuts nowhere.
    runs, known = [], []
    for c in ALL:
        if is_any(c):
            continue
        if runs and runs[-1][1] == c - 1 and together(c - 1, c):
            runs[-1][1] = c
        else:
            runs.append([c, c, 0])
    for run in runs:
        for script, representative in enumerate(known, 1):
            if together(representative, run[0]):
                run[2] = script
                break
        else:
            known.append(run[0])
            run[2] = len(known)
    bert = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False,
                                      strip_accents=True, lowercase=False).normalize_str
    accents = []
    for c in ALL:
        if bert(chr(c)) != "":
            continue
        if accents and accents[-1][1] == c - 1:
            accents[-1][1] = c
        else:
            accents.append([c, c])
    print("""// Scripts of the reference's UnicodeScripts and accents of its BertNormalizer; written by
// tools/make_reference_tables.py.
#include "frontend/tokenizer/unicode_tables.h"

namespace flare::frontend::tokenizer {
namespace {
// clang-format off

constexpr ScriptRange kScripts[] = {""")
    table(" {0x%X, 0x%X, %d}," % tuple(run) for run in runs)
    print("""};

constexpr CodePointRange kBertAccents[] = {""")
    table(" {0x%X, 0x%X}," % tuple(run) for run in accents)
    print("""};
// clang-format on
}  // namespace

std::span<const ScriptRange> scripts() { return kScripts; }
CodePointRanges bert_accents() { return kBertAccents; }

}  // namespace flare::frontend::tokenizer""")


main()
