#!/usr/bin/python3
# Writes src/frontend/output/testdata: outputs of models in every tool format and what they mean.
#
# usage: output_cases.py
#
# Each format has a small encoder here, written from spec/models/chat_formats.md and from what the
# families' templates render, so that what an output means is known before it is parsed. Malformed
# outputs are written out by hand with the answer that spec/serving.md S5 and S6 give. Nothing here
# comes from the parser under test.
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent.parent / "src/frontend/output/testdata"

STRING = {"type": "string"}
TOOLS = [
    ("now", {"type": "object", "properties": {}}),
    ("search", {"type": "object", "properties": {"query": STRING, "limit": {"type": "integer"}},
                "required": ["query"]}),
    ("write_file", {"type": "object", "properties": {"path": STRING, "content": STRING}}),
    ("set", {"type": "object", "properties": {
        "timeout": {"type": "number"}, "count": {"type": "integer"}, "verbose": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "mode": {"anyOf": [{"enum": ["edit", "view"]}, {"const": "x"}]},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "level": {"enum": [1, 2, 3]}, "fixed": {"const": True},
        "list": {"type": "array", "items": {"type": "integer"}},
        "names": {"type": "array", "items": STRING},
        "map": {"type": "object", "properties": {"a": {"type": "integer"}, "s": STRING,
                                                 "deep": {"$ref": "#/$defs/tree"}}},
        "point": {"$ref": "#/$defs/point"}, "code": STRING,
        "maybe": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "array"}, {"type": "boolean"}]},
        "any": {}}, "$defs": {
            "point": {"type": "object", "properties": {"x": {"type": "number"},
                                                       "y": {"type": "number"}}},
            "tree": {"type": "object", "properties": {"v": {"type": "integer"},
                                                      "next": {"$ref": "#/$defs/tree"}}}}}),
    ("ns.sub-tool:v1", {"type": "object", "properties": {"a": STRING}}),
]


def js(value):
    """As templates write JSON."""
    return json.dumps(value, ensure_ascii=False)


class Raw(str):
    """JSON text of a value that Python would spell differently."""


def text_of(value):
    return value if isinstance(value, Raw) else js(value)


def compact(args):
    """Arguments that are put together member by member; strings escaped as JSON demands."""
    return "{" + ",".join(js(k) + ":" + text_of(v) for k, v in args) + "}"


def whole(args):
    """Arguments written as one JSON object."""
    return "{" + ", ".join(js(k) + ": " + text_of(v) for k, v in args) + "}"


class Family:
    """How one family writes; subclasses say what differs."""
    reasoning = "think"
    think_tail, think_open, think_close = "<|im_start|>assistant\n<think>\n", "<think>\n", "\n</think>\n\n"
    text_tail = "<|im_start|>assistant\n"
    before_call, between, markers = "\n\n", "\n", ["<other>", "[x]"]
    json_args = False
    nested_calls = True  # calls within an open reasoning block are seen

    def arguments(self, args):
        return whole(args) if self.json_args else compact(args)

    def region(self, calls):
        return self.between.join(self.call(n, a) for n, a in calls)

    def render(self, parts, tail_open):
        """The prompt's tail and the output of [("think"|"text"|"calls", …)]."""
        out, tail = "", self.text_tail
        for i, (kind, body) in enumerate(parts):
            if kind == "think":
                if i == 0 and tail_open:
                    tail = self.think_tail
                    out += body + self.think_close
                else:
                    out += self.think_open + body + self.think_close
            elif kind == "text":
                out += body
            else:
                out += (self.before_call if out and parts[i - 1][0] == "text" else "")
                out += self.region(body)
        return tail, out


class Hermes(Family):
    name, json_args = "hermes", True

    def call(self, n, a):
        return '<tool_call>\n{"name": %s, "arguments": %s}\n</tool_call>' % (js(n), whole(a))


class QwenXml(Family):
    name = "qwen_xml"

    def call(self, n, a):
        params = "".join("<parameter=%s>\n%s\n</parameter>\n" % (k, v if isinstance(v, str) and not isinstance(v, Raw) else text_of(v)) for k, v in a)
        return "<tool_call>\n<function=%s>\n%s</function>\n</tool_call>" % (n, params)


class Dsml(Family):
    name, space = "dsml", ""
    think_tail, think_open, think_close = "<｜Assistant｜><think>", "<think>", "</think>"
    text_tail = "<｜Assistant｜></think>"

    def region(self, calls):
        d = "｜DSML｜" + self.space
        outer = "calls" if self.space else "tool_calls"
        out = "<%s%s>\n" % (d, outer)
        for n, a in calls:
            out += '<%sinvoke name="%s">\n' % (d, n)
            for k, v in a:
                text = isinstance(v, str) and not isinstance(v, Raw)
                out += '<%sparameter name="%s" string="%s">%s</%sparameter>\n' % (
                    d, k, "true" if text else "false", v if text else text_of(v), d)
            if not a:
                out += "\n"
            out += "</%sinvoke>\n" % d
        return out + "</%s%s>" % (d, outer)


class DsmlSpaced(Dsml):
    space = " "


class Xtml(Family):
    name, reasoning = "xtml", "think_xtml"
    text_tail = '<|open|>message role="assistant"<|sep|><|open|>response<|sep|>'
    think_tail = '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>'
    nested_calls = True

    def value(self, k, v):
        text = isinstance(v, str) and not isinstance(v, Raw)
        kind = ("string" if text else "boolean" if isinstance(v, bool) else "null" if v is None else
                "object" if isinstance(v, dict) else "array" if isinstance(v, list) else "number")
        key = k.replace("&", "&amp;").replace('"', "&quot;")
        return '<|open|>argument key="%s" type="%s"<|sep|>%s<|close|>argument<|sep|>' % (
            key, kind, v if text else text_of(v))

    def region(self, calls):
        out = "<|open|>tools<|sep|>"
        for i, (n, a) in enumerate(calls):
            out += '<|open|>call tool="%s" index="%d"<|sep|>' % (n, i + 1)
            out += "".join(self.value(k, v) for k, v in a) + "<|close|>call<|sep|>"
        return out + "<|close|>tools<|sep|>"

    def render(self, parts, tail_open):
        out, tail, opened = "", self.text_tail, True
        for i, (kind, body) in enumerate(parts):
            if kind == "think":
                if i == 0 and tail_open:
                    tail, opened = self.think_tail, False
                else:
                    out += "<|open|>think<|sep|>"
                out += body + "<|close|>think<|sep|>"
            elif kind == "text":
                out += body if opened else "<|open|>response<|sep|>" + body
                out += "<|close|>response<|sep|>"
                opened = False
            else:
                if opened and i == 0:
                    out += "<|close|>response<|sep|>"
                out += self.region(body)
        return tail, out + "<|close|>message<|sep|><|end_of_msg|>"


class Kimi(Family):
    name, json_args = "kimi", True
    think_tail, think_open, think_close = "<|im_assistant|>assistant<|im_middle|><think>", "<think>", "</think>"
    text_tail, before_call = "<|im_assistant|>assistant<|im_middle|>", ""

    def region(self, calls):
        return "<|tool_calls_section_begin|>" + "".join(
            "<|tool_call_begin|>functions.%s:%d<|tool_call_argument_begin|>%s<|tool_call_end|>" % (
                n, i, whole(a)) for i, (n, a) in enumerate(calls)) + "<|tool_calls_section_end|>"


class Llama3(Family):
    name, json_args, between, before_call = "llama3", True, "; ", "\n"
    text_tail = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    think_tail = text_tail + "<think>\n"
    tag = True

    def region(self, calls):
        return ("<|python_tag|>" if self.tag else "") + self.between.join(
            '{"name": %s, "parameters": %s}' % (js(n), whole(a)) for n, a in calls)


