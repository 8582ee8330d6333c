#!/usr/bin/python3
"""What jinja2 makes of small templates: the oracle behind the tests of src/frontend/template.

  jinja_oracle.py cases FILE      renders the templates of FILE (separated by lines of ====) as JSON
  jinja_oracle.py fuzz SEED N     makes N random templates and renders them as JSON lines
"""
import copy
import json
import random
import re
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
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols],
        # The optimizer slices numbers and mappings that are constants, which fails everywhere else.
        optimized=False)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


ENV = environment()
ADDRESS = re.compile(r" at 0x[0-9a-f]{5}|0x7[0-9a-f]{11}", re.I)


def noting_addresses(module, name):
    """Makes a function that turns values into text note when the text has an object's address."""
    inner = getattr(module, name)

    def outer(values):
        text = inner(values)
        render.saw_address |= ADDRESS.search(text) is not None
        return text
    setattr(module, name, outer)


def render(source):
    variables = copy.deepcopy(VARIABLES)  # filter indent extends lists in place
    render.saw_address = False
    try:
        return {"source": source, "text": ENV.from_string(source).render(**variables)}
    except Exception as error:  # every failure of a template is an expectation
        return {"source": source, "error": f"{type(error).__name__}: {error}"[:160]}


class Generator:
    """Random templates over the whole language: every statement, operator, filter, test, method."""

    TEXTS = ("'a'", "' '", "'l'", "','", "'lo'", "''", "'xyz'", "'Ü'", "'-'", "s", "'\\n'")
    STR_METHODS = ("upper()", "lower()", "casefold()", "strip()", "strip(T)", "lstrip()",
        "lstrip(T)", "rstrip()", "rstrip(T)", "strip(none)", "title()", "capitalize()",
        "swapcase()", "split()", "split(T)", "split(T, I)", "split(none, I)", "split(maxsplit=1)",
        "split(sep=T)", "rsplit()", "rsplit(T)", "rsplit(T, I)", "rsplit(none, I)", "splitlines()",
        "splitlines(true)", "splitlines(keepends=false)", "startswith(T)", "startswith(T, I)",
        "startswith((T, T))", "endswith(T)", "endswith(T, I, I)", "endswith((T, 'd'))",
        "replace(T, T)", "replace(T, T, I)", "find(T)", "find(T, I)", "find(T, I, I)", "rfind(T)",
        "rfind(T, I, I)", "count(T)", "count(T, I)", "count(T, I, I)", "index(T)", "index(T, I)",
        "rindex(T)", "partition(T)", "rpartition(T)", "join(ys)", "join(xs)", "join(s)", "join(d)",
        "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "isalnum()", "istitle()",
        "isdecimal()", "isnumeric()", "isascii()", "isprintable()", "isidentifier()",
        "removeprefix('He')", "removesuffix('ld')", "removeprefix(T)", "removesuffix(T)",
        "zfill(I)", "zfill(9)", "center(9, '*')", "center(12)", "ljust(9)", "ljust(I, '.')",
        "rjust(9)", "rjust(12, T)", "format(1, 'x')", "format(E, E)", "format(a=E)",
        "format_map(d)", "expandtabs()", "expandtabs(I)")
    DICT_METHODS = ("items()", "keys()", "values()", "get('a')", "get(A)", "get('zz', 5)",
        "get('zz', E)", "copy()", "pop()", "pop(0)", "pop('a')", "update(a=1)", "clear()",
        "setdefault('q', 1)", "a", "items", "b", "k", "missing")
    LIST_METHODS = ("count(1)", "count(E)", "index(2)", "index(E)", "index(1, I)", "append(1)",
        "copy()", "pop()", "pop(0)", "sort()", "reverse()", "insert(0, 1)", "extend([1])", "0",
        "1", "missing")
    OTHER_METHODS = ("real", "imag", "numerator", "denominator", "bit_length()", "is_integer()",
        "conjugate()", "items", "start", "stop", "step", "upper", "__class__", "__len__",
        "_private", "mro", "grouper", "list", "current", "next()", "x")
    STR_FILTERS = ("upper", "lower", "title", "capitalize", "trim", "trim(T)", "string", "int",
        "int(5)", "int(E)", "int(default=3, base=16)", "int(0, 2)", "float", "float(E)",
        "default('D')", "default('D', true)", "default(boolean=true)", "default", "d", "d(E)",
        "d(E, E)", "tojson", "tojson(indent=2)", "tojson(indent=0)", "tojson(sort_keys=true)",
        "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(indent=T)",
        "tojson(false, 1)", "replace(T, '+')", "replace('l', 'L', 1)", "replace(T, T, I)",
        "replace(A, A)", "e", "escape", "safe", "forceescape", "e|length", "e|upper",
        "safe|replace('a', '<')", "indent", "indent(2)", "indent(2, true)",
        "indent('> ', blank=true)", "indent(width=3, first=true, blank=true)", "urlencode",
        "wordcount", "format(1, 2)", "format(E)", "format(a=1)", "center(12)", "center",
        "truncate(8)", "truncate(8, true, '..', 0)", "truncate(5, false, '', 0)",
        "truncate(length=6, leeway=2)", "filesizeformat", "filesizeformat(true)", "wordwrap(5)",
        "wordwrap(10, false)", "wordwrap", "wordwrap(4, true, T)",
        "wordwrap(6, break_on_hyphens=false)", "wordwrap(width=8, wrapstring='|')", "striptags",
        "pprint", "urlize", "urlize(10)", "urlize(nofollow=true)",
        "urlize(rel='x', target='_blank')", "nope", "string|length", "tojson|string|length",
        "list", "length", "first", "last", "reverse", "batch(2)|list", "join(T)", "join",
        "unique|join", "sort|join", "select|list")
    LIST_FILTERS = ("length", "count", "first", "last", "list", "join", "join(T)",
        "join(', ', attribute='k')", "join(attribute='v')", "reverse", "reverse|list", "sort",
        "sort(reverse=true)", "sort(attribute='k')", "sort(true)", "sort(attribute='k,v')",
        "sort(case_sensitive=true)", "sort(attribute=0)", "unique|list", "unique(true)|list",
        "unique(attribute='k')|list", "sum", "sum(attribute='v')", "sum(start=1)", "sum(start=[])",
        "sum(attribute='v', start=2.5)", "min", "max", "min(true)", "max(attribute='k')",
        "min(attribute='v')", "map('upper')|list", "map(attribute='k')|list",
        "map(attribute='v', default=0)|list", "map(attribute='c.x')|list", "map(attribute=0)|list",
        "map('string')|join", "map('replace', T, 'Z')|list", "map('default', 7)|list",
        "map('int')|sum", "map('length')|list", "map('tojson')|join(T)", "map('first')|list",
        "map('nope')|list", "select|list", "select('odd')|list", "select('>', 1)|list",
        "select('in', xs)|list", "select('divisibleby', 2)|list", "reject|list",
        "reject('none')|list", "select('string')|list", "reject('in', [1, 'a'])|list",
        "select('mapping')|list", "select('nope')|list", "selectattr('k', 'equalto', 'a')|list",
        "selectattr('v', 'defined')|list", "selectattr|list", "rejectattr('v', 'gt', 1)|list",
        "rejectattr('k')|list", "selectattr('k', 'in', ['a'])|list|length",
        "selectattr('k')|map(attribute='k')|list", "selectattr('k', 'none')|list", "batch(2)|list",
        "batch(2, 0)|list", "batch(3, 'x')|map('join', '-')|list", "slice(2)|list",
        "slice(3)|list", "slice(2, 'f')|list", "groupby('k')", "groupby('k')|map('first')|list",
        "groupby('k', default='?')|list",
        "groupby('k', case_sensitive=true)|map('last')|map('length')|list",
        "groupby(attribute='v', default=0)|map(attribute='grouper')|list", "groupby(0)|list")
    ROW_FILTERS = ("join(', ', attribute='k')", "join(attribute='v')", "sort(attribute='k')",
        "unique(attribute='k')|list", "sum(attribute='v')", "sum(attribute='v', start=2.5)",
        "max(attribute='k')", "min(attribute='v')", "map(attribute='k')|list",
        "map(attribute='v', default=0)|list", "selectattr('k', 'equalto', 'a')|list",
        "selectattr('v', 'defined')|list", "selectattr|list", "rejectattr('v', 'gt', 1)|list",
        "rejectattr('k')|list", "selectattr('k', 'in', ['a'])|list|length",
        "selectattr('k')|map(attribute='k')|list", "selectattr('k', 'none')|list", "groupby('k')",
        "groupby('k')|map('first')|list", "groupby('k', default='?')|list",
        "groupby('k', case_sensitive=true)|map('last')|map('length')|list",
        "groupby(attribute='v', default=0)|map(attribute='grouper')|list")
    DICT_FILTERS = ("items|list", "dictsort", "dictsort(false, 'value')", "dictsort(reverse=true)",
        "dictsort(true)", "dictsort(by='value', case_sensitive=true)", "xmlattr", "xmlattr(false)",
        "length", "list", "urlencode", "tojson", "tojson(sort_keys=true)", "pprint",
        "attr('a')")
    NUMBER_FILTERS = ("string", "int", "int(5)", "int(E)", "int(default=3, base=16)", "int(0, 2)",
        "float", "float(E)", "abs", "round", "round(1)", "round(I)", "round(1, 'floor')",
        "round(0, 'ceil')", "round(-1, 'ceil')", "default('D')", "default('D', true)",
        "default(boolean=true)", "default", "d", "d(E)", "d(E, E)", "tojson", "tojson(indent=2)",
        "tojson(indent=0)", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)",
        "tojson(separators=(',', ':'))", "tojson(indent=T)", "tojson(false, 1)", "e", "safe",
        "e|length", "e|upper", "safe|replace('a', '<')", "urlencode", "center(12)", "center",
        "filesizeformat", "filesizeformat(true)", "pprint", "string|length",
        "tojson|string|length")
    TESTS = (
        "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
        "sequence", "iterable", "true", "false", "equalto 7", "eq('ab')", "eq E", "ne 1", "sameas none",
        "sameas true", "sameas(1)", "lower", "upper", "callable", "in [1, 7, 'ab']", "in xs", "escaped", "eq A")
    NUMBER_TESTS = (
        "odd", "even", "divisibleby 2", "divisibleby(3)", "gt 1", "lt(3)", "ge 2", "le 2", "greaterthan 1",
        "lessthan 1", "divisibleby 0", "in (1, 2)", "in range(5)")
    WILD_TESTS = ("filter", "test", "nope", "in d", "in(s)", "> 1", "== 7", "in mixed", "not none")
    FORMATS = ("%s", "%5s", "%-4s|", "%05.1f", "%d", "%x", "%r", "%3d%%", "%e", "%g", "%+d", "% d", "%#x",
               "%#o", "%o", "%c", "%.2s", "%i", "%u", "%F", "%G", "%.3g", "%08.3f", "%-8d|", "%+.1e", "%%",
               "%X", "%a", "%.0f", "%#.3g", "%5c|", "%.3d", "%(a)s", "%(b)5s", "%(zz)s", "%q", "%", "%5")
    BRACES = ("{}", "{0}", "{0:>5}", "{:<6}|", "{:^7}|", "{:*^9}", "{:05d}", "{:,}", "{:_}", "{:x}", "{:#x}",
              "{:b}", "{:o}", "{:e}", "{:.2f}", "{:g}", "{:%}", "{:+}", "{: }", "{!r}", "{!s:>4}", "{0[0]}",
              "{0.a}", "{0[a]}", "{a}", "{a:>{w}}", "{0}{1}", "{}{0}", "{{}}", "{", "}", "{:c}", "{:n}", "{:q}",
              "{:.3}", "{:=+6d}", "{:08.3f}", "{:,.2f}", "{0!a}", "{:10.3e}|", "{:<}", "{:.0%}", "{:G}", "{:,d}")

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.loops = 0

    def pick(self, *options):
        return self.r.choice(options)

    def fill(self, text):
        """T, I, A and E in a form become a text, an index, an atom and an expression."""
        out = []
        for i, c in enumerate(text):
            word = (i > 0 and (text[i - 1].isalnum() or text[i - 1] in "_'")) or (
                i + 1 < len(text) and (text[i + 1].isalnum() or text[i + 1] in "_'"))
            make = {"T": lambda: self.pick(*self.TEXTS), "I": self.small, "A": self.atom,
                    "E": lambda: self.expression(self.r.randrange(2))}.get(c)
            out.append(make() if make and not word else c)
        return "".join(out)

    STRINGS = ("s", "t", "u", "e", "'ab'", "'a,b,,c'", "'<b>&'", "' x '", "''", "'a' 'b'", "\"dq\\n\\t\\x41\\u00e9\"",
               "'\\\\'", "'naïve'|e", "'a\\nb\\n\\nc'", "'1,234'", "'12'", "'-3.5'", "'0x1f'", "d.b", "ys[1]",
               "'see http://a.b/c?d=1&e (www.x.org), me@x.io.'", "'<p>Hi  <b>you</b> &amp; &lt;me&gt;</p>'",
               "'one two-three four five-six-seven'", "'%s-%d'", "'ǆ ß İ ﬁ Σς'", "'\\'q\\''")
    NUMBERS = ("n", "z", "m", "f", "g", "1", "0", "-2", "3", "10", "2.0", "0x1f", "1_000", "0b101", "0o17", "1e3",
               "2.5e-3", "0.1", "yes", "no", "true", "false", "d.a", "rows[0].v", "xs[0]", "1e16", "123456.789")
    LISTS = ("xs", "ys", "empty", "mixed", "[1, 2]", "['x', 'Y']", "[]", "(1, 'a')", "()", "range(4)", "range(5, 0, -2)",
             "range(n)", "d['items']", "[[1, 'b'], [0, 'a']]", "['b', 'A', 'c', 'B']", "[true, none, 1.5]", "(3, 1, 2)")
    DICTS = ("d", "nodict", "rows[0]", "rows[3]", "d.c", "{'k': 1}", "{}", "{'b': [1], 'a': 'x'}", "dict(a=1, b=2)",
             "{'B': 1, 'a': 'z', 'C': none}", "{1: 'x', 2: 'y'}")
    OTHERS = ("missing", "nil", "none", "None", "namespace(a=1)", "range", "dict", "cycler('a', 'b')", "joiner('|')", "nil", "yes",
              "True", "x", "y", "d.zz", "s.zz", "missing.a", "loop", "fn", "self", "caller", "varargs", "kwargs")

    def atom(self):
        return self.pick(*self.pick(self.STRINGS, self.STRINGS, self.NUMBERS, self.LISTS, self.DICTS, ("rows",),
                                    self.OTHERS))

    def small(self):
        return self.pick("0", "1", "2", "-1", "5", "n", "-3", "3", self.pick("none", "1", "2", "yes"))

    def typed(self, kind, depth):
        """An expression that most likely has the type `kind`."""
        if self.r.random() < 0.05:
            return self.expression(depth)
        if kind == "any":
            kind = self.pick("str", "str", "num", "list", "dict", "rows")
        t = lambda k: self.typed(k, depth - 1)
        atoms = {"str": self.STRINGS, "num": self.NUMBERS, "list": self.LISTS, "dict": self.DICTS, "rows": ("rows",)}
        if depth <= 0:
            return self.pick(*atoms[kind])
        if kind == "str":
            return self.pick(
                lambda: f"({t('str')}).{self.fill(self.pick(*self.STR_METHODS))}",
                lambda: f"({t('str')})|{self.fill(self.pick(*self.STR_FILTERS))}",
                lambda: f"({t('str')} + {t('str')})", lambda: f"({t('any')} ~ {t('any')})",
                lambda: f"({t('str')})[{self.pick(':2', '1:', '-2:', '::-1', ':-1', 'n:', '::2', '0', '-1', '1:4:2')}]",
                lambda: self.format_expression(depth), lambda: f"({t('any')})|{self.pick('string', 'tojson', 'e', 'pprint')}",
                lambda: f"({t('list')})|join({self.pick(*self.TEXTS)})", lambda: f"({t('str')} * {self.pick('0', '1', '2', '3')})",
                lambda: f"({t('str')} if {t('any')} else {t('str')})")()
        if kind == "num":
            return self.pick(
                lambda: f"({t('num')} {self.pick('+', '-', '*', '/', '//', '%')} {t('num')})",
                lambda: f"{t('num')} ** {self.pick('0', '1', '2', '3', '-1', '0.5')}",
                lambda: f"({t('num')})|{self.fill(self.pick(*self.NUMBER_FILTERS))}",
                lambda: f"({self.pick('-', '+')}{t('num')})", lambda: f"({t('any')})|length",
                lambda: f"({t('str')}).{self.fill(self.pick('find(T)', 'count(T)', 'rfind(T)'))}",
                lambda: f"({t('list')})|{self.pick('sum', 'min', 'max', 'count')}", lambda: f"({t('str')})|int")()
        if kind == "list":
            return self.pick(
                lambda: f"({t('list')})|{self.fill(self.pick(*self.LIST_FILTERS))}",
                lambda: f"({t('rows')})|{self.fill(self.pick(*self.ROW_FILTERS))}",
                lambda: f"[{t('any')}, {t('any')}]", lambda: f"({t('any')}, {t('any')})",
                lambda: f"({t('str')}).{self.fill(self.pick('split()', 'split(T)', 'splitlines()', 'partition(T)'))}",
                lambda: f"({t('list')} + {t('list')})", lambda: f"({t('list')}).{self.fill(self.pick(*self.LIST_METHODS))}",
                lambda: f"{self.pick(*self.LISTS)}[{self.pick(':1', '1:', '::-1', '-2:', ':n', '::2', '3:0:-1')}]",
                lambda: f"({t('dict')}).{self.pick('items()', 'keys()', 'values()')}|list", lambda: f"range({t('num')}|int|abs)")()
        if kind == "dict":
            return self.pick(
                lambda: f"({t('dict')})|{self.fill(self.pick(*self.DICT_FILTERS))}",
                lambda: f"({t('dict')}).{self.fill(self.pick(*self.DICT_METHODS))}",
                lambda: f"{{{self.pick(*self.TEXTS)}: {t('any')}, 'k': {t('any')}}}", lambda: f"dict(a={t('any')}, b={t('any')})",
                lambda: f"dict({t('dict')}, z={t('any')})", lambda: f"({t('rows')})|{self.pick('first', 'last')}")()
        return self.pick("rows", "rows[1:]", "rows[::-1]", "[{'k': 'z', 'v': 0}] + rows", "rows|selectattr('v')|list")

    def typed_any(self, depth):
        return self.typed("any", depth)

    def format_expression(self, depth):
        e = lambda: self.typed(self.pick("str", "num", "num"), depth - 1)
        if self.r.random() < 0.5:
            form = self.pick(*self.FORMATS)
            value = f"({self.typed_any(depth - 1)})" if form[-1] in "sra" else self.pick(
                f"({e()})", f"({e()}, {e()})", f"({e()},)", f"{{'a': {e()}, 'b': {e()}}}") if "(" in form or self.r.random() < 0.1 else (
                f"({self.typed('num', depth - 1)})")
            return f"'{self.pick('', 'x ')}{form}' % {value}"
        text = self.pick(*self.BRACES) + self.pick("", "", self.pick(*self.BRACES))
        return f"'{text}'.format({e()}{self.pick('', ', ' + e(), ', a=' + e() + ', w=7')})"

    def boolean(self, depth):
        a = lambda: self.typed_any(depth - 1)
        num = lambda: self.typed("num", depth - 1)
        op = lambda: self.pick("==", "!=", "<", "<=", ">", ">=")
        return self.pick(
            lambda: f"({a()}) is {self.pick('', '', 'not ')}{self.fill(self.pick(*self.TESTS))}",
            lambda: f"({num()}) is {self.pick('', 'not ')}{self.fill(self.pick(*self.NUMBER_TESTS))}",
            lambda: f"({a()}) is {self.fill(self.pick(*self.WILD_TESTS))}",
            lambda: f"({num()}) {op()} ({num()})", lambda: f"({num()}) {op()} ({num()}) {op()} ({num()})",
            lambda: f"({self.typed('str', depth - 1)}) {op()} ({self.typed('str', depth - 1)})",
            lambda: f"({a()}) {self.pick('==', '!=')} ({a()})", lambda: f"({a()}) {self.pick('in', 'not in')} {self.pick('xs', 'ys', 'mixed', 'd')}",
            lambda: f"({self.typed('str', depth - 1)}) {self.pick('in', 'not in')} ({self.typed('str', depth - 1)})",
            lambda: f"{a()} {self.pick('and', 'or')} {a()}", lambda: f"not {a()}", lambda: a())()

    def expression(self, depth):
        if depth <= 0:
            return self.typed_any(0) if self.r.random() < 0.8 else self.atom()
        roll = self.r.random()
        if roll < 0.62:
            return self.typed_any(depth)
        if roll < 0.82:
            return self.boolean(depth)
        e = lambda: self.expression(depth - 1)
        return self.pick(
            lambda: f"({e()} if {e()} else {e()})", lambda: f"({e()} if {e()})", lambda: self.format_expression(depth),
            lambda: f"({e()}).{self.fill(self.pick(*self.OTHER_METHODS))}",
            lambda: f"({e()}).{self.fill(self.pick(*self.STR_METHODS))}",
            lambda: f"({e()})|{self.fill(self.pick(*self.STR_FILTERS))}",
            lambda: f"({e()})|{self.fill(self.pick(*self.LIST_FILTERS))}", lambda: f"({e()})|{self.pick('nope', 'string', 'list', 'trim')}",
            lambda: f"({e()})[{self.pick(self.small(), repr('a'), repr('items'), repr('k'), self.atom())}]",
            lambda: f"({e()}) {self.pick('+', '-', '*', '/', '//', '%', '~', '<', '==', 'in')} ({e()})",
            lambda: self.pick(f"[{e()}, {e()},]", f"({e()},)", f"dict({e()})", f"dict({e()}, **{e()})", f"range({e()})",
                              f"namespace({e()}).a", f"{{{e()}: {e()}}}", f"fn({e()})", f"fn(*{e()})", f"fn(y={e()})",
                              f"fn(**{e()})", "loop.index", "caller()", f"joiner({e()})()", f"cycler(*{e()}).next()"),
            lambda: self.pick(f"{e()}|{self.fill(self.pick(*self.STR_FILTERS))}", f"{e()} ~ {e()} ~ {e()}",
                              f"-{e()}|{self.fill(self.pick(*self.NUMBER_FILTERS))}", f"{e()} == {e()} and not {e()} or {e()}"))()

    def filter(self):
        return self.fill(self.pick(*self.STR_FILTERS))

    def space(self):
        return self.pick("", "", " ", "\n", "  ", "\n  ", " \n", "\n\n", "\t", "\r\n")

    def raw(self, text):
        return "{%" + self.pick("", "-", "+") + f" {text} " + self.pick("", "-") + "%}"

    def tag(self, text):
        return "{%" + self.pick("", "", "", "-", "+") + self.pick(" ", "", "  ", "\n") + text + self.pick(
            " ", "", "\n ") + self.pick("", "", "", "-", "+") + "%}"

    def body(self, depth):
        return "".join(self.statement(depth) + self.space() for _ in range(self.r.randrange(1, 4)))

    LOOP = ("{{ loop.index }}/{{ loop.length }}{{ loop.last }}", "{{ loop.previtem.k }}", "{{ loop.previtem }}",
            "{{ loop.nextitem is defined }}", "{{ loop.nextitem }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.cycle() }}",
            "{{ loop.changed(x.k) }}", "{{ loop.changed(x) }}", "{{ loop.revindex0 }}", "{{ loop.revindex }}",
            "{{ loop.first }}{{ loop.index0 }}", "{{ loop.depth }}{{ loop.depth0 }}", "{{ loop }}", "{{ loop.nope }}",
            "{{ loop(xs) }}", "{{ loop|length }}", "{{ x }}", "{% set x = x %}{{ x }}", "{% if loop.first %}F{% else %}-{% endif %}")

    def simple(self):
        e = self.expression(self.pick(0, 0, 1, 1, 2, 3))
        return self.pick("text", "x ", "{# note #}", "{#- note -#}", "{#+ n +#}", "{{ x }}", "{{ loop.index }}", "\n", "<b>&",
                         "{{" + self.pick("", "-", "+") + f" {e} " + self.pick("", "-") + "}}",
                         "{{" + self.pick("", "-") + f" {e} " + self.pick("", "-") + "}}", f"{{{{ {e}, {e} }}}}",
                         self.tag(f"set {self.pick('x', 'y', 'n', '_p')} = {e}"), self.tag(self.pick(f"set x, y = {e}, 1", "set (x, y) = 'ab'", "set x, = [1]", f"set ns.a = {e}", f"set x, y = {e}")),
                         self.tag(f"set x = {e}, 1"), self.tag(f"print {e}, 1"), "{{ y }}", *([self.tag("break"), self.tag("continue")] if self.loops or self.r.random() < 0.02 else []))

    def statement(self, depth):
        if depth <= 0:
            return self.simple()
        e = self.expression(self.r.randrange(3))
        b = lambda: self.space() + self.body(depth - 1)
        t = self.tag
        kind = self.r.randrange(24)
        if kind < 4:
            loop = self.pick("", "", self.pick(*self.LOOP))
            names = self.pick("x", "x", "x", "x", "x", "x, y")
            condition = self.pick("", "", "", f" if {self.expression(1)}", " if x", " if loop.index")
            recursive = self.pick("", "", "", " recursive")
            source = self.pick(self.typed("list", 1), "xs", "rows", "mixed", "d.items()", "s", "range(3)", e)
            if names != "x":
                source = self.pick("d.items()", "rows[0].items()", "[(1, 2), 'ab']", "d|dictsort", "xs|batch(2)", source)
            self.loops += 1
            text = t(f"for {names} in {source}{condition}{recursive}") + loop + b() + self.pick(
                "", "", t(self.pick("break", "continue")), t("else") + "none") + t("endfor")
            self.loops -= 1
            return text
        if kind < 7:
            return t(f"if {e}") + b() + self.pick("", t("else") + b(), t(f"elif {self.expression(1)}") + b(),
                                                  t(f"elif {e}") + b() + t("else") + b()) + t("endif")
        if kind < 8:
            return t(f"set x = {e}") + self.space() + "{{ x }}"
        if kind < 9:
            return t("set x" + self.pick("", "", f" | {self.filter()}")) + b() + t("endset") + "[{{ x|trim }}]{{ x }}"
        if kind < 12:
            parameters = self.pick("x, y=2", "", "x", "x=1, y=x", "x, y", "x=n")
            inside = self.pick("{{ y }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1) }}",
                               "{{ caller is defined }}", "{{ fn.name }}{{ fn.arguments }}{{ fn.catch_kwargs }}{{ fn.caller }}")
            call = self.pick(f"{{{{ fn({e}) }}}}", f"{{{{ fn(1, y={e}) }}}}", "{{ fn() }}", "{{ fn(1, 2, 3) }}",
                             "{{ fn(1, z=3) }}", "{{ fn(y=1, x=2) }}", "{{ fn(*xs) }}", "{{ fn(**d) }}", "{{ fn }}",
                             t(f"call fn({self.pick('', e, '1, y=2')})") + b() + t("endcall"),
                             t(f"call({self.pick('x', 'x=5', 'x, y=3', '')}) fn({self.pick('', e)})") + b() + t("endcall"))
            return t(f"macro fn({parameters})") + b() + inside + t("endmacro") + call
        if kind < 13:
            return t("set ns = namespace(a=0)") + t(f"for x in {self.pick('xs', e)}") + t(
                f"set ns.a = {self.pick('ns.a + x', 'x', e)}") + self.pick("", b()) + t("endfor") + "{{ ns.a }}{{ ns.b }}"
        if kind < 14:
            return t(f"filter {self.filter()}") + b() + t("endfilter")
        if kind < 15:
            return self.raw("raw") + self.pick("{{ raw }} {% x %}", "{# c #}", " \n {{") + self.raw("endraw")
        if kind < 17:
            return t(f"for x in {self.pick('rows', 'mixed', 'xs')}{self.pick('', f' if x.{self.pick(*list(chr(c) for c in (118, 107, 119)))} is defined')}") + "".join(
                self.pick(*self.LOOP) for _ in range(self.r.randrange(1, 3))) + t("endfor")
        if kind < 18:
            return t(self.pick(f"with x = {e}", f"with x = {e}, y = x", "with", "with x, y = (1, 2)")) + b() + "{{ x }}" + t("endwith")
        if kind < 19:
            return t("generation") + b() + t("endgeneration")
        if kind < 20:
            name = self.pick("p", "q", "r")
            return t(f"block {name}{self.pick('', '', ' scoped', ' required')}") + self.pick(b(), " ", "") + t(
                f"endblock{self.pick('', ' ' + name)}") + self.pick("", "{{ self.p() }}", "{{ super() }}", "{{ self.zz }}", "{{ self.q }}")
        if kind < 21:
            return t(f"autoescape {self.pick('true', 'false', 'yes', 'none', 'n')}") + b() + t("endautoescape")
        if kind < 22:
            return t(self.pick("include 'x'", "include 'x' ignore missing", "include [] ignore missing", "include []",
                               f"include {e}", "import 'x' as m", "from 'x' import a, b as c",
                               "import 'x' as m with context", "extends 'x'", "do xs", "debug", "trans", "nonsense", "include n",
                               "include 'x' ignore missing with context", "from 'x' import a without context"))
        if kind < 23:
            return t(f"for x in [1, [2, [3]]] recursive") + self.pick(
                "{{ x if x is number else loop(x) }}", "{{ loop.depth }}{{ loop(x) if x is iterable }}",
                "({{ loop.index }}{{ loop([x]) if loop.depth < 3 }})") + t("endfor")
        return t(f"if {e}") + b() + t("endif") + t(f"for x in {self.pick('empty', 'e', 'nodict')}") + b() + t("else") + b() + t("endfor")

    def template(self):
        if self.r.random() < 0.5:
            return "{{ " + self.expression(self.r.randrange(1, 5)) + " }}"
        return self.space() + self.body(self.r.randrange(1, 4))


