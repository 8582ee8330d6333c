#!/usr/bin/python3
"""What jinja2 makes of small templates: the oracle behind the tests of src/frontend/template.

  jinja_oracle.py cases FILE      renders the templates of FILE (separated by lines of ====) as JSON
  jinja_oracle.py fuzz SEED N     makes N random templates and renders them as JSON lines
"""
import copy
import json
import random
import sys

import jinja2.nodes
import jinja2.sandbox
from jinja2.ext import Extension, loopcontrols

VARIABLES = {
    "s": "Hello World", "t": "  padded\ttext \n", "u": "naïve Ünïcode 你好 'q' \"d\"", "e": "",
    "n": 7, "z": 0, "m": -3, "f": 2.5, "g": -0.125, "yes": True, "no": False, "nil": None,
    "xs": [3, 1, 2], "ys": ["b", "a", "C"], "empty": [], "mixed": [1, "a", None, 2.5, [1, 2]],
    "d": {"a": 1, "b": "two", "items": [1], "c": {"x": None}}, "nodict": {},
    "rows": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}, {"k": "B", "w": [1]}],
    "big": 18446744073709551615,
}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


ENV = environment()


def render(source):
    variables = copy.deepcopy(VARIABLES)  # filter indent extends lists in place
    try:
        return {"source": source, "text": ENV.from_string(source).render(**variables)}
    except Exception as error:  # every failure of a template is an expectation
        return {"source": source, "error": f"{type(error).__name__}: {error}"[:160]}


