"""CQL types for the generator: random values from small sets, so that rows meet, as literals, as bytes and as JSON.

A value is a Python object: int, str, bytes, bool, float as text, list, dict as a list of pairs. `Type.random` draws one; `literal`, `encode` and `json` write it.
"""

import json
import struct
import uuid

NULL = None


class Type:
    """A type. `name` is its CQL. `key`: may be part of a primary key."""

    key = True
    multi_cell = False
    numeric = False
    texty = False
    #: Whether a value may have no bytes at all.
    may_be_empty = False

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Number(Type):
    numeric = True

    def __init__(self, name, width, values):
        super().__init__(name)
        self.width, self.values = width, values

    def random(self, rng):
        return rng.choice(self.values) if rng.random() < 0.2 else rng.randrange(-2, 6)

    def literal(self, value):
        return str(value)

    json = literal

    def encode(self, value):
        if self.width:
            return value.to_bytes(self.width, "big", signed=True)
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


class Float(Type):
    numeric = True

    def __init__(self, name, form):
        super().__init__(name)
        self.form = form

    def random(self, rng):
        return rng.choice(["0.0", "-0.0", "1.5", "-2.25", "3.0", "NaN", "Infinity", "1e10"] if rng.random() < 0.4 else ["0.5", "1.0", "2.0"])

    def literal(self, value):
        return value

    def json(self, value):
        return json.dumps(value) if value in ("NaN", "Infinity") else value

    def encode(self, value):
        return struct.pack(self.form, float(value))


class Decimal(Type):
    numeric = True

    def random(self, rng):
        # No two are equal: of equal numbers with other bytes, Messina and Cassandra keep different ones by design.
        return rng.choice([(0, 0), (15, 1), (151, 2), (-225, 2), (3, 0), (10 ** 20, 3), (1, -3)])

    def literal(self, value):
        unscaled, scale = value
        return f"{unscaled}E{-scale}" if scale < 0 else f"{unscaled / 10 ** scale:.{scale}f}" if abs(unscaled) < 10 ** 15 else f"{str(unscaled)[:-scale]}.{str(unscaled)[-scale:]}"

    def json(self, value):
        return f'"{self.literal(value)}"'  # as a number it would pass through a double in Cassandra

    def encode(self, value):
        unscaled, scale = value
        return struct.pack(">i", scale) + Number("varint", 0, []).encode(unscaled)


class Text(Type):
    texty = True
    may_be_empty = True

    def __init__(self, name):
        super().__init__(name)
        self.values = ["", "a", "b", "ab", "it's", "Abc", "x" * 40] + ([] if name == "ascii" else ["zoë", "日本"])

    def random(self, rng):
        return rng.choice(self.values) if rng.random() < 0.5 else rng.choice("abc")

    def literal(self, value):
        return "'" + value.replace("'", "''") + "'"

    def json(self, value):
        return json.dumps(value, ensure_ascii=False)

    def encode(self, value):
        return value.encode()


class Blob(Type):
    may_be_empty = True

    def random(self, rng):
        return rng.choice([b"", b"\0", b"\xff", b"ab"])

    def literal(self, value):
        return "0x" + value.hex()

    def json(self, value):
        return f'"0x{value.hex()}"'

    def encode(self, value):
        return value


class Boolean(Type):
    def random(self, rng):
        return rng.random() < 0.5

    def literal(self, value):
        return "true" if value else "false"

    json = literal

    def encode(self, value):
        return b"\1" if value else b"\0"


class Choice(Type):
    """A type whose values are written in a table: (literal, bytes, JSON)."""

    def __init__(self, name, values, key=True):
        super().__init__(name)
        self.values, self.key = values, key

    def random(self, rng):
        return rng.choice(self.values)

    def literal(self, value):
        return value[0]

    def encode(self, value):
        return value[1]

    def json(self, value):
        return value[2]


def texts(name, pairs, key=True):
    return Choice(name, [(f"'{text}'", data, f'"{text}"') for text, data in pairs], key)