class Mistral(Family):
    name, json_args, reasoning, before_call = "mistral", True, "think_mistral", ""
    think_tail, think_open, think_close, text_tail = "[/INST][THINK]", "[THINK]", "[/THINK]", "[/INST]"

    def region(self, calls):
        return "".join("[TOOL_CALLS]%s[ARGS]%s" % (n, whole(a)) for n, a in calls)


class MistralArray(Mistral):
    def region(self, calls):
        return "[TOOL_CALLS] [" + ", ".join(
            '{"name": %s, "arguments": %s, "id": "abc45678%d"}' % (js(n), whole(a), i)
            for i, (n, a) in enumerate(calls)) + "]"


class Gemma(Family):
    name, reasoning = "gemma", "think_gemma"
    text_tail = "<|turn>model\n<|channel>thought\n<channel|>"
    think_tail, think_open, think_close = "<|turn>model\n<|channel>thought\n", "<|channel>thought\n", "\n<channel|>"
    between, before_call = "", ""

    @classmethod
    def sorted(cls, v):
        """The family's template sorts keys."""
        if isinstance(v, dict):
            return {k: cls.sorted(x) for k, x in sorted(v.items())}
        return [cls.sorted(x) for x in v] if isinstance(v, list) else v

    def literal(self, v):
        if isinstance(v, Raw):
            return v
        if isinstance(v, str):
            return '<|"|>%s<|"|>' % v
        if isinstance(v, dict):
            return "{" + ",".join("%s:%s" % (k, self.literal(x)) for k, x in v.items()) + "}"
        if isinstance(v, list):
            return "[" + ",".join(self.literal(x) for x in v) + "]"
        return js(v)

    def arguments(self, args):
        return json.dumps(self.sorted(dict(args)), ensure_ascii=False, separators=(",", ":")) if not any(
            isinstance(v, Raw) for _, v in args) else compact(args)

    def call(self, n, a):
        a = self.sorted(dict(a)).items()
        return "<|tool_call>call:%s{%s}<tool_call|>" % (
            n, ",".join("%s:%s" % (k, self.literal(v)) for k, v in a))


class Glm(Family):
    name = "glm"
    think_tail, think_open, think_close = "<|assistant|><think>", "<think>", "</think>"
    text_tail, between, before_call = "<|assistant|><think></think>", "", ""
    gap = ""

    def call(self, n, a):
        return "<tool_call>" + n + self.gap + "".join(
            "<arg_key>%s</arg_key>%s<arg_value>%s</arg_value>%s" % (
                k, self.gap, v if isinstance(v, str) and not isinstance(v, Raw) else text_of(v),
                self.gap) for k, v in a) + "</tool_call>"


class GlmLines(Glm):
    gap = "\n"


class Minimax(Family):
    name, reasoning = "minimax", "think_minimax"
    think_tail, think_open, think_close = "]~b]ai\n<mm:think>", "<mm:think>", "</mm:think>"
    text_tail, before_call = "]~b]ai\n", ""
    ns = "]<]minimax[>["

    def xml(self, v):
        if isinstance(v, dict):
            return "".join("%s<%s>%s%s</%s>\n" % (self.ns, k, self.xml(x), self.ns, k) for k, x in v.items())
        if isinstance(v, list):
            return "".join("%s<item>%s%s</item>\n" % (self.ns, self.xml(x), self.ns) for x in v)
        return v if isinstance(v, str) else text_of(v)

    def arguments(self, args):
        return "{" + ",".join(js(k) + ":" + (v if isinstance(v, Raw) else json.dumps(
            v, ensure_ascii=False, separators=(",", ":"))) for k, v in args) + "}"

    def region(self, calls):
        out = self.ns + "<tool_call>\n"
        for n, a in calls:
            out += '%s<invoke name="%s">' % (self.ns, n)
            out += "".join("%s<%s>%s%s</%s>" % (self.ns, k, self.xml(v), self.ns, k) for k, v in a)
            out += self.ns + "</invoke>\n"
        return out + self.ns + "</tool_call>"


class Harmony(Family):
    name, reasoning, json_args, nested_calls = "harmony", "think_harmony", True, False
    text_tail = "<|start|>assistant"
    think_tail = "<|start|>assistant<|channel|>analysis<|message|>"

    def render(self, parts, tail_open):
        out, tail, opened = "", self.text_tail, True
        for i, (kind, body) in enumerate(parts):
            for call in body if kind == "calls" else [None]:
                start = "" if opened else "<|start|>assistant"
                opened = False
                if kind == "think":
                    if i == 0 and tail_open:
                        tail = self.think_tail
                    else:
                        out += start + "<|channel|>analysis<|message|>"
                    out += body + "<|end|>"
                elif kind == "text":
                    last = i + 1 == len(parts)
                    out += start + "<|channel|>%s<|message|>%s%s" % (
                        "final" if last else "commentary", body, "<|return|>" if last else "<|end|>")
                else:
                    out += start + "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>%s<|call|>" % (
                        call[0], whole(call[1]))
        return tail, out


class Atem(Family):
    name, reasoning, nested_calls = "atem", "think_atem", False
    text_tail, think_tail = "<|start|>assistant", "<|start|>assistant to=self<|message|>"

    def body(self, n, a):
        return '<atem:function_calls>\n<atem:invoke name="%s">\n' % n + "".join(
            '<atem:parameter name="%s">%s</atem:parameter>\n' % (
                k, v if isinstance(v, str) and not isinstance(v, Raw) else text_of(v)) for k, v in a) + \
            "</atem:invoke>\n</atem:function_calls>"

    def render(self, parts, tail_open):
        out, tail, opened = "", self.text_tail, True
        for i, (kind, body) in enumerate(parts):
            for call in body if kind == "calls" else [None]:
                start = "" if opened else "<|start|>assistant"
                opened = False
                if kind == "think":
                    if i == 0 and tail_open:
                        tail = self.think_tail
                    else:
                        out += start + " to=self<|message|>"
                    out += body + "<|eom|>"
                elif kind == "text":
                    out += start + " to=user<|message|>" + body + ("<|eot|>" if i + 1 == len(parts) else "<|eom|>")
                else:
                    out += start + " to=%s<|message|>%s<|eom|>" % (call[0], self.body(*call))
        return tail, out


def want(reasoning="", content="", calls=()):
    return {"reasoning": reasoning, "content": content,
            "calls": [{"name": n, "arguments": a, "complete": c} for n, a, c in calls]}


