#!/usr/bin/env python3
"""Writes driver_values.txt: what the DataStax Python driver makes of values of every CQL type.

    pip install cassandra-driver==3.30.1
    python3 driver_values.py > driver_values.txt

Lines, tab-separated:
    value   CQL type   CQL literal   bytes in hexadecimal
    token   key in hexadecimal   Murmur3 token
    key     CQL literals of a composite partition key (joined by " | ")   its CQL types   routing key   token
"""

import datetime
import random
import struct
import uuid
from decimal import Decimal

from cassandra import cqltypes
from cassandra.metadata import Murmur3Token
from cassandra.query import BoundStatement
from cassandra.util import Duration, Date, Time, SortedSet, OrderedMap

V = 4  # native protocol version

T = {name: getattr(cqltypes, cls) for name, cls in {
    "ascii": "AsciiType", "bigint": "LongType", "blob": "BytesType", "boolean": "BooleanType",
    "counter": "CounterColumnType", "date": "SimpleDateType", "decimal": "DecimalType", "double": "DoubleType",
    "duration": "DurationType", "float": "FloatType", "inet": "InetAddressType", "int": "Int32Type",
    "smallint": "ShortType", "text": "UTF8Type", "time": "TimeType", "timestamp": "DateType",
    "timeuuid": "TimeUUIDType", "tinyint": "ByteType", "uuid": "UUIDType", "varchar": "UTF8Type",
    "varint": "IntegerType"}.items()}


def split_args(text):
    depth, start, out = 0, 0, []
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    return out + [text[start:].strip()]


def of(name):
    """The driver's type for a CQL type name."""
    if "<" not in name:
        return T[name]
    head, args = name[:-1].split("<", 1)
    args = split_args(args)
    if head == "frozen":
        return of(args[0])
    if head == "vector":
        return cqltypes.VectorType.apply_parameters([of(args[0]), int(args[1])], None)
    cls = {"list": "ListType", "set": "SetType", "map": "MapType", "tuple": "TupleType"}[head]
    return getattr(cqltypes, cls).apply_parameters([of(arg) for arg in args])


def value(cql_type, literal, py):
    print("value", cql_type, literal, of(cql_type).to_binary(py, V).hex(), sep="\t")


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def scalars():
    for text in ["", "a", "it's", "with space", "\"quoted\"", "~" * 40]:
        value("ascii", quoted(text), text)
    for text in ["", "a", "it''s", "naïve", "日本語", "𝄞 clef", "\u0001", "tab\u000b", "$$", "'"]:
        value("text", quoted(text), text)
        value("varchar", quoted(text), text)
    for n, name in [(8, "tinyint"), (16, "smallint"), (32, "int"), (64, "bigint"), (64, "counter")]:
        for v in [0, 1, -1, 42, 2 ** (n - 1) - 1, -2 ** (n - 1), 2 ** (n - 2), -2 ** (n - 2) - 1]:
            value(name, str(v), v)
    for v in [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 2 ** 63 - 1, -2 ** 63, 2 ** 63,
              -2 ** 63 - 1, 2 ** 64, 2 ** 127, -2 ** 127, 2 ** 128, 10 ** 40, -10 ** 40, 3 ** 500]:
        value("varint", str(v), v)
    for v in ["0", "0.0", "-0.5", "1", "1.0", "-1.00", "12345.6789", "-99999999999999999999.99999", "1E+10", "1.5E-10",
              "0.000001", "1E-7", "1E+2147483", "-1.23E-2147483", "128", "-129.0"]:
        value("decimal", v, Decimal(v))
    for v in [True, False]:
        value("boolean", str(v).lower(), v)
    for v in [b"", b"\x00", b"\xff\x00\x80", bytes(range(256))]:
        value("blob", "0x" + v.hex(), v)
    for literal, v in [("0.0", 0.0), ("-0.0", -0.0), ("1.0", 1.0), ("-1.5", -1.5), ("0.1", 0.1), ("1.0E10", 1e10),
                       ("1.0E-5", 1e-5), ("Infinity", float("inf")), ("-Infinity", float("-inf")),
                       ("NaN", float("nan"))]:
        value("double", literal, v)
        value("float", literal, v)
    for literal, v in [("1.7976931348623157E308", 1.7976931348623157e308), ("4.9E-324", 5e-324),
                       ("2.2250738585072014E-308", 2.2250738585072014e-308), ("3.141592653589793", 3.141592653589793)]:
        value("double", literal, v)
    for literal, v in [("3.4028235E38", 3.4028234663852886e38), ("1.4E-45", 1.401298464324817e-45)]:
        value("float", literal, v)
    for v in ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
              "550e8400-e29b-41d4-a716-446655440000", "123e4567-e89b-12d3-a456-426614174000"]:
        value("uuid", v, uuid.UUID(v))
    for v in ["123e4567-e89b-12d3-a456-426614174000", "00000000-0000-1000-8080-808080808080",
              "ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"]:
        value("timeuuid", v, uuid.UUID(v))
    for v in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::8a2e:370:7334", "fe80::1:0:0:1"]:
        value("inet", quoted(v), v)


