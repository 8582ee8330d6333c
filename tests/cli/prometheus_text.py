# A strict reader of Prometheus text format 0.0.4, after its specification; it shares nothing with the writer.
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


class Malformed(Exception):
    pass


class Family:
    def __init__(self, name):
        self.name = name
        self.type = None
        self.help = None
        self.samples = {}  # (sample name, ((label, value), …)) → number

    def value(self, suffix="", **labels):
        return self.samples[self.name + suffix, tuple(sorted(labels.items()))]

    def total(self, **labels):
        """The sum of samples that carry these labels."""
        return sum(v for (_, have), v in self.samples.items() if set(labels.items()) <= set(have))


def unescape(text, allowed):
    out, i = "", 0
    while i < len(text):
        if text[i] == "\\":
            if i + 1 == len(text) or text[i + 1] not in allowed:
                raise Malformed(f"escape in {text!r}")
            out += {"n": "\n"}.get(text[i + 1], text[i + 1])
            i += 2
        else:
            out += text[i]
            i += 1
    return out


def number(text):
    special = {"+Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}
    if text in special:
        return special[text]
    if not NUMBER.fullmatch(text):
        raise Malformed(f"no number: {text!r}")
    return float(text)


def sample(line):
    match = NAME.match(line)
    if not match:
        raise Malformed(f"no name: {line!r}")
    name, rest, labels = match[0], line[match.end():], {}
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            match = LABEL.match(rest)
            if not match or not rest[match.end():].startswith('="'):
                raise Malformed(f"label: {line!r}")
            end = match.end() + 2
            while rest[end:end + 1] != '"':
                if end >= len(rest):
                    raise Malformed(f"open value: {line!r}")
                end += 2 if rest[end] == "\\" else 1
            if match[0] in labels:
                raise Malformed(f"label twice: {line!r}")
            labels[match[0]] = unescape(rest[match.end() + 2:end], '\\n"')
            rest = rest[end + 1:]
            if rest.startswith(","):
                rest = rest[1:]
            elif not rest.startswith("}"):
                raise Malformed(f"between labels: {line!r}")
        rest = rest[1:]
    if not rest.startswith(" ") or rest.count(" ") != 1:
        raise Malformed(f"value: {line!r}")
    return name, tuple(sorted(labels.items())), number(rest[1:])


def check_histogram(family):
    """Buckets grow to +Inf, which is the count; a sum goes with each."""
    groups = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(kv for kv in labels if kv[0] != "le")
        group = groups.setdefault(rest, {"buckets": [], "sum": None, "count": None})
        kind = name[len(family.name) + 1:]
        if kind == "bucket":
            group["buckets"].append((number(dict(labels)["le"]), value))
        else:
            group[kind] = value
    for labels, group in groups.items():
        bounds = [b for b, _ in group["buckets"]]
        counts = [c for _, c in group["buckets"]]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != math.inf:
            raise Malformed(f"{family.name}{labels}: bounds {bounds}")
        if counts != sorted(counts) or counts[-1] != group["count"] or group["sum"] is None:
            raise Malformed(f"{family.name}{labels}: counts {counts} of {group}")


def parse(text):
    """Families by name. Raises Malformed at whatever the specification does not allow, and at NaN."""
    if not text.endswith("\n"):
        raise Malformed("the last line is not ended")
    families, current = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP ") or line.startswith("# TYPE "):
            _, what, name, *rest = line.split(" ", 3)
            if not NAME.fullmatch(name) or not rest:
                raise Malformed(line)
            if current is None or current.name != name:
                if name in families:
                    raise Malformed(f"{name} in two places")
                current = families[name] = Family(name)
            if what == "HELP":
                if current.help is not None or current.samples:
                    raise Malformed(f"second or late HELP of {name}")
                current.help = unescape(rest[0], "\\n")
            else:
                if current.type is not None or current.samples or rest[0] not in TYPES:
                    raise Malformed(f"second, late or unknown TYPE of {name}: {rest[0]}")
                current.type = rest[0]
            continue
        if line.startswith("#") or not line:
            raise Malformed(f"unexpected: {line!r}")
        name, labels, value = sample(line)
        if current is None or name not in [current.name + s for s in SUFFIXES.get(current.type, ("",))]:
            raise Malformed(f"{name} is not of {current and current.name}")
        if (name, labels) in current.samples:
            raise Malformed(f"twice: {line!r}")
        if math.isnan(value):
            raise Malformed(f"NaN: {line!r}")
        current.samples[name, labels] = value
    for family in families.values():
        if family.type is None or not family.help:
            raise Malformed(f"{family.name} without type or help")
        if family.type == "counter" and not family.name.endswith("_total"):
            raise Malformed(f"counter {family.name}")
        if family.type == "gauge" and family.name.endswith("_total"):
            raise Malformed(f"gauge {family.name}")
        if family.type == "histogram":
            check_histogram(family)
        if family.type != "gauge" and any(v < 0 for v in family.samples.values()):
            raise Malformed(f"{family.name} below zero")
    return families


def fallen(before, after):
    """Counters and histogram counts of `before` that are smaller or gone in `after`."""
    found = []
    for name, family in before.items():
        if family.type == "gauge":
            continue
        for key, value in family.samples.items():
            now = after[name].samples.get(key) if name in after else None
            if now is None or now < value:
                found.append((key, value, now))
    return found
