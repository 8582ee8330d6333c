#!/usr/bin/python3
"""Writes src/frontend/template/python_tables.cc: what str's methods know beyond simple case mappings.

usage: make_python_tables.py > src/frontend/template/python_tables.cc      (Python 3.11: Unicode 14)
"""

SCALARS = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]


def ranges(test):
    out = []
    for c in SCALARS:
        if not test(chr(c)):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(kind, name, entries):
    print(f"\nconstexpr {kind} {name}[] = {{")
    line = "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 100:
            print(line)
            line = "   "
        line += f" {entry},"
    print(line + "};")


def literal(text):
    return "".join(f"\\{b:03o}" for b in text.encode())


def mappings(name, changed):
    table("Mapping", name, [f'{{0x{c:X}, "{literal(text)}"}}' for c, text in changed])


def main():
    print("""// What Python's str methods know of characters; written by tools/make_python_tables.py.
#include "frontend/template/python_tables.h"

#include <algorithm>
#include <iterator>

namespace flare::frontend::jinja {
namespace {
// clang-format off

struct Range {
  uint32_t first, last;
};

struct Mapping {
  uint32_t from;
  std::string_view to;
};""")
    for name, test in (("kLower", str.islower), ("kUpper", str.isupper), ("kDigit", str.isdigit),
                       ("kNumeric", str.isnumeric)):
        table("Range", name, [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(test)])
    for name, method in (("kToUpper", str.upper), ("kToTitle", str.title)):
        mappings(name, [(c, method(chr(c))) for c in SCALARS if len(method(chr(c))) > 1])
    mappings("kFold", [(c, chr(c).casefold()) for c in SCALARS
                       if chr(c).casefold() != chr(c).lower()])
    print("""// clang-format on

template <size_t n>
bool in(const Range (&table)[n], uint32_t c) {
  const auto* r = std::lower_bound(std::begin(table), std::end(table), c,
                                   [](const Range& a, uint32_t b) { return a.last < b; });
  return r != std::end(table) && r->first <= c;
}

template <size_t n>
std::string_view find(const Mapping (&table)[n], uint32_t c) {
  const auto* m = std::lower_bound(std::begin(table), std::end(table), c,
                                   [](const Mapping& a, uint32_t b) { return a.from < b; });
  return m != std::end(table) && m->from == c ? m->to : std::string_view();
}

}  // namespace

bool python_is_lower(uint32_t c) { return in(kLower, c); }
bool python_is_upper(uint32_t c) { return in(kUpper, c); }
bool python_is_digit(uint32_t c) { return in(kDigit, c); }
bool python_is_numeric(uint32_t c) { return in(kNumeric, c); }
std::string_view long_upper(uint32_t c) { return find(kToUpper, c); }
std::string_view long_title(uint32_t c) { return find(kToTitle, c); }
std::string_view special_fold(uint32_t c) { return find(kFold, c); }

}  // namespace flare::frontend::jinja""")


if __name__ == "__main__":
    main()