def times():
    epoch = datetime.datetime(1970, 1, 1)
    for v in [0, 1, -1, 999, 1580477454234, -1580477454234, -62135596800000, 253402300799999, 951782400000, 4107542400000]:
        at = epoch + datetime.timedelta(milliseconds=v)
        text = "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (
            at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond // 1000)
        value("timestamp", quoted(text), v)
    for v in [2 ** 63 - 1, -2 ** 63, 253402300800000, -62135596800001]:
        value("timestamp", str(v), v)
    for v in ["1970-01-01", "2020-02-29", "0001-01-01", "9999-12-31", "1969-12-31", "1900-03-01", "2000-02-29"]:
        value("date", quoted(v), Date(v))
    for text, days in [("-5877641-06-23", -2 ** 31), ("+5881580-07-11", 2 ** 31 - 1), ("+10000-01-01", 2932897),
                       ("0000-12-31", -719163), ("-0001-12-31", -719529)]:
        value("date", quoted(text), Date(days))
    for v in ["00:00:00.000000000", "23:59:59.999999999", "13:30:54.234000000", "00:00:00.000000001"]:
        value("time", quoted(v), Time(v))
    for literal, v in [("1y2mo3d4h5m6s7ms8us9ns", Duration(14, 3, 14706007008009)), ("-1d", Duration(0, -1, 0)),
                       ("0s", Duration(0, 0, 0)), ("12h", Duration(0, 0, 43200000000000)),
                       ("178956970y7mo2147483647d", Duration(2 ** 31 - 1, 2 ** 31 - 1, 0)),
                       ("1mo", Duration(1, 0, 0)), ("-2562047h47m16s854ms775us807ns", Duration(0, 0, -(2 ** 63 - 1)))]:
        value("duration", literal, v)


def nested():
    value("list<int>", "[]", [])
    value("list<int>", "[3, 1, 2, 1]", [3, 1, 2, 1])
    value("frozen<list<text>>", "['a', 'it''s', '']", ["a", "it's", ""])
    value("set<int>", "{-1, 0, 7}", SortedSet([7, 0, -1]))
    value("set<text>", "{'a', 'b, c', '}'}", SortedSet(["b, c", "}", "a"]))
    value("map<text, int>", "{'a': 1, 'b': -2}", OrderedMap([("a", 1), ("b", -2)]))
    value("map<int, frozen<list<text>>>", "{1: ['x', 'y'], 2: []}", OrderedMap([(1, ["x", "y"]), (2, [])]))
    value("frozen<map<uuid, boolean>>", "{550e8400-e29b-41d4-a716-446655440000: true}",
          OrderedMap([(uuid.UUID("550e8400-e29b-41d4-a716-446655440000"), True)]))
    value("frozen<tuple<int, text, double>>", "(1, 'one', 1.0)", (1, "one", 1.0))
    value("frozen<tuple<int, text>>", "(null, 'x')", (None, "x"))
    value("frozen<tuple<int, frozen<list<int>>>>", "(1, [1, 2])", (1, [1, 2]))
    value("list<frozen<map<text, frozen<set<int>>>>>", "[{'a': {1, 2}}, {}]", [OrderedMap([("a", SortedSet([1, 2]))]), {}])
    value("vector<float, 3>", "[1.0, -2.5, 0.0]", [1.0, -2.5, 0.0])
    value("vector<bigint, 2>", "[1, -1]", [1, -1])
    value("vector<text, 2>", "['abc', '']", ["abc", ""])
    value("vector<text, 1>", quoted("x" * 200).join("[]"), ["x" * 200])
    value("map<timestamp, inet>", "{'2020-01-31T13:30:54.234Z': '::1'}", OrderedMap([(1580477454234, "::1")]))
    value("list<duration>", "[1h, -2d]", [Duration(0, 0, 3600000000000), Duration(0, -2, 0)])


def tokens():
    rng = random.Random(1)
    keys = [b"", b"\x00", b"\xff", b"123"]
    for length in list(range(1, 50)) + [63, 64, 65, 100, 255, 1000]:
        keys.append(bytes(rng.randrange(256) for _ in range(length)))
        keys.append(bytes(rng.randrange(128, 256) for _ in range(length)))
    for key in keys:
        if key:  # the driver gives 0 for no key; the server refuses one
            print("token", key.hex(), Murmur3Token.hash_fn(key), sep="\t")


def routing_keys():
    class Prepared:  # as much of a prepared statement as the routing key needs
        pass

    for types, literals, values in [
        (["int", "text"], ["7", "'x'"], [7, "x"]),
        (["text", "text", "uuid"], ["''", "'naïve'", "550e8400-e29b-41d4-a716-446655440000"],
         ["", "naïve", uuid.UUID("550e8400-e29b-41d4-a716-446655440000")]),
        (["bigint", "timestamp"], ["-1", "'1970-01-01T00:00:00.000Z'"], [-1, 0]),
        (["blob", "boolean", "tinyint"], ["0xffff", "true", "-128"], [b"\xff\xff", True, -128]),
    ]:
        statement = BoundStatement.__new__(BoundStatement)
        parts = [of(name).to_binary(v, V) for name, v in zip(types, values)]
        key = b"".join(statement._key_parts_packed(parts))
        print("key", " | ".join(literals), ", ".join(types), key.hex(), Murmur3Token.hash_fn(key), sep="\t")


if __name__ == "__main__":
    scalars()
    times()
    nested()
    tokens()
    routing_keys()