class Generator:
    """Random templates over a small grammar."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *options):
        return self.r.choice(options)

    def atom(self):
        return self.pick(
            *[v for v in VARIABLES if v != "big"], "missing", "1", "0", "-2", "3", "10", "2.0",
            "0.1", "'ab'", "'a,b,,c'", "'<b>&'", "' x '", "''", "true", "none", "[1, 2]", "['x']",
            "(1, 'a')", "{'k': 1}", "{'b': [1], 'a': 'x'}", "range(4)", "rows[0]", "d.c", "'%s-%d'",
            "'{}:{}'")

    def small(self):
        return self.pick("0", "1", "2", "-1", "5", "n")

    def method(self):
        text = self.pick("'a'", "' '", "'l'", "','", "'lo'", "''", "'xyz'", "'Ü'")
        return self.pick(
            "upper()", "lower()", "strip()", f"strip({text})", f"lstrip({text})", "rstrip()",
            "title()", "capitalize()", "swapcase()", "split()", f"split({text})", "split(',', 1)",
            "rsplit(None, 1)", f"rsplit({text}, 1)", "splitlines()", "splitlines(true)",
            f"startswith({text})", f"endswith(({text}, 'd'))", f"replace({text}, 'Q')",
            f"replace({text}, '--', 1)", f"find({text})", f"rfind({text})", f"count({text})",
            f"index({text})", f"partition({text})", f"rpartition({text})", f"join(ys)", "isdigit()",
            "isalpha()", "isspace()", "isupper()", "islower()", "isalnum()", "istitle()",
            "removeprefix('He')", "removesuffix('ld')", "zfill(5)", "center(9, '*')", "ljust(9)",
            "rjust(9)", "format(1, 'x')", "items()", "keys()", "values()", "get('a')",
            "get('zz', 5)", "count(1)", "index(2)", "expandtabs(4)", "append(1)", "copy()", "a",
            "items", "b", "k")

    def filter(self):
        text = self.pick("'a'", "' '", "'l'", "'-'")
        return self.pick(
            "upper", "lower", "title", "capitalize", "trim", f"trim({text})", "length", "count",
            "first", "last", "list", "join", "join('-')", "join(', ', attribute='k')", "string",
            "int", "int(5)", "float", "abs", "round", "round(1)", "round(1, 'floor')",
            "round(0, 'ceil')", "reverse|list", "sort", "sort(reverse=true)", "sort(attribute='k')",
            "sort(case_sensitive=true)", "unique|list", "sum", "sum(attribute='v')", "min", "max",
            "default('D')", "default('D', true)", "d", "tojson", "tojson(indent=2)",
            "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))",
            f"replace({text}, '+')", "replace('l', 'L', 1)", "items|list", "dictsort",
            "dictsort(false, 'value')", "dictsort(reverse=true)", "map('upper')|list",
            "map(attribute='k')|list", "map(attribute='v', default=0)|list", "map('string')|join",
            "select|list", "select('odd')|list", "reject('none')|list", "select('string')|list",
            "selectattr('k', 'equalto', 'a')|list", "selectattr('v', 'defined')|list",
            "rejectattr('v', 'gt', 1)|list", "selectattr('k')|map(attribute='k')|list", "e", "safe",
            "batch(2)|list", "batch(2, 0)|list", "slice(2)|list", "slice(2, 'f')|list",
            "groupby('k')", "groupby('k')|map('first')|list", "indent", "indent(2, true)",
            "indent('> ', blank=true)", "urlencode", "wordcount", "format(1, 2)", "center(12)",
            "truncate(8)", "truncate(8, true, '..', 0)", "xmlattr",
            "filesizeformat", "forceescape")

    def test(self):
        return self.pick(
            "defined", "undefined", "none", "string", "number", "integer", "float", "boolean",
            "mapping", "sequence", "iterable", "true", "false", "odd", "even", "divisibleby 2",
            "divisibleby(3)", "equalto 7", "eq('ab')", "ne 1", "gt 1", "lt(3)", "ge 2", "le 2",
            "in [1, 7, 'ab']", "sameas none", "lower", "upper", "callable", "not none",
            "not defined", "filter", "test")

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        e = lambda: self.expression(depth - 1)
        kind = self.r.randrange(22)
        if kind < 3:
            return f"({e()}) {self.pick('+', '-', '*', '/', '//', '%', '~')} ({e()})"
        if kind < 4:
            return f"{e()} {self.pick('+', '-', '*', '//', '%', '~', '**')} {self.small()}"
        if kind < 8:
            return f"({e()})|{self.filter()}"
        if kind < 11:
            return f"({e()}).{self.method()}"
        if kind < 12:
            return f"({e()})[{self.pick(self.small(), repr('a'), repr('items'), repr('k'))}]"
        if kind < 13:
            parts = [self.pick("", "", self.small()) for _ in range(3)]
            # Constants are folded by jinja2 with other rules; names are not.
            base = self.pick("s", "u", "xs", "mixed", "rows", "d", "n", "nil", "missing", "x")
            return f"({base})[{':'.join(parts)}]"
        if kind < 15:
            return f"({e()}) {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} ({e()})"
        if kind < 16:
            return f"{e()} {self.pick('and', 'or')} {e()}"
        if kind < 17:
            return f"not {e()}"
        if kind < 19:
            return f"({e()}) is {self.test()}"
        if kind < 20:
            return f"({e()} if {e()} else {e()})"
        if kind < 21:
            return self.pick(f"[{e()}, {e()}]", f"({e()},)", f"{{'k': {e()}, 1: {e()}}}",
                             f"dict(a={e()})")
        return f"'{self.pick('%s', '%5s', '%-4s|', '%05.1f', '%d', '%x', '%r', '%3d%%')}' % ({e()})"

    def space(self):
        return self.pick("", "", " ", "\n", "  ", "\n  ", " \n")

    def tag(self, text):
        return "{%" + self.pick("", "", "-", "+") + f" {text} " + self.pick("", "", "-", "+") + "%}"

    def body(self, depth):
        return "".join(self.statement(depth) + self.space() for _ in range(self.r.randrange(1, 3)))

    def statement(self, depth):
        e = self.expression(self.r.randrange(3))
        if depth <= 0:
            return self.pick("text", "x ", "{# note #}", "{{ x }}", "{{ loop.index }}", "\n",
                             "{{" + self.pick("", "-") + f" {e} " + self.pick("", "-") + "}}")
        b = lambda: self.space() + self.body(depth - 1)
        t = self.tag
        kind = self.r.randrange(12)
        if kind < 3:
            return t(f"for {self.pick('x', 'x', 'x', 'x, y')} in {e}") + b() + self.pick(
                "", t(self.pick("break", "continue")), t("else") + "none") + t("endfor")
        if kind < 5:
            return t(f"if {e}") + b() + self.pick("", t("else") + b(), t(f"elif {e}") + b()) + t(
                "endif")
        if kind < 6:
            return t(f"set x = {e}") + "{{ x }}"
        if kind < 7:
            return t("set x") + b() + t("endset") + "[{{ x|trim }}]"
        if kind < 8:
            return t("macro f(x, y=2)") + b() + "{{ y }}" + t("endmacro") + self.pick(
                f"{{{{ f({e}) }}}}", f"{{{{ f(1, y={e}) }}}}", "{{ f() }}", "{{ f(1, 2, 3) }}")
        if kind < 9:
            return t("set ns = namespace(a=0)") + t("for x in xs") + t(
                "set ns.a = ns.a + x") + t("endfor") + "{{ ns.a }}"
        if kind < 10:
            return t(f"filter {self.pick('upper', 'trim', 'indent(2)')}") + b() + t("endfilter")
        if kind < 11:
            return t("raw") + "{{ raw }} {% x %}" + t("endraw")
        return t(f"for x in rows if x.{self.pick('v', 'k', 'w')} is defined") + self.pick(
            "{{ loop.index }}/{{ loop.length }}{{ loop.last }}", "{{ loop.previtem.k }}",
            "{{ loop.nextitem is defined }}", "{{ loop.cycle('a', 'b') }}",
            "{{ loop.changed(x.k) }}", "{{ loop.revindex0 }}") + t("endfor")

    def template(self):
        if self.r.random() < 0.6:
            return "{{ " + self.expression(self.r.randrange(1, 4)) + " }}"
        return self.space() + self.body(self.r.randrange(1, 3))


def main():
    if sys.argv[1] == "cases":
        sources = open(sys.argv[2], encoding="utf-8").read().split("\n====\n")
        result = {"variables": VARIABLES, "cases": [render(source) for source in sources]}
        json.dump(result, sys.stdout, ensure_ascii=False, indent=1)
        print()
    else:
        generator = Generator(int(sys.argv[2]))
        print(json.dumps({"variables": VARIABLES}))
        for _ in range(int(sys.argv[3])):
            case = render(generator.template())
            # Addresses of objects and numbers beyond 128 bits are out of scope.
            if " at 0x" not in case.get("text", "") and len(case.get("text", "")) < 20000:
                print(json.dumps(case))


if __name__ == "__main__":
    main()
