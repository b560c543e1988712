"""Whether two answers say the same, and how they differ.

Compared are the kind of answer or error, its text, warnings, columns (keyspace, table, name, type), rows in order, and for prepared statements the markers. Some
parts of a text are different on every node (ids of tables, addresses, file names); `masked` replaces them. What remaining differences are explained is in
explained.toml: each entry has a reason, and matches by the statement and by both answers.
"""

import difflib
import re
import struct
import tomllib
import uuid
from pathlib import Path

EXPLAINED = Path(__file__).resolve().parent / "explained.toml"
MASKS = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"/?127\.0\.0\.\d+(:\d+)?"), "<address>"),
    (re.compile(r"@[0-9a-f]{6,8}\b"), "@<hash>"),
]


def masked(text):
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    # The order of signatures, of indexes and of the fields of a value is that of a hash table.
    text = re.sub(r"signatures: (.*?)\)(?=$|: use)", lambda found: "signatures: " + "; ".join(sorted(re.split(r", (?=system\.)", found[1]))) + ")", text)
    text = re.sub(r"dependent secondary indexes \((.*?)\)", lambda found: f"dependent secondary indexes ({', '.join(sorted(found[1].split(', ')))})", text)
    # Values inside of others come first; their braces are replaced, so that the next round sees the outer ones.
    before = None
    while text != before:
        before, text = text, re.sub(r"\{([a-z]\w*: [^{}]*)\}", lambda found: "‹" + ", ".join(sorted(found[1].split(", "))) + "›", text)
    return text


def named(columns):
    """Columns without what differs by design: Cassandra names `to_json` and `toJson` by the spelling that a statement used first since its start, and gives
    `min` and `max` of a timeuuid a type that drivers do not know."""
    return [(keyspace, table, name.replace("system.to_json(", "system.tojson("), kind.replace("'org.apache.cassandra.db.marshal.LegacyTimeUUIDType'", "timeuuid"))
            for keyspace, table, name, kind in columns]


def difference(cassandra, messina, times_vary=()):
    """How the answers differ, in a line, or None. `times_vary`: positions of columns that show the time of day or a remaining TTL: only null or not is compared."""
    if cassandra.kind != messina.kind:
        return "kind"
    if masked(cassandra.text) != masked(messina.text) and not (parser_error(cassandra) and parser_error(messina)):
        return "text"
    if any(named(ours or ()) != named(theirs or ()) for ours, theirs in ((cassandra.columns, messina.columns), (cassandra.result_columns, messina.result_columns))):
        return "columns"
    if cassandra.key_markers != messina.key_markers:
        return "key markers"
    if [masked(warning) for warning in cassandra.warnings] != [masked(warning) for warning in messina.warnings]:
        return "warnings"
    ours, theirs = ([shown_times(row, times_vary) for row in answer.rows] for answer in (cassandra, messina))
    if computed := [place for place, column in enumerate(cassandra.columns) if column[3] in ("double", "float") and not column[2].isidentifier()]:
        ours, theirs = ([without_sign_of_nan(row, computed) for row in rows] for rows in (ours, theirs))
    if [column[2] for column in cassandra.columns] == ["[json]"]:
        ours, theirs = ([tuple(value and value.replace(b"system.to_json(", b"system.tojson(") for value in row) for row in rows] for rows in (ours, theirs))
    if [column[2] for column in cassandra.columns][-1:] == ["create_statement"]:  # texts with ids of tables
        ours, theirs = ([tuple(masked(value.decode()) for value in row) for row in rows] for rows in (ours, theirs))
    if ours == theirs:
        return None
    return "order" if sorted(map(repr, ours)) == sorted(map(repr, theirs)) else "rows"


def parser_error(answer):
    """Whether the text is the parser's own: it begins with the place and lists the tokens that its grammar expects there, which no other parser has."""
    return answer.kind == "SyntaxError" and re.match(r"line \d+:-?\d+ ", answer.text) is not None


def without_sign_of_nan(row, computed):
    """The sign of a NaN that is computed from another NaN depends on the order in which a compiler, here Java's at run time, takes the operands."""
    return tuple(b"NaN" if place in computed and value and value[0] & 0x7F == 0x7F and is_nan(value) else value for place, value in enumerate(row))


def is_nan(value):
    number = struct.unpack(">d" if len(value) == 8 else ">f", value)[0]
    return number != number


def shown_times(row, times_vary):
    return tuple(value if place not in times_vary or value is None else b"some" for place, value in enumerate(row))