def plain(name, pairs, key=True):
    return Choice(name, [(text, data, f'"{text}"') for text, data in pairs], key)


class Collection(Type):
    def __init__(self, kind, inner, frozen):
        name = f"{kind}<{', '.join(each.name for each in inner)}>"
        super().__init__(f"frozen<{name}>" if frozen else name)
        self.kind, self.inner, self.multi_cell, self.key = kind, inner, not frozen, frozen and all(each.key for each in inner)

    def random(self, rng):
        count = rng.choice([0, 1, 1, 2, 3])
        if self.kind == "map":
            keys = distinct(self.inner[0], [self.inner[0].random(rng) for _ in range(count)])
            return [(key, self.inner[1].random(rng)) for key in keys]
        items = [self.inner[0].random(rng) for _ in range(count)]
        return items if self.kind == "list" else distinct(self.inner[0], items)

    def literal(self, value):
        if self.kind == "map":
            return "{" + ", ".join(f"{self.inner[0].literal(key)}: {self.inner[1].literal(item)}" for key, item in value) + "}"
        items = ", ".join(self.inner[0].literal(item) for item in value)
        return f"[{items}]" if self.kind == "list" else f"{{{items}}}"

    def json(self, value):
        if self.kind == "map":
            return "{" + ", ".join(f"{as_key(self.inner[0].json(key))}: {self.inner[1].json(item)}" for key, item in value) + "}"
        return "[" + ", ".join(self.inner[0].json(item) for item in value) + "]"

    def encode(self, value):
        value = [sent_as(self.inner[0], item) for item in value] if self.kind == "list" else value
        parts = [part for pair in value for part in (self.inner[0].encode(pair[0]), self.inner[1].encode(pair[1]))] if self.kind == "map" \
            else [self.inner[0].encode(item) for item in value]
        return struct.pack(">i", len(value)) + b"".join(sized(part) for part in parts)


def sent_as(of, value):
    """An element of a list or tuple as it is sent. Cassandra keeps the order in which a client sends the elements of a set there, and Messina sorts them, so that
    equal values are equal keys: of sets and maps only one element is sent."""
    return value[:1] if value and isinstance(of, Collection) and of.kind != "list" else value


def distinct(of, values):
    seen = {of.literal(value): value for value in values}
    return list(seen.values())


def as_key(text):
    return text if text.startswith('"') else json.dumps(text)


def sized(part):
    return struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part


class Tuple(Type):
    def __init__(self, inner):
        super().__init__(f"tuple<{', '.join(each.name for each in inner)}>")
        self.inner, self.key = inner, all(each.key for each in inner)

    def random(self, rng):
        return [None if rng.random() < 0.15 else each.random(rng) for each in self.inner]

    def literal(self, value):
        return "(" + ", ".join("null" if item is None else each.literal(item) for each, item in zip(self.inner, value)) + ")"

    def json(self, value):
        return "[" + ", ".join("null" if item is None else each.json(item) for each, item in zip(self.inner, value)) + "]"

    def encode(self, value):
        sent = [sent_as(each, item) for each, item in zip(self.inner, value)]
        return b"".join(sized(None if item is None else each.encode(item)) for each, item in zip(self.inner, sent))


class Udt(Tuple):
    def __init__(self, name, fields, frozen):
        Type.__init__(self, f"frozen<{name}>" if frozen else name)
        self.fields, self.multi_cell = fields, not frozen  # ALTER TYPE changes the list
        self.key = frozen and all(each.key for each in self.inner)

    @property
    def inner(self):
        return [each for _, each in self.fields]

    def literal(self, value):
        return "{" + ", ".join(f"{name}: {'null' if item is None else each.literal(item)}" for (name, each), item in zip(self.fields, value)) + "}"

    def json(self, value):
        return "{" + ", ".join(f'"{name}": {"null" if item is None else each.json(item)}' for (name, each), item in zip(self.fields, value)) + "}"