def built_cases(family, label=""):
    """Outputs whose meaning is what was encoded."""
    f, cases = family, []

    def add(name, parts, tail_open=True):
        tail, out = f.render(parts, tail_open)
        cases.append({"name": label + name, "reasoning": f.reasoning, "tail": tail, "output": out,
                      "end": "natural", "want": want(
                          "".join(b for k, b in parts if k == "think"),
                          "".join(b for k, b in parts if k == "text"),
                          [(n, f.arguments(a), True) for k, b in parts if k == "calls" for n, a in b])})

    def value(name, key, v, tool="set"):
        add(name, [("calls", [(tool, [(key, v)])])])

    add("plain text", [("text", "Hello there.\nHow are you?")])
    add("one call", [("calls", [("search", [("query", "red fox"), ("limit", 3)])])])
    add("text before a call", [("text", "I will look."), ("calls", [("search", [("query", "a")])])])
    add("no arguments", [("calls", [("now", [])])])
    add("two calls", [("calls", [("search", [("query", "a")]), ("now", [])])])
    add("three calls with text", [("text", "Three."), ("calls", [
        ("search", [("query", "a")]), ("search", [("query", "b")]), ("now", [])])])
    add("reasoning, text, call", [("think", "I plan."), ("text", "Look:"), ("calls", [("now", [])])])
    add("reasoning opened by the output", [("think", "I plan."), ("text", "Done.")], False)
    add("reasoning straight into a call", [("think", "Plan\n\nmore"), ("calls", [("now", [])])])
    add("name with punctuation", [("calls", [("ns.sub-tool:v1", [("a", "b")])])])
    value("unicode", "code", "Zürich 東京 🦊 é́")
    value("literal unicode escape", "code", "a \\u00e9 and \\n stay")
    value("quotes and backslashes", "code", 'say "hi" \\ and C:\\tmp\\')
    value("newlines in a value", "code", "if x:\n    return 1\n# end")
    value("tabs in a value", "code", "a\tb\t\tc")
    value("nested tags in a value", "code", "<a href='x'><b>1</b></a> <!-- c --> &amp; </x>")
    value("foreign markers in a value", "code", "<tool_calls> <|im_end|> [INST] <function> </thought>")
    value("braces in a string", "code", "mkdir -p t/{a,b")
    value("brackets and quotes", "code", "]}\"]}{[")
    value("number", "timeout", 30)
    value("real number", "timeout", Raw("-0.5e-3"))
    value("number beyond 2^53", "count", 12345678901234567890)
    value("boolean", "verbose", True)
    value("null where allowed", "maybe", None)
    value("enum string", "unit", "celsius")
    value("string under anyOf", "mode", "edit")
    value("array of integers", "list", [1, 2, 3])
    value("array of strings", "names", ["a", "b c", "d\"e"])
    value("object", "map", {"a": 1, "s": "x y"})
    value("object by reference", "point", {"x": 1.5, "y": -2})
    deep = {"v": 1}
    for _ in range(12):
        deep = {"v": 1, "next": deep}
    value("deep nesting", "map", {"deep": deep})
    value("value of 1500 characters", "code", "The quick brown fox; " * 71 + "end <eof>")
    add("all at once", [("think", "Think."), ("calls", [("set", [
        ("code", "x = 1\ny = 2"), ("timeout", 7), ("verbose", False), ("list", [5]), ("unit", "celsius")])])])
    return cases


def cut_after(family, parts, mark, tail_open=True):
    tail, out = family.render(parts, tail_open)
    return tail, out[:out.index(mark) + len(mark)]


def cut_cases(family, label=""):
    """A limit, or the end, within a string value."""
    parts = [("calls", [("write_file", [("content", "first line cont")])])]
    tail, out = cut_after(family, parts, "first li")
    full = family.arguments(parts[0][1][0][1])
    so_far = full[:full.index("first li") + 8]
    base = {"reasoning": family.reasoning, "tail": tail, "output": out}
    return [
        dict(base, name=label + "cut within a string", end="cut",
             want=want(calls=[("write_file", so_far, False)])),
        dict(base, name=label + "natural end within a string", end="natural",
             want=want(calls=[("write_file", so_far + '"}', True)])),
    ]


def case(family, name, output, wanted, end="natural", tail=None, tools=None, reasoning=None):
    made = {"name": name, "reasoning": family.reasoning if reasoning is None else reasoning,
            "tail": family.text_tail if tail is None else tail, "output": output, "end": end, "want": wanted}
    if tools is not None:
        made["tools"] = tools
    return made


def tag_block_cases(f):
    """Reasoning in tags, calls in tags: what S5 and S6 say about malformed output."""
    A = [("query", "a")]
    real, arg = f.region([("search", A)]), f.arguments(A)
    unknown = f.region([("launch", A)])
    tail, think, close = f.think_tail, f.think_open, f.think_close
    two = f.region([("search", A), ("now", [])])
    got, both = ("search", arg, True), [("search", arg, True), ("now", "{}", True)]
    cases = [
        case(f, "marker within closed reasoning", "I could write " + real + close + real,
             want("I could write " + real, "", [got]), tail=tail),
        case(f, "only call within an open block, natural end", "Now. " + real, want("Now. ", "", [got]), tail=tail),
        case(f, "only call within an open block, cut", "Now. " + real, want("Now. " + real), "cut", tail=tail),
        case(f, "two calls within an open block", "x" + two, want("x", "", both), tail=tail),
        case(f, "text behind a call within an open block", "a " + real + " b", want("a " + real + " b"), tail=tail),
        case(f, "undeclared call within an open block", "a " + unknown, want("a " + unknown), tail=tail),
        case(f, "call behind another that text followed, open block", "a " + real + " b " + real,
             want("a " + real + " b ", "", [got]), tail=tail),
        case(f, "unclosed reasoning stays reasoning", "Paris.", want("Paris."), tail=tail),
        case(f, "stray opening marker at the end", "Paris." + think.strip(), want("", "Paris.")),
        case(f, "undeclared tool is content", unknown, want("", unknown)),
        case(f, "undeclared tool, then a declared one", unknown + real, want("", unknown, [got])),
        case(f, "no tools declared", "a " + real, want("", "a " + real), tools=[]),
        case(f, "text behind a call", real + "\n\nDone.", want("", "\n\nDone.", [got])),
        case(f, "white space behind a call", real + "\n \n", want("", "", [got])),
        case(f, "calls in two regions", real + "\n" + real, want("", "", [got, got])),
        case(f, "a second block of reasoning", "one" + close + "text" + think + "two" + close + real,
             want("onetwo", "text", [got]), tail=tail),
    ]
    return cases


HAND = {}


def hand(f):
    def register(make):
        HAND.setdefault(f.name, []).append((f, make))
        return make
    return register


S = [("search", '{"query": "a"}', True)]


@hand(Hermes())
def _(f):
    o, c = "<tool_call>\n", "\n</tool_call>"
    ok = '{"name": "search", "arguments": {"query": "a"}}'
    yield case(f, "arguments before the name", o + '{"arguments": {"query": "a"}, "name": "search"}' + c, want(calls=S))
    yield case(f, "first key is type", o + '{"type":"function","name":"search","arguments":{"query": "a"}}' + c, want(calls=S))
    yield case(f, "extra members", o + '{"id": 7, "name":"search", "x": {"y": [1, "}"]}, "arguments":{"query": "a"}, "z": null}' + c, want(calls=S))
    yield case(f, "no newlines", "<tool_call>" + ok + "</tool_call>", want(calls=S))
    yield case(f, "parameters instead of arguments", o + '{"name":"search","parameters":{"query": "a"}}' + c, want(calls=S))
    yield case(f, "arguments as a string", o + '{"name":"search","arguments":"{\\"query\\": \\"a\\"}"}' + c, want(calls=S))
    yield case(f, "null arguments", o + '{"name":"now","arguments":null}' + c, want(calls=[("now", "{}", True)]))
    yield case(f, "no arguments member", o + '{"name":"now"}' + c, want(calls=[("now", "{}", True)]))
    yield case(f, "missing closer", o + ok, want(calls=S))
    yield case(f, "unfinished closer", o + ok + "\n</tool_ca", want(calls=S))
    yield case(f, "repeated closer", o + ok + c + "</tool_call>", want(calls=S))
    yield case(f, "one brace too many", o + ok + "}" + c, want(calls=S))
    yield case(f, "missing outer brace", o + ok[:-1] + c, want(calls=S))
    yield case(f, "missing closer before the next call", o + ok + o + ok + c, want(calls=S + S))
    yield case(f, "own markers within a string", o + '{"name":"search","arguments":{"query": "</tool_call> <tool_call> </think>"}}' + c,
               want(calls=[("search", '{"query": "</tool_call> <tool_call> </think>"}', True)]))
    yield case(f, "escapes", o + '{"name":"search","arguments":{"query": "\\u00e9\\ud83d\\ude00\\n\\/"}}' + c,
               want(calls=[("search", '{"query": "\\u00e9\\ud83d\\ude00\\n\\/"}', True)]))
    yield case(f, "lone surrogate", o + '{"name":"search","arguments":{"query": "\\ud83dx\\udc00"}}' + c,
               want(calls=[("search", '{"query": "\\ufffdx\\ufffd"}', True)]))
    yield case(f, "raw newline in a string", o + '{"name":"search","arguments":{"query": "a\nb"}}' + c,
               want(calls=[("search", '{"query": "a\\nb"}', True)]))
    yield case(f, "duplicate key", o + '{"name":"search","arguments":{"query": "a", "query": "b"}}' + c, want(calls=S))
    yield case(f, "broken arguments", o + '{"name":"search","arguments":{"query": "a", oops}}' + c, want(calls=S))
    yield case(f, "no JSON", o + "search(a)" + c, want("", o + "search(a)" + c))
    yield case(f, "JSON without a name", o + '{"query": "a"}' + c, want("", o + '{"query": "a"}' + c))
    yield case(f, "name is no string", o + '{"name": 5, "arguments": {}}' + c, want("", o + '{"name": 5, "arguments": {}}' + c))
    yield case(f, "empty region", "a <tool_call></tool_call> b", want("", "a <tool_call></tool_call> b"))
    yield case(f, "a failed marker, then a call", "x <tool_call>oh " + o + ok + c, want("", "x <tool_call>oh", S))
    yield case(f, "closer in prose", "Write </tool_call> at the end.", want("", "Write </tool_call> at the end."))
    yield case(f, "unfinished marker at the end", "Hello <tool_c", want("", "Hello <tool_c"))
    yield case(f, "cut before the name is known", o + '{"name": "sea', want("", o + '{"name": "sea'), "cut")
    yield case(f, "cut within a key (B037)", o + '{"name":"write_file","arguments":{"path": "r.md", "cont',
               want(calls=[("write_file", '{"path": "r.md", "cont', False)]), "cut")
    yield case(f, "natural end within a key", o + '{"name":"write_file","arguments":{"path": "r.md", "cont',
               want(calls=[("write_file", '{"path": "r.md"}', True)]))
    yield case(f, "text between calls", o + ok + c + "\nand\n" + o + ok + c, want("", "\nand", S + S))
    yield case(f, "carriage returns", "<tool_call>\r\n" + ok + "\r\n</tool_call>\r\n", want(calls=S))
    yield case(f, "opener again within opened reasoning", "<think>\nplan\n</think>\n\nok", want("plan", "ok"), tail=f.think_tail)
    yield case(f, "closer split by nothing (B023)", "plan</think>\n\nanswer", want("plan", "answer"), tail=f.think_tail)
    yield case(f, "empty reasoning", "\n</think>\n\nhi", want("", "hi"), tail=f.think_tail)
    yield case(f, "call closed and incomplete one within an open block", "x" + o + '{"name":"search","arguments":{"query": "a"', want("x" + o + '{"name":"search","arguments":{"query": "a"'), tail=f.think_tail)