class Explained:
    """The list of explained differences."""

    def __init__(self, path=EXPLAINED):
        self.entries = tomllib.loads(path.read_text()).get("difference", []) if path.exists() else []
        self.used = {}
        for entry in self.entries:
            for name in ("statement", "cassandra", "messina"):
                entry[name] = re.compile(entry[name], re.S | re.I) if name in entry else None

    def reason(self, statement, kind, cassandra, messina):
        """The reason of this difference, or None if no entry covers it."""
        for entry in self.entries:
            if kind in entry.get("kinds", [kind]) and matches(entry["statement"], statement) and matches(entry["cassandra"], brief(cassandra)) \
                    and matches(entry["messina"], brief(messina)) and (not entry.get("extends") or messina.text.startswith(cassandra.text)) \
                    and (not entry.get("empty_keys") or without_empty_keys(cassandra.rows) == messina.rows):
                self.used[entry["name"]] = self.used.get(entry["name"], 0) + 1
                return entry["reason"]
        return None


def without_empty_keys(rows):
    """The rows whose first value has bytes."""
    return [row for row in rows if row[0] != b""]


def matches(pattern, text):
    return pattern is None or pattern.search(text) is not None


# --- for people -----------------------------------------------------------------------------------------------------------------------


def brief(answer):
    """An answer in a few lines."""
    warnings = "".join(f"\n      warning: {warning}" for warning in answer.warnings)
    if answer.kind == "rows":
        lines = [f"{len(answer.rows)} rows of ({', '.join(f'{name} {kind}' for _, _, name, kind in answer.columns)})"]
        lines += ["      " + ", ".join(shown(value, column[3]) for value, column in zip(row, answer.columns)) for row in answer.rows[:12]]
        return "\n".join(lines) + warnings
    if answer.kind == "prepared":
        return f"prepared: markers {[column[2:] for column in answer.columns]}, key {answer.key_markers}, columns {[column[2:] for column in answer.result_columns]}" + warnings
    return f"{answer.kind} {answer.text}".strip() + warnings


def both(answers):
    """Both answers; of two results with the same columns only the rows that are not in the other."""
    cassandra, messina = answers
    if cassandra.kind == messina.kind == "rows" and cassandra.columns == messina.columns and max(len(cassandra.rows), len(messina.rows)) > 2:
        lines = [["      " + ", ".join(shown(value, column[3]) for value, column in zip(row, answer.columns)) for row in answer.rows] for answer in answers]
        changed = [line[0] + " " + line[1:].strip() for line in difflib.unified_diff(*lines, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]
        columns = ", ".join(f"{name} {kind}" for _, _, name, kind in cassandra.columns)
        if not changed:  # the text hides it
            changed = [f"- {ours}\n      + {theirs}" for ours, theirs in zip(cassandra.rows, messina.rows) if ours != theirs]
        return f"    ({columns}), - Cassandra, + Messina\n" + "\n".join(f"      {line}" for line in changed[:12])
    return f"    Cassandra {brief(cassandra)}\n    Messina   {brief(messina)}"


NUMBERS = {"int": ">i", "bigint": ">q", "counter": ">q", "smallint": ">h", "tinyint": ">b", "double": ">d", "float": ">f", "timestamp": ">q", "time": ">q"}


def shown(value, kind):
    """A value of the wire for people: exact for simple types, hex for others."""
    if value is None:
        return "null"
    try:
        if kind in NUMBERS:
            return str(struct.unpack(NUMBERS[kind], value)[0])
        if kind in ("text", "ascii"):
            return repr(value.decode())
        if kind in ("uuid", "timeuuid"):
            return str(uuid.UUID(bytes=value))
        if kind == "boolean":
            return {b"\0": "false", b"\1": "true"}[value]
        if kind == "varint":
            return str(int.from_bytes(value, "big", signed=True))
        if kind == "date":
            return f"day {struct.unpack('>I', value)[0] - (1 << 31)}"
        if kind.startswith(("list<", "set<")) and kind.count("<") == 1:
            inner, at, items = kind[kind.index("<") + 1:-1], 4, []
            for _ in range(struct.unpack(">i", value[:4])[0]):
                length = struct.unpack(">i", value[at:at + 4])[0]
                items.append(shown(None if length < 0 else value[at + 4:at + 4 + length], inner))
                at += 4 + max(length, 0)
            return f"[{', '.join(items)}]"
    except (struct.error, ValueError, KeyError):
        pass
    return "0x" + value.hex()