class Vector(Type):
    def __init__(self, inner, size):
        super().__init__(f"vector<{inner.name}, {size}>")
        self.inner, self.size = inner, size

    def random(self, rng):
        return [self.inner.random(rng) for _ in range(self.size)]

    def literal(self, value):
        return "[" + ", ".join(self.inner.literal(item) for item in value) + "]"

    def json(self, value):
        return "[" + ", ".join(self.inner.json(item) for item in value) + "]"

    def encode(self, value):
        return b"".join(self.inner.encode(item) for item in value)


def long(value):
    return struct.pack(">q", value)


INT = Number("int", 4, [2 ** 31 - 1, -2 ** 31, 1000])
TEXT = Text("text")
SIMPLE = [
    INT, TEXT, Text("ascii"), Number("bigint", 8, [2 ** 63 - 1, -2 ** 63, 10 ** 12]), Number("smallint", 2, [32767, -32768]), Number("tinyint", 1, [127, -128]),
    Number("varint", 0, [2 ** 70, -2 ** 70, 128, -129]), Float("double", ">d"), Float("float", ">f"), Decimal("decimal"), Blob("blob"), Boolean("boolean"),
    texts("date", [("2020-02-29", struct.pack(">I", 2 ** 31 + 18321)), ("1969-12-31", struct.pack(">I", 2 ** 31 - 1)), ("1970-01-01", struct.pack(">I", 2 ** 31))]),
    texts("time", [("08:12:54.123456789", long(29574123456789)), ("00:00:00.000000000", long(0)), ("23:59:59.999999999", long(86399999999999))]),
    texts("timestamp", [("2020-02-29 10:11:12.345+0000", long(1582971072345)), ("1970-01-01 00:00:00.000+0000", long(0)), ("1969-12-31 23:59:59.999+0000", long(-1))]),
    plain("uuid", [(text, uuid.UUID(text).bytes) for text in ("50554d6e-29bb-41e5-b345-feff819cdc9f", "00000000-0000-4000-8000-000000000001")]),
    plain("timeuuid", [(text, uuid.UUID(text).bytes) for text in ("50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6f-29bb-11e5-b345-feff819cdc9f")]),
    texts("inet", [("127.0.0.1", bytes([127, 0, 0, 1])), ("10.0.0.2", bytes([10, 0, 0, 2]))]),
]
DURATION = plain("duration", [("1y2mo3d", bytes([28, 6, 0])), ("2d", bytes([0, 4, 0])), ("1us", bytes([0, 0]) + b"\x87\xd0")], key=False)


def random_type(rng, udts, for_key=False):
    """A column's type. `udts`: (name, fields) of the keyspace."""
    if rng.random() < (0.85 if for_key else 0.5):
        return rng.choice(SIMPLE if rng.random() < 0.6 else [INT, TEXT])
    frozen = for_key or rng.random() < 0.4
    kind = rng.choice(["list", "set", "map", "map", "list", "set", "tuple", "udt", "vector", "duration"])
    simple = lambda: rng.choice([INT, TEXT] if rng.random() < 0.6 else SIMPLE)  # noqa: E731
    if kind in ("list", "set", "map"):
        inner = [simple()] + ([simple()] if kind == "map" else [])
        if rng.random() < 0.15:
            inner[-1] = Collection(rng.choice(["list", "set"]), [simple()], True)
        return Collection(kind, inner, frozen)
    if kind == "udt" and udts:
        name, fields = rng.choice(udts)
        return Udt(name, fields, frozen)
    if kind == "vector":
        return Vector(INT if rng.random() < 0.3 else SIMPLE[8], rng.choice([1, 2, 3]))
    if kind == "duration" and not for_key:
        return DURATION
    parts = [simple() for _ in range(rng.choice([1, 2, 3]))]
    if rng.random() < 0.2:
        parts[0] = Collection(rng.choice(["list", "set"]), [simple()], True) if rng.random() < 0.6 or not udts else Udt(*rng.choice(udts), True)
    return Tuple(parts)