@hand(QwenXml())
def _(f):
    def call(body, name="set"):
        return "<tool_call>\n<function=%s>\n%s</function>\n</tool_call>" % (name, body)

    def typed(name, key, text, value):
        return case(f, name, call("<parameter=%s>\n%s\n</parameter>\n" % (key, text)),
                    want(calls=[("set", "{%s:%s}" % (js(key), value), True)]))
    def code(name, raw, value):
        return case(f, name, call("<parameter=code>" + raw + "</parameter>\n"),
                    want(calls=[("set", compact([("code", value)]), True)]))
    yield code("indentation is kept (B009)", "\n    if x:\n        return 1\n\n", "    if x:\n        return 1\n")
    yield code("value on the tag's line", "abc", "abc")
    yield code("value on the tag's line, newline before the closer", "abc\n", "abc")
    yield code("empty value", "", "")
    yield code("empty value on a line", "\n", "")
    yield code("one empty line", "\n\n", "")
    yield code("two empty lines", "\n\n\n", "\n")
    yield code("value that starts with a newline", "\n\nx\n", "\nx")
    yield code("carriage returns at the borders", "\r\nx\r\ny\r\n", "x\r\ny")
    yield code("closer within a line (B112)", "\nuse </parameter> here\nor x</tool_call>\n", "use </parameter> here\nor x</tool_call>")
    yield code("several closers within lines", "\na</parameter>\n </parameter>\nb</parameter></function>\n", "a</parameter>\n </parameter>\nb</parameter></function>")
    yield case(f, "closer alone on a line ends the value (B112)",
               call("<parameter=code>\nfirst\n</parameter>\nrest\n</parameter>\n"),
               want(calls=[("set", '{"code":"first"}', True)]))
    yield code("a value of white space", "\n   \n", "   ")
    yield typed("boolean of another case", "verbose", "True", "true")
    yield typed("null for a string or null", "note", "null", "null")
    yield typed("null for a plain string", "code", "null", '"null"')
    yield typed("null, but not quite", "note", "nullable", '"nullable"')
    yield typed("zeros for a string", "code", "007", '"007"')
    yield typed("number for a string", "code", "42", '"42"')
    yield typed("zeros for a number", "timeout", "007", '"007"')
    yield typed("words for a number", "timeout", "soon", '"soon"')
    yield typed("undeclared parameter", "extra", "5", '"5"')
    yield typed("enum of numbers", "level", "2", "2")
    yield typed("constant", "fixed", "TRUE", "true")
    yield typed("array or boolean", "either", "False", "false")
    yield typed("array or boolean as array", "either", "[true]", "[true]")
    yield typed("any type stays text", "any", "5", '"5"')
    yield typed("any type, null", "any", "null", "null")
    yield typed("array that does not parse", "list", "[1, 2", '"[1, 2"')
    yield typed("object in foreign quotes", "map", "{'a': 1}", '"{\'a\': 1}"')
    yield typed("quoted number", "timeout", '"5"', '"\\"5\\""')
    yield typed("object over lines", "map", '{\n  "a": 1\n}', '{\n  "a": 1\n}')
    yield typed("integer or null", "maybe", "8", "8")
    yield typed("enum keeps quotes that were written", "unit", '"celsius"', '"\\"celsius\\""')
    yield case(f, "repeated closer (B046)", call("<parameter=code>\nx\n</parameter>\n</parameter>\n"), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "repeated region closer", call("<parameter=code>\nx\n</parameter>\n") + "\n</tool_call>", want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "no newlines at all", "<tool_call><function=set><parameter=code>x</parameter><parameter=count>2</parameter></function></tool_call>",
               want(calls=[("set", '{"code":"x","count":2}', True)]))
    yield case(f, "duplicate parameter", call("<parameter=code>\na\n</parameter>\n<parameter=code>\nb\n</parameter>\n"), want(calls=[("set", '{"code":"a"}', True)]))
    yield case(f, "missing function closer", "<tool_call>\n<function=now>\n</tool_call>", want(calls=[("now", "{}", True)]))
    yield case(f, "missing closers", "<tool_call>\n<function=set>\n<parameter=code>\nx\n</parameter>\n", want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing region closer", "<tool_call>\n<function=now>\n</function>", want(calls=[("now", "{}", True)]))
    yield case(f, "unfinished function closer", "<tool_call>\n<function=now>\n</funct", want(calls=[("now", "{}", True)]))
    yield case(f, "two functions in a region", "<tool_call>\n<function=now>\n</function>\n<function=now>\n</function>\n</tool_call>", want(calls=[("now", "{}", True)] * 2))
    yield case(f, "function without region", "<function=now>\n</function>", want("", "<function=now>\n</function>"))
    yield case(f, "region without function", "<tool_call>\nnow\n</tool_call>", want("", "<tool_call>\nnow\n</tool_call>"))
    yield case(f, "unfinished head", "a\n<tool_call>\n<function=no", want("", "a\n<tool_call>\n<function=no"))
    yield case(f, "cut number", "<tool_call>\n<function=set>\n<parameter=timeout>\n30", want(calls=[("set", '{"timeout":30', False)]), "cut")
    yield case(f, "cut within a closer", "<tool_call>\n<function=set>\n<parameter=code>\nab\n</para", want(calls=[("set", '{"code":"ab', False)]), "cut")
    yield case(f, "cut between parameters", "<tool_call>\n<function=set>\n<parameter=code>\nab\n</parameter>\n<para", want(calls=[("set", '{"code":"ab"', False)]), "cut")
    yield case(f, "cut behind the head", "<tool_call>\n<function=set>\n", want(calls=[("set", "", False)]), "cut")
    yield case(f, "long array streams and stays an array", call("<parameter=list>\n[" + "1, " * 60 + "1]\n</parameter>\n"),
               want(calls=[("set", '{"list":[' + "1, " * 60 + "1]}", True)]))
    yield case(f, "text before with blank line (B072)", "I will look.\n\n<tool_call>\n<function=search>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>",
               want("", "I will look.", [("search", '{"query":"a"}', True)]))
    yield case(f, "reasoning then answer (B111)", "I think.\n</think>\n\nSure.", want("I think.", "Sure."), tail=f.think_tail)
    yield case(f, "control characters", call("<parameter=code>\na\u0001\u0008\u000c\u001f\u007f\n</parameter>\n"),
               want(calls=[("set", '{"code":"a\\u0001\\b\\f\\u001f\u007f"}', True)]))


@hand(Dsml())
def _(f):
    d = "｜DSML｜"
    def call(body, name="set"):
        return '<%stool_calls>\n<%sinvoke name="%s">\n%s</%sinvoke>\n</%stool_calls>' % (d, d, name, body, d, d)
    def param(key, text, attr=' string="true"'):
        return '<%sparameter name="%s"%s>%s</%sparameter>\n' % (d, key, attr, text, d)
    def code(name, text, attr, value, key="code"):
        return case(f, name, call(param(key, text, attr)), want(calls=[("set", "{%s:%s}" % (js(key), value), True)]))
    yield code("every byte of a string is value", "\n x \n", ' string="true"', '"\\n x \\n"')
    yield code("empty string", "", ' string="true"', '""')
    yield code("number as a string by attribute", "7", ' string="true"', '"7"', "count")
    yield code("number by attribute, string by schema", "7", ' string="false"', "7")
    yield code("quoted string by attribute", '"x"', ' string="false"', '"x"')
    yield code("no attribute: the schema", "7", "", '"7"')
    yield code("no attribute: the schema, number", "7", "", "7", "count")
    yield code("JSON that does not parse", "{a:1}", ' string="false"', '"{a:1}"', "map")
    yield code("greater sign in a key", "1", ' string="false"', "1", "a>b")
    yield code("half a closer in a value", "a </｜DSML｜par b", ' string="true"', '"a </｜DSML｜par b"')
    yield code("closers of others in a value", "</parameter> </think>", ' string="true"', '"</parameter> </think>"')
    yield case(f, "repeated closer", call(param("code", "x") + "</%sparameter>\n" % d), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing region closer", call(param("code", "x"))[:-len("\n</%stool_calls>" % d)], want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing closers", call(param("code", "x")).split("</%sinvoke" % d)[0], want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "no name", "<%stool_calls>\n<%sinvoke>\n</%sinvoke>\n</%stool_calls>" % (d, d, d, d), want("", "<%stool_calls>\n<%sinvoke>\n</%sinvoke>\n</%stool_calls>" % (d, d, d, d)))
    yield case(f, "duplicate parameter", call(param("code", "a") + param("code", "b")), want(calls=[("set", '{"code":"a"}', True)]))
    yield case(f, "mark alone", "the mark ｜DSML｜ is", want("", "the mark ｜DSML｜ is"))
    yield case(f, "chat mode has no closing marker", "Hi.", want("", "Hi."))


@hand(Xtml())
def _(f):
    o, c, s, e = "<|open|>", "<|close|>", "<|sep|>", "<|close|>message<|sep|><|end_of_msg|>"
    def call(body, name="set"):
        return "%stools%s%scall tool=\"%s\" index=\"1\"%s%s%scall%s%stools%s" % (o, s, o, name, s, body, c, s, c, s)
    def arg(key, text, attr=' type="string"'):
        return "%sargument key=\"%s\"%s%s%s%sargument%s" % (o, key, attr, s, text, c, s)
    def one(name, key, text, attr, value, decoded=None):
        return case(f, name, call(arg(key, text, attr)) + e, want(calls=[("set", "{%s:%s}" % (js(decoded or key), value), True)]))
    yield one("every byte of a string is value", "code", "\n x\r\n", ' type="string"', '"\\n x\\r\\n"')
    yield one("escaped key", "a&amp;&quot;b", "1", ' type="number"', "1", 'a&"b')
    yield one("type wins over the schema", "code", "7", ' type="number"', "7")
    yield one("no type: the schema", "code", "7", "", '"7"')
    yield one("type before the key", 'code" x="', "7", "", '"7"', "code")
    yield one("null", "note", "null", ' type="null"', "null")
    yield one("array that does not parse", "list", "[1", ' type="array"', '"[1"')
    yield case(f, "whole object", call('%sjson type="object"%s{"code": "x", "list": [1]}%sjson%s' % (o, s, c, s)) + e,
               want(calls=[("set", '{"code": "x", "list": [1]}', True)]))
    yield case(f, "whole object that breaks", call('%sjson type="object"%s{"code": "x", oops%sjson%s' % (o, s, c, s)) + e,
               want(calls=[("set", '{"code": "x"}', True)]))
    yield case(f, "missing closers", call(arg("code", "x")).split("%scall" % c)[0], want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "repeated closer", call(arg("code", "x") + "%sargument%s" % (c, s)) + e, want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "duplicate argument", call(arg("code", "a") + arg("code", "b")) + e, want(calls=[("set", '{"code":"a"}', True)]))
    yield case(f, "response without tools", "Hi%sresponse%s" % (c, s) + e, want("", "Hi"))
    yield case(f, "empty think element", "%sthink%s%sresponse%sHi%sresponse%s" % (c, s, o, s, c, s) + e, want("", "Hi"), tail=f.think_tail)
    yield case(f, "half a marker", "a <|open| b", want("", "a <|open| b"))


@hand(Kimi())
def _(f):
    b, a, e, o, c = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    ok = b + "functions.search:0" + a + '{"query": "a"}' + e
    yield case(f, "white space between the parts", o + "\n" + b + "functions.search:0" + a + ' {"query": "a"} ' + e + "\n" + c, want(calls=S))
    yield case(f, "name without prefix", o + b + "search:12" + a + '{"query": "a"}' + e + c, want(calls=S))
    yield case(f, "name with colons", o + b + "functions.ns.sub-tool:v1:3" + a + '{"a": "b"}' + e + c, want(calls=[("ns.sub-tool:v1", '{"a": "b"}', True)]))
    yield case(f, "head without index", o + b + "functions.search" + a + "{}" + e + c, want("", o + b + "functions.search" + a + "{}" + e + c))
    yield case(f, "no object", o + b + "functions.search:0" + a + "a" + e + c, want("", o + b + "functions.search:0" + a + "a" + e + c))
    yield case(f, "empty arguments", o + b + "functions.now:0" + a + e + c, want(calls=[("now", "{}", True)]))
    yield case(f, "markers within a string", o + b + "functions.search:0" + a + '{"query": "<|tool_call_end|>"}' + e + c, want(calls=[("search", '{"query": "<|tool_call_end|>"}', True)]))
    yield case(f, "one brace too many", o + b + "functions.search:0" + a + '{"query": "a"}}' + e + c, want(calls=S))
    yield case(f, "broken arguments", o + b + "functions.search:0" + a + '{"query": "a" oops}' + e + c, want(calls=[("search", '{"query": "a" }', True)]))
    yield case(f, "undeclared between declared", o + ok + b + "functions.launch:1" + a + "{}" + e + ok + c, want("", b + "functions.launch:1" + a + "{}" + e, S + S))
    yield case(f, "missing section closer", o + ok, want(calls=S))
    yield case(f, "missing call closer", o + b + "functions.search:0" + a + '{"query": "a"}', want(calls=S))
    yield case(f, "call without section", ok, want("", ok))
    yield case(f, "empty section", "x " + o + c, want("", "x " + o + c))
    yield case(f, "repeated section closer", o + ok + c + c, want(calls=S))
    yield case(f, "duplicate key", o + b + "functions.search:0" + a + '{"query": "a", "query": "b", "limit": 1}' + e + c, want(calls=[("search", '{"query": "a", "limit": 1}', True)]))


@hand(Llama3())
def _(f):
    ok = '{"name": "search", "parameters": {"query": "a"}}'
    yield case(f, "space before the object", " \n" + ok, want(calls=S))
    yield case(f, "arguments instead of parameters", '{"name": "search", "arguments": {"query": "a"}}', want(calls=S))
    yield case(f, "type first", '{"type": "function", "name": "search", "parameters": {"query": "a"}}', want(calls=S))
    yield case(f, "parameters first", '{"parameters": {"query": "a"}, "name": "search"}', want(calls=S))
    yield case(f, "a JSON answer is text", '{"answer": 42, "name": "search"}', want("", '{"answer": 42, "name": "search"}'))
    yield case(f, "undeclared name is text", '{"name": "Bob", "id": 3}', want("", '{"name": "Bob", "id": 3}'))
    yield case(f, "undeclared name is text, more follows", '{"name": "Bob"} and {"name": "search"}', want("", '{"name": "Bob"} and {"name": "search"}'))
    yield case(f, "an object within text is text", "See " + ok, want("", "See " + ok))
    yield case(f, "python code is text", '<|python_tag|>search.call(query="a")', want("", '<|python_tag|>search.call(query="a")'))
    yield case(f, "two calls on lines", ok + "\n" + ok, want(calls=S + S))
    yield case(f, "two tags", "<|python_tag|>" + ok + "<|python_tag|>" + ok, want(calls=S + S))
    yield case(f, "text behind", ok + "\nDone.", want("", "\nDone.", S))
    yield case(f, "missing brace", ok[:-1], want(calls=S))
    yield case(f, "brace within a string", '{"name": "search", "parameters": {"query": "}}{"}}', want(calls=[("search", '{"query": "}}{"}', True)]))
    yield case(f, "object that breaks early", '{"name" "search"}', want("", '{"name" "search"}'))
    yield case(f, "only a brace", "{", want("", "{"))
    yield case(f, "no tools declared", ok, want("", ok), tools=[])
    yield case(f, "reasoning, then a bare call", "hm\n</think>\n\n" + ok, want("hm", "", S), tail=f.think_tail)
    yield case(f, "bare object in open reasoning stays", ok, want(ok), tail=f.think_tail)
    yield case(f, "marker in closed reasoning", "x <|python_tag|>" + ok + "\n</think>\n\n" + ok, want("x <|python_tag|>" + ok, "", S), tail=f.think_tail)
    yield case(f, "marker in open reasoning", "x <|python_tag|>" + ok, want("x ", "", S), tail=f.think_tail)


@hand(Mistral())
def _(f):
    ok = '[TOOL_CALLS]search[ARGS]{"query": "a"}'
    yield case(f, "with a call id", '[TOOL_CALLS]search[CALL_ID]123456789[ARGS]{"query": "a"}', want(calls=S))
    yield case(f, "without [ARGS]", '[TOOL_CALLS]search{"query": "a"}', want(calls=S))
    yield case(f, "array of one", '[TOOL_CALLS][{"name": "search", "arguments": {"query": "a"}}]', want(calls=S))
    yield case(f, "array over lines", '[TOOL_CALLS] [\n {"arguments": {"query": "a"}, "name": "search"}\n,{"name":"now"}\n]', want(calls=S + [("now", "{}", True)]))
    yield case(f, "array without closer", '[TOOL_CALLS][{"name": "search", "arguments": {"query": "a"}}', want(calls=S))
    yield case(f, "undeclared", '[TOOL_CALLS]launch[ARGS]{"a": [1]}', want("", '[TOOL_CALLS]launch[ARGS]{"a": [1]}'))
    yield case(f, "undeclared in an array", '[TOOL_CALLS][{"name": "launch", "arguments": {}}]', want("", '[TOOL_CALLS][{"name": "launch", "arguments": {}}]'))
    yield case(f, "marker alone", "see [TOOL_CALLS]", want("", "see [TOOL_CALLS]"))
    yield case(f, "prose behind the marker", "[TOOL_CALLS] is a token", want("", "[TOOL_CALLS] is a token"))
    yield case(f, "text behind", ok + " Done.", want("", " Done.", S))
    yield case(f, "markers within a string", '[TOOL_CALLS]search[ARGS]{"query": "[TOOL_CALLS][ARGS]"}', want(calls=[("search", '{"query": "[TOOL_CALLS][ARGS]"}', True)]))
    yield case(f, "broken arguments", '[TOOL_CALLS]search[ARGS]{"query": "a", oops', want("", "oops", S))
    yield case(f, "half a marker", "a [TOOL_CALL b", want("", "a [TOOL_CALL b"))
    yield case(f, "cut name", "[TOOL_CALLS]sea", want("", "[TOOL_CALLS]sea"), "cut")
    yield case(f, "reasoning and text", "hm[/THINK]Yes.", want("hm", "Yes."), tail=f.think_tail)
    yield case(f, "marker within closed reasoning", "x " + ok + "[/THINK]" + ok, want("x " + ok, "", S), tail=f.think_tail)
    yield case(f, "only call within an open block", "x " + ok, want("x ", "", S), tail=f.think_tail)
    yield case(f, "only call within an open block, cut", "x " + ok, want("x " + ok), "cut", tail=f.think_tail)
    yield case(f, "no tools declared", ok, want("", ok), tools=[])
    yield case(f, "stray opening marker", "Paris.[THINK]", want("", "Paris."))


@hand(Harmony())
def _(f):
    start, msg = "<|start|>assistant", "<|message|>"
    def to(name, body, end="<|call|>", extra=" <|constrain|>json"):
        return "<|channel|>commentary to=functions.%s%s%s%s%s" % (name, extra, msg, body, end)
    ok = to("search", '{"query": "a"}')
    yield case(f, "no terminator", ok[:-len("<|call|>")], want(calls=S))
    yield case(f, "recipient before the channel", ' to=functions.search<|channel|>commentary json' + msg + '{"query": "a"}<|call|>', want(calls=S))
    yield case(f, "call on the analysis channel", '<|channel|>analysis to=functions.search code' + msg + '{"query": "a"}<|call|>', want(calls=S))
    yield case(f, "without constrain", to("search", '{"query": "a"}', extra=""), want(calls=S))
    yield case(f, "name without prefix", '<|channel|>commentary to=search' + msg + '{"query": "a"}<|call|>', want(calls=S))
    yield case(f, "undeclared", to("launch", '{"a": 1}'), want("", '{"a": 1}'))
    yield case(f, "no object", to("search", "a"), want("", "a"))
    yield case(f, "empty body", to("now", ""), want())
    yield case(f, "markers within a string", to("search", '{"query": "<|call|><|end|>"}'), want(calls=[("search", '{"query": "<|call|><|end|>"}', True)]))
    yield case(f, "analysis, preamble, call", "<|channel|>analysis" + msg + "Think.<|end|>" + start + "<|channel|>commentary" + msg + "I look.<|end|>" + start + ok, want("Think.", "I look.", S))
    yield case(f, "analysis then final", "<|channel|>analysis" + msg + "Think.\n<|end|>" + start + "<|channel|>final" + msg + "Yes.\n<|return|>", want("Think.\n", "Yes.\n"))
    yield case(f, "missing end before the next start", "<|channel|>analysis" + msg + "Think." + start + "<|channel|>final" + msg + "Yes.", want("Think.", "Yes."))
    yield case(f, "no header", "Plain answer.", want("", "Plain answer."))
    yield case(f, "no header, looks like one", "<|chan is odd", want("", "<|chan is odd"))
    yield case(f, "unfinished header at the end", "<|channel|>final" + msg + "Yes.<|end|>" + start + "<|channel|>ana", want("", "Yes."))
    yield case(f, "only analysis, natural end", "Paris.", want("Paris."), tail=f.think_tail)
    yield case(f, "tool markup in analysis", "I call to=functions.search {\"query\": 1}<|end|>" + start + ok, want("I call to=functions.search {\"query\": 1}", "", S), tail=f.think_tail)
    yield case(f, "two calls", ok + start + to("now", "{}"), want(calls=S + [("now", "{}", True)]))
    yield case(f, "text behind a call's object", to("search", '{"query": "a"} extra'), want("", " extra", S))
    yield case(f, "final prefilled by the prompt", "Yes.<|return|>", want("", "Yes."), tail=start + "<|channel|>final" + msg)
    yield case(f, "no tools declared", ok, want("", '{"query": "a"}'), tools=[])
    yield case(f, "text without start behind an end", "<|channel|>analysis" + msg + "T<|end|>Hello", want("T", "Hello"))


@hand(Gemma())
def _(f):
    q, o, c = '<|"|>', "<|tool_call>", "<tool_call|>"
    def call(body, name="set"):
        return o + "call:" + name + "{" + body + "}" + c
    def one(name, body, args):
        return case(f, name, call(body), want(calls=[("set", args, True)]))
    yield one("quotes within a string", "code:" + q + 'a "b" \'c\' }],:' + q, '{"code":"a \\"b\\" \'c\' }],:"}')
    yield one("nested lists", "x:[[1,2],[],[" + q + "a" + q + "]]", '{"x":[[1,2],[],["a"]]}')
    yield one("keys with digits", "k1:1,2:2,a_b-c:3", '{"k1":1,"2":2,"a_b-c":3}')
    yield one("quoted keys", "map:{" + q + "a b" + q + ":1," + q + "c:d" + q + ":{}}", '{"map":{"a b":1,"c:d":{}}}')
    yield one("spaces between the parts", " a : 1 , b : [ 1 , 2 ] ", '{"a":1,"b":[1,2]}')
    yield one("bare text", "code:New York,count:3", '{"code":"New York","count":3}')
    yield one("double-quoted string", 'code:"x, \\"y\\""', '{"code":"x, \\"y\\""}')
    yield one("booleans and null", "a:true,b:False,c:null", '{"a":true,"b":false,"c":null}')
    yield one("empty string", "code:" + q + q, '{"code":""}')
    yield one("newlines within a string", "code:" + q + "\na\r\n" + q, '{"code":"\\na\\r\\n"}')
    yield one("duplicate key", "a:1,a:2,b:{a:1,a:2}", '{"a":1,"b":{"a":1}}')
    yield one("trailing comma", "a:1,", '{"a":1}')
    yield one("markers within a string", "code:" + q + "<|tool_call>call:x{}<tool_call|> <channel|>" + q, '{"code":"<|tool_call>call:x{}<tool_call|> <channel|>"}')
    yield case(f, "text between value and comma", call("code:" + q + "x" + q + " oops,b:1"), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "closed by the region's closer", o + "call:set{count:1" + c, want(calls=[("set", '{"count":1}', True)]))
    yield case(f, "missing closer", o + "call:now{}", want(calls=[("now", "{}", True)]))
    yield case(f, "repeated closer", call("", "now") + c, want(calls=[("now", "{}", True)]))
    yield case(f, "turn ends", call("", "now") + "<|tool_response>", want(calls=[("now", "{}", True)]))
    yield case(f, "turn marker behind text", "Hi<turn|>", want("", "Hi"))
    yield case(f, "no call keyword", o + "now{}" + c, want("", o + "now{}" + c))
    yield case(f, "empty region", "a " + o + c, want("", "a " + o + c))
    yield case(f, "cut in a number", o + "call:set{count:12", want(calls=[("set", '{"count":12', False)]), "cut")


@hand(Glm())
def _(f):
    k, v = lambda s: "<arg_key>%s</arg_key>" % s, lambda s: "<arg_value>%s</arg_value>" % s
    def call(body, name="set"):
        return "<tool_call>" + name + body + "</tool_call>"
    def one(name, key, text, value):
        return case(f, name, call(k(key) + v(text)), want(calls=[("set", "{%s:%s}" % (js(key), value), True)]))
    yield one("every byte between the tags is value", "code", "\n x\n", '"\\n x\\n"')
    yield one("empty value", "code", "", '""')
    yield one("boolean of another case", "verbose", "FALSE", "false")
    yield one("null for a string or null", "note", "null", "null")
    yield one("null for a plain string", "code", "null", '"null"')
    yield one("undeclared argument", "extra", "5", '"5"')
    yield one("zeros for a string", "code", "007", '"007"')
    yield one("array that does not parse", "list", "[1,", '"[1,"')
    yield case(f, "newline behind the name", "<tool_call>now\n</tool_call>", want(calls=[("now", "{}", True)]))
    yield case(f, "newline before the name", "<tool_call>\nnow</tool_call>", want(calls=[("now", "{}", True)]))
    yield case(f, "key without a value", call(k("code") + k("count") + v("3")), want(calls=[("set", '{"code":null,"count":3}', True)]))
    yield case(f, "repeated closer", call(k("code") + v("x") + "</arg_value>"), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "duplicate key", call(k("code") + v("x") + k("code") + v("y")), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing closer", "<tool_call>set" + k("code") + v("x"), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "no name", "<tool_call></tool_call>", want("", "<tool_call></tool_call>"))
    yield case(f, "JSON of another format", '<tool_call>{"name": "now"}</tool_call>', want("", '<tool_call>{"name": "now"}</tool_call>'))
    yield case(f, "half a closer in a value", call(k("code") + v("a </arg_val b")), want(calls=[("set", '{"code":"a </arg_val b"}', True)]))


@hand(Minimax())
def _(f):
    n = f.ns
    def el(key, body):
        return n + "<" + key + ">" + body + n + "</" + key + ">"
    def call(body, name="set"):
        return n + '<tool_call>\n' + n + '<invoke name="' + name + '">' + body + n + "</invoke>\n" + n + "</tool_call>"
    def one(name, body, args):
        return case(f, name, call(body), want(calls=[("set", args, True)]))
    yield one("empty array and object", el("list", "") + el("map", ""), '{"list":[],"map":{}}')
    yield one("empty string", el("code", ""), '{"code":""}')
    yield one("mixed content", el("map", "note" + el("a", "1")), '{"map":{"a":1,"$text":"note"}}')
    yield one("JSON in an object's element", el("map", '{"a": 1}'), '{"map":{"a": 1}}')
    yield one("nested without a schema", el("extra", el("a", "1") + el("b", el("item", "x") + el("item", "y"))), '{"extra":{"a":"1","b":["x","y"]}}')
    yield one("undeclared argument", el("extra", "5"), '{"extra":"5"}')
    yield one("boolean of another case", el("verbose", "True"), '{"verbose":true}')
    yield one("every byte between the tags is value", el("code", "\n x\n"), '{"code":"\\n x\\n"}')
    yield one("tags without the mark are text", el("code", "<a></code></invoke>"), '{"code":"<a></code></invoke>"}')
    yield one("items under other names", el("list", el("x", "1") + el("y", "2")), '{"list":[1,2]}')
    yield one("duplicate argument", el("code", "a") + el("code", "b"), '{"code":"a"}')
    yield one("duplicate member", el("map", el("a", "1") + el("a", "2")), '{"map":{"a":1}}')
    yield one("missing inner closer", el("map", n + "<a>1"), '{"map":{"a":1}}')
    yield one("closer of nothing", el("code", "x") + n + "</zzz>", '{"code":"x"}')
    yield one("array of objects", el("extra", el("item", el("a", "1")) + el("item", el("a", "2"))), '{"extra":[{"a":"1"},{"a":"2"}]}')
    yield case(f, "missing closers", call(el("code", "x")).split(n + "</invoke>")[0], want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing invoke closer", n + "<tool_call>" + n + '<invoke name="now">' + n + "</tool_call>", want(calls=[("now", "{}", True)]))
    yield case(f, "mark alone", "the mark " + n + " is", want("", "the mark " + n + " is"))
    yield case(f, "no name", n + "<tool_call>" + n + "<invoke x>" + n + "</invoke>", want("", n + "<tool_call>" + n + "<invoke x>" + n + "</invoke>"))


@hand(Atem())
def _(f):
    def msg(to, body, end="<|eom|>"):
        return " to=%s<|message|>%s%s" % (to, body, end)
    def call(body, name="set"):
        return '<atem:function_calls>\n<atem:invoke name="%s">\n%s</atem:invoke>\n</atem:function_calls>' % (name, body)
    def p(key, text):
        return '<atem:parameter name="%s">%s</atem:parameter>\n' % (key, text)
    def one(name, key, text, value):
        return case(f, name, msg("set", call(p(key, text))), want(calls=[("set", "{%s:%s}" % (js(key), value), True)]))
    start = "<|start|>assistant"
    yield one("number for a string is a number", "code", "7", "7")
    yield one("quoted string is one", "code", '"x"', '"x"')
    yield one("text", "code", "x = [1", '"x = [1"')
    yield one("text that looks like JSON at first", "code", '{"a": 1} and more', '"{\\"a\\": 1} and more"')
    yield one("long text that looks like JSON at first", "code", '["' + "a" * 100 + '"] tail', '"[\\"' + "a" * 100 + '\\"] tail"')
    yield one("spaces are kept", "code", "  x ", '"  x "')
    yield one("every byte between the tags is value", "code", "\nx\n", '"\\nx\\n"')
    yield one("object", "map", '{"a": 1}', '{"a": 1}')
    yield one("null", "note", "null", "null")
    yield case(f, "eom separates, eot ends", msg("self", "T") + start + msg("user", "Hi.") + start + msg("user", "Bye.", "<|eot|>"), want("T", "Hi.Bye."))
    yield case(f, "commentary is visible", msg("commentary", "I look.") + start + msg("user", "Hi.", "<|eot|>"), want("", "I look.Hi."))
    yield case(f, "no recipient", "<|message|>Hi.<|eot|>", want("", "Hi."))
    yield case(f, "no header", "Hi.", want("", "Hi."))
    yield case(f, "markup to the user is text", msg("user", call("", "now"), "<|eot|>"), want("", call("", "now")))
    yield case(f, "plain body to a tool", msg("set", "hello"), want("", "hello"))
    yield case(f, "undeclared tool", msg("launch", call("", "launch")), want("", call("", "launch")))
    yield case(f, "no tools declared", msg("now", call("", "now")), want("", call("", "now")), tools=[])
    yield case(f, "repeated closer", msg("set", call(p("code", "x") + "</atem:parameter>")), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "missing closers", msg("set", call(p("code", "x")).split("</atem:invoke")[0], ""), want(calls=[("set", '{"code":"x"}', True)]))
    yield case(f, "only reasoning, natural end", "Paris.", want("Paris."), tail=f.think_tail)
    yield case(f, "markup in reasoning", "I write " + call("", "now") + "<|eom|>" + start + msg("now", call("", "now")), want("I write " + call("", "now"), "", [("now", "{}", True)]), tail=f.think_tail)
    yield case(f, "half a header", " to=us", want())


class Plain(Family):
    name = "none"


@hand(Plain())
def _(f):
    t = f.think_tail
    for name, out, tail, wanted in [
            ("text", "Hello", f.text_tail, want("", "Hello")),
            ("white space", " \n Hello \n", f.text_tail, want("", " \n Hello \n")),
            ("nothing", "", f.text_tail, want()),
            ("opened by the prompt", "plan</think>\n\nanswer", t, want("plan", "answer")),
            ("opened by the prompt, newline", "plan\n</think>\n\nanswer", t, want("plan", "answer")),
            ("opened by the prompt without newline", "\nplan\n</think>answer", "<|assistant|><think>", want("plan", "answer")),
            ("opened by the output", "<think>\nplan\n</think>\n\nanswer", f.text_tail, want("plan", "answer")),
            ("newline before the opener", "\n<think>plan</think>answer", f.text_tail, want("plan", "answer")),
            ("only one newline is markup", "\n\nplan\n\n</think>\nanswer", "<think>", want("\nplan\n", "answer")),
            ("carriage returns", "plan\r\n</think>\r\n\r\nanswer", t, want("plan", "answer")),
            ("never closed", "Paris.", t, want("Paris.")),
            ("unfinished closer", "Paris.</thi", t, want("Paris.</thi")),
            ("false closer", "a</thing>b</think>c", t, want("a</thing>b", "c")),
            ("stray closer", "a</think>b", f.text_tail, want("", "ab")),
            ("stray opener at the end", "a<think>", f.text_tail, want("", "a")),
            ("unfinished opener", "a <thin", f.text_tail, want("", "a <thin")),
            ("opener again", "<think>plan</think>x", t, want("plan", "x")),
            ("opener within reasoning", "a <think> b</think>x", t, want("a <think> b", "x")),
            ("two blocks", "one</think>text<think>two</think>end", t, want("onetwo", "textend")),
            ("empty block of the prompt", "answer", "<think>\n\n</think>\n\n", want("", "answer")),
            ("marker in the prompt's text", "answer", "what is <think>?<|im_end|>\n<|im_start|>assistant\n", want("", "answer")),
            ("call markup is text", "<tool_call>{}</tool_call>", f.text_tail, want("", "<tool_call>{}</tool_call>")),
            ("call markup in reasoning", "x<tool_call>{\"name\":\"now\"}</tool_call>", t, want("x<tool_call>{\"name\":\"now\"}</tool_call>")),
            ("unicode", "dénké 🦊</think>東京", t, want("dénké 🦊", "東京")),
            ("space behind the closer", "a</think> b", t, want("a", " b")),
            ("tag-like text", "<b>x</b> < think > </ think>", f.text_tail, want("", "<b>x</b> < think > </ think>")),
    ]:
        yield case(f, name, out, wanted, tail=tail)
    yield case(f, "cut in reasoning", "Par", want("Par"), "cut", tail=t)
    yield case(f, "no reasoning format", "<think>x</think>", want("", "<think>x</think>"), reasoning="none")


def main():
    tools = [{"type": "function", "function": {"name": n, "description": n, "parameters": p}} for n, p in TOOLS]
    HERE.mkdir(exist_ok=True)
    (HERE / "tools.json").write_text(json.dumps(tools, indent=1) + "\n")
    made = {}
    for family, label in [(Hermes(), ""), (QwenXml(), ""), (Dsml(), ""), (DsmlSpaced(), "V4.1: "), (Xtml(), ""),
                          (Kimi(), ""), (Llama3(), ""), (Mistral(), ""), (MistralArray(), "array: "),
                          (Harmony(), ""), (Gemma(), ""), (Glm(), ""), (GlmLines(), "lines: "), (Minimax(), ""),
                          (Atem(), "")]:
        cases = made.setdefault(family.name, [])
        cases += built_cases(family, label) + cut_cases(family, label)
        if family.name in ("hermes", "qwen_xml", "dsml", "kimi", "gemma", "glm", "minimax"):
            cases += [dict(c, name=label + c["name"]) for c in tag_block_cases(family)]
    for name, list_of in HAND.items():
        for family, make in list_of:
            made.setdefault(name, []).extend(make(family))
    for name, cases in made.items():
        lines = [json.dumps(c, ensure_ascii=False) for c in cases]
        (HERE / (name + ".jsonl")).write_text("\n".join(lines) + "\n")
        print(name, len(cases))


main()
