#!/usr/bin/python3
"""Writes src/frontend/template/html_entities.cc: HTML's named characters, as Python's html knows them.

usage: make_html_entities.py > src/frontend/template/html_entities.cc
"""
import html.entities


def literal(text):
    """A C++ literal of the UTF-8 of `text` whose escapes cannot run into what follows."""
    return "".join(f"\\{b:03o}" if b < 0x20 or b > 0x7e or chr(b) in '"\\?' else chr(b)
                   for b in text.encode())


def main():
    print("""// The named characters of HTML; written by tools/make_html_entities.py.
#include "frontend/template/html_entities.h"

#include <algorithm>

namespace flare::frontend::jinja {
namespace {
// clang-format off

struct Entity {
  std::string_view name, text;
};

constexpr Entity kEntities[] = {""")
    line = "   "
    for name, text in sorted(html.entities.html5.items(), key=lambda item: item[0].encode()):
        entry = f' {{"{name}", "{literal(text)}"}},'
        if len(line) + len(entry) > 100:
            print(line)
            line = "   "
        line += entry
    print(line + """};
// clang-format on

}  // namespace

std::string_view html_entity(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kEntities), std::end(kEntities), name,
                       [](const Entity& e, std::string_view n) { return e.name < n; });
  return found != std::end(kEntities) && found->name == name ? found->text : std::string_view();
}

}  // namespace flare::frontend::jinja""")


if __name__ == "__main__":
    main()