def main():
    if sys.argv[1] == "cases":
        sources = open(sys.argv[2], encoding="utf-8").read().split("\n====\n")
        result = {"variables": VARIABLES, "cases": [render(source) for source in sources]}
        json.dump(result, sys.stdout, ensure_ascii=False, indent=1)
        print()
    else:
        # Here, so that a benchmark that takes ENV from this module gets jinja2 as it is.
        noting_addresses(jinja2.runtime, "str_join")
        noting_addresses(jinja2.runtime, "markup_join")
        noting_addresses(jinja2.filters, "soft_str")
        noting_addresses(jinja2.filters, "pformat")
        generator = Generator(int(sys.argv[2]))
        print(json.dumps({"variables": VARIABLES}))
        for _ in range(int(sys.argv[3])):
            case = render(generator.template())
            # Addresses of objects, sets, generic aliases (what a class answers), slices of constants that have none (jinja2
            # computes them while it compiles, with other rules) and its own slips are out of scope.
            text, error = case.get("text", ""), case.get("error", "")
            odd = render.saw_address or ADDRESS.search(text) or "dict[" in text.lower() or re.search(
                r" - .*\.(items|keys)\(\)|\.(items|keys)\(\).* - |\(dict\)[.\[]"
                r"|([}0-9el)]|\|\w+)\)\[[^\]\[]*:[^\]\[]*\]", case["source"])
            if not odd and len(text) < 20000 and not error.startswith("AssertionError"):
                print(json.dumps(case))


if __name__ == "__main__":
    main()
