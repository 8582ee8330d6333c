#!/usr/bin/python3
"""Writes unicode_tables.cc from shared/data/goldens/tokenizers/unicode_tables.json.

Usage: make_unicode_tables.py UNICODE_TABLES_JSON > unicode_tables.cc
Needs a Python with Unicode 14 tables (3.11) and libutf8proc.so.2 (Unicode 15): what utf8proc knows
beyond the reference's tables must not take part in normalisation.
"""
import ctypes
import json
import sys
import unicodedata

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("combining_class", ctypes.c_int16),
                ("bidi_class", ctypes.c_int16), ("decomp_type", ctypes.c_int16),
                ("decomp_seqindex", ctypes.c_uint16)]


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def expand(pairs):
    return [c for first, last in pairs for c in range(first, last + 1)]


def table(name, pairs):
    items = ["{0x%X, 0x%X}" % (a, b) for a, b in pairs]
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 99:
            lines.append(line)
            line = "   "
        line += " " + item + ","
    lines.append(line)
    return "constexpr CodePointRange %s[] = {\n%s};\n" % (name, "\n".join(lines))


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    data = json.load(open(sys.argv[1]))
    split, forms, other = data["split_regex"], data["nfc_nfd_nfkc_nfkd"], data["other"]
    lib = ctypes.CDLL("libutf8proc.so.2")
    lib.utf8proc_get_property.restype = ctypes.POINTER(Property)

    def newer(c):
        p = lib.utf8proc_get_property(c).contents
        return unicodedata.category(chr(c)) == "Cn" and (
            p.combining_class != 0 or p.decomp_seqindex != 0xFFFF)

    no_class = set(expand(forms["combining_class_0"])) | {c for c in ALL if newer(c)}
    canonical = no_class | set(expand(forms["no_canonical_decomposition"]))
    for c in expand(forms["no_canonical_decomposition"]):  # nor may it be composed
        canonical.add(ord(unicodedata.normalize("NFD", chr(c))[-1]))
    compatibility = canonical | set(expand(forms["no_compatibility_decomposition"]))

    seconds = set()
    for c in ALL:
        d = unicodedata.decomposition(chr(c))
        if d and not d.startswith("<") and len(d.split()) == 2:
            seconds.add(int(d.split()[1], 16))
    seconds |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))

    def unstable(form):
        return {c for c in ALL if c in seconds or unicodedata.combining(chr(c)) != 0
                or unicodedata.normalize(form, chr(c)) != chr(c)} | compatibility

    category = {c: unicodedata.category(chr(c)) for c in ALL}
    numeric = {c for c in ALL if category[c][0] == "N"}
    numeric |= set(expand(other["Digits"]["added"]))
    numeric -= set(expand(other["Digits"]["removed"]))
    word = set(expand(split["\\w"]["all"])) | set(
        expand(other["Whitespace word characters"]["added"]))

    accents = {c for c in ALL if category[c][0] == "M"}
    accents |= set(expand(other["StripAccents"]["added"]))
    accents -= set(expand(other["StripAccents"]["removed"]))
    punctuation = {c for c in ALL if category[c][0] == "P" or (c < 128 and category[c][0] == "S")}
    punctuation |= set(expand(other["Punctuation"]["added"]))
    punctuation -= set(expand(other["Punctuation"]["removed"]))

    out = ["""// Which code points the reference's Unicode tables put where; written by
// tools/make_unicode_tables.py.
#include "frontend/tokenizer/unicode_tables.h"

namespace flare::frontend::tokenizer {
namespace {
// clang-format off
"""]
    out.append(table("kWhiteSpace", split["\\s"]["all"]))
    out.append(table("kWordInner", split["\\w"]["all"]))
    out.append(table("kWord", ranges(word)))
    out.append(table("kNumeric", ranges(numeric)))
    out.append(table("kCanonicalOpaque", ranges(canonical)))
    out.append(table("kCompatibilityOpaque", ranges(compatibility)))
    out.append(table("kNfcUnstable", ranges(unstable("NFC"))))
    out.append(table("kNfkcUnstable", ranges(unstable("NFKC"))))
    out.append(table("kAccents", ranges(accents)))
    out.append(table("kPunctuation", ranges(punctuation)))
    for name, key in (("kBertDeleted", "BertNormalizer clean_text deletes"),
                      ("kBertSpaces", "BertNormalizer clean_text turns into a space"),
                      ("kChinese", "BertNormalizer handle_chinese_chars"),
                      ("kNmtDeleted", "Nmt deletes"), ("kNmtSpaces", "Nmt turns into a space")):
        out.append(table(name, other[key]["all"]))
    classes = []
    # Extensions H and I of the Han script are the only letters of Unicode 15 and 16 in it.
    han = {"added": [[0x2EBF0, 0x2EE5D], [0x31350, 0x323AF]]}
    for name, entry in list(split.items()) + [("Han", han)]:
        if "added" in entry and entry["added"]:
            out.append(table("kAdded" + name, entry["added"]))
            classes.append('    {"%s", kAdded%s},' % (name, name))
    out.append("constexpr PropertyAddition kAdditions[] = {\n%s\n};\n" % "\n".join(classes))
    lower = ["    {0x%X, 0x%X}," % (c, to[0]) for c, to in other["Lowercase"]["added"]]
    assert all(len(to) == 1 for _, to in other["Lowercase"]["added"])
    out.append("constexpr CaseAddition kLowercase[] = {\n%s\n};\n" % "\n".join(lower))
    out.append("""// clang-format on
}  // namespace

CodePointRanges white_space() { return kWhiteSpace; }
CodePointRanges regex_word() { return kWordInner; }
CodePointRanges word() { return kWord; }
CodePointRanges numeric() { return kNumeric; }
CodePointRanges accents() { return kAccents; }
CodePointRanges punctuation() { return kPunctuation; }
CodePointRanges bert_deleted() { return kBertDeleted; }
CodePointRanges bert_spaces() { return kBertSpaces; }
CodePointRanges chinese() { return kChinese; }
CodePointRanges nmt_deleted() { return kNmtDeleted; }
CodePointRanges nmt_spaces() { return kNmtSpaces; }
CodePointRanges canonical_opaque() { return kCanonicalOpaque; }
CodePointRanges compatibility_opaque() { return kCompatibilityOpaque; }
CodePointRanges nfc_unstable() { return kNfcUnstable; }
CodePointRanges nfkc_unstable() { return kNfkcUnstable; }
std::span<const PropertyAddition> property_additions() { return kAdditions; }
std::span<const CaseAddition> lowercase_additions() { return kLowercase; }

}  // namespace flare::frontend::tokenizer
""")
    print("\n".join(out), end="")


main()
