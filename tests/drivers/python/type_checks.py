"""Every CQL type there and back: by prepared statements and as literals, as a value, as null, as part of a key, inside collections."""

import datetime
import ipaddress
import math
import struct
import uuid
from decimal import Decimal

from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from harness import check, equal, holds

UTC = datetime.timezone.utc
TIME_UUID = uuid.UUID("a5ac0bd0-7f41-11ee-b962-0242ac120002")

#: type → values, the extremes among them
VALUES = {
    "ascii": ["", "a", "tilde~", "x" * 3000],
    "bigint": [0, 1, -1, 2**63 - 1, -(2**63)],
    "blob": [b"", b"\0", bytes(range(256)), b"\xff" * 5000],
    "boolean": [True, False],
    "date": [Date(0), Date(-1), Date(19675), Date(-2147483648 // 1000)],
    "decimal": [Decimal("0"), Decimal("-1.50"), Decimal("1E+3"), Decimal("12345678901234567890.123456789"), Decimal("1E-30")],
    "double": [0.0, -0.0, 1.5, -1e300, 5e-324, math.inf, -math.inf],
    "duration": [Duration(0, 0, 0), Duration(14, 3, 4 * 10**9), Duration(-1, -2, -3)],
    "float": [0.0, 1.5, -1.25e30, math.inf],
    "inet": ["127.0.0.1", "255.255.255.255", "::1", "2001:db8::ff00:42:8329"],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "smallint": [0, 1, -1, 32767, -32768],
    "text": ["", "a", "naïve", "日本語", "😀 \0 \n ' \"", "x" * 70000],
    "time": [Time(0), Time(1), Time(86399999999999)],
    "timestamp": [datetime.datetime(1970, 1, 1), datetime.datetime(2023, 11, 14, 22, 13, 20, 123000), datetime.datetime(1901, 2, 3, 4, 5, 6)],
    "timeuuid": [TIME_UUID],
    "tinyint": [0, 1, -1, 127, -128],
    "uuid": [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), TIME_UUID, uuid.UUID("f066f76d-5e96-4b52-8d8a-0f51387df76b")],
    "varchar": ["", "b"],
    "varint": [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**200), 2**200],
    "list<int>": [[1], [3, 1, 2, 1], list(range(1000))],
    "set<text>": [{"a"}, {"c", "a", "b"}],
    "map<text, int>": [{"a": 1}, {"b": 2, "a": -1}],
    "map<int, timestamp>": [{-1: datetime.datetime(2000, 1, 1), 1: datetime.datetime(2001, 1, 1)}],
    "frozen<list<text>>": [[], ["a", "", "b"]],
    "frozen<set<bigint>>": [set(), {-1, 1, 2**62}],
    "frozen<map<uuid, blob>>": [{}, {TIME_UUID: b"\1"}],
    "list<frozen<map<text, frozen<set<int>>>>>": [[{"a": {1, 2}}, {}, {"b": set(), "c": {-1}}]],
    "tuple<int, text, boolean>": [(1, "a", True), (None, "b", None), (-1, "", False)],
    "frozen<tuple<int, frozen<list<text>>>>": [(1, ["x", "y"])],
    "set<frozen<tuple<int, text>>>": [{(1, "a"), (1, "b"), (0, "z")}],
}

#: what a literal cannot say or the driver writes otherwise
NO_LITERAL = {"duration", "date", "time"}


def plain(value):
    """A value of the driver in the terms of VALUES."""
    if isinstance(value, (SortedSet, set, frozenset)):
        return ("set", sorted((plain(each) for each in value), key=repr))
    if isinstance(value, (OrderedMapSerializedKey, dict)):
        return ("map", sorted(((plain(key), plain(each)) for key, each in value.items()), key=repr))
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, float):
        return ("float", str(value))
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    return value


def expected(cql_type, value):
    if cql_type == "float" and not math.isinf(value):
        value = struct.unpack(">f", struct.pack(">f", value))[0]
    if cql_type == "inet":
        value = str(ipaddress.ip_address(value))
    return plain(value)


@check
def types_by_prepared_statement(context):
    columns = {cql_type: f"c{number}" for number, cql_type in enumerate(VALUES)}
    table = context.table("id int PRIMARY KEY, " + ", ".join(f"{name} {cql_type}" for cql_type, name in columns.items()))
    wrong = []
    for cql_type, name in columns.items():
        insert = context.session.prepare(f"INSERT INTO {table} (id, {name}) VALUES (?, ?)")
        select = context.session.prepare(f"SELECT {name} FROM {table} WHERE id = ?")
        for number, value in enumerate([*VALUES[cql_type], None]):
            context.session.execute(insert, (number, value))
            got = context.rows(select, number)
            want = None if value is None else expected(cql_type, value)
            if len(got) != 1 or plain(got[0][0]) != want:
                wrong.append(f"{cql_type}: expected {want!r:.100}, got {got!r:.100}")
    holds(not wrong, f"{len(wrong)} values differ: {wrong[:5]}")


@check
def types_as_literals(context):
    wrong = []
    for cql_type, values in VALUES.items():
        if cql_type in NO_LITERAL:
            continue
        table = context.table(f"id int PRIMARY KEY, v {cql_type}")
        for number, value in enumerate(values):
            if isinstance(value, str) and "\0" in value or "tuple" in cql_type or isinstance(value, float) and math.isinf(value):
                continue  # the driver does not write these as CQL
            if cql_type in ("inet", "decimal"):
                quote = "'" if cql_type == "inet" else ""
                context.session.execute(f"INSERT INTO {table} (id, v) VALUES ({number}, {quote}{value}{quote})")
            else:
                context.session.execute(f"INSERT INTO {table} (id, v) VALUES (%s, %s)", (number, value))
            got = context.rows(f"SELECT v FROM {table} WHERE id = {number}")
            if len(got) != 1 or plain(got[0][0]) != expected(cql_type, value):
                wrong.append(f"{cql_type}: expected {value!r:.100}, got {got!r:.100}")
    holds(not wrong, f"{len(wrong)} values differ: {wrong[:5]}")


@check
def literals_of_all_forms(context):
    table = context.table("id int PRIMARY KEY, du duration, d date, t time, ts timestamp, f double, tu tuple<int, text>, b blob, s text")
    context.run(f"INSERT INTO {table} (id, du, d, t, ts, f, tu, b, s) VALUES (1, 1y2mo3w4d5h6m7s8ms9us10ns, '2023-11-14', '08:12:54.123456789', "
                "'2023-11-14 22:13:20.123+0000', NaN, (1, 'x'), 0xCAFE, $$it's$$)")
    row = context.rows(f"SELECT du, d, t, ts, f, tu, b, s FROM {table} WHERE id = 1")[0]
    nanoseconds = ((5 * 60 + 6) * 60 + 7) * 10**9 + 8 * 10**6 + 9 * 10**3 + 10
    equal(row[0], Duration(14, 25, nanoseconds))
    equal(str(row[1]), "2023-11-14")
    equal(row[2], Time("08:12:54.123456789"))
    equal(row[3], datetime.datetime(2023, 11, 14, 22, 13, 20, 123000))
    holds(math.isnan(row[4]), "NaN")
    equal(row[5:], ((1, "x"), b"\xca\xfe", "it's"))
    context.run(f"INSERT INTO {table} (id, du, d, ts, f) VALUES (2, P1Y2M3DT4H5M6S, 2147483649, 1700000000000, -Infinity)")
    row = context.rows(f"SELECT du, d, ts, f FROM {table} WHERE id = 2")[0]
    equal(row, (Duration(14, 3, ((4 * 60 + 5) * 60 + 6) * 10**9), Date(1), datetime.datetime(2023, 11, 14, 22, 13, 20), -math.inf))


@check
def types_as_keys(context):
    wrong = []
    for cql_type, values in VALUES.items():
        if "<" in cql_type and not cql_type.startswith("frozen") or cql_type == "duration":
            continue
        table = context.table(f"k {cql_type}, c {cql_type}, v int, PRIMARY KEY (k, c)")
        insert = context.session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
        select = context.session.prepare(f"SELECT c, v FROM {table} WHERE k = ? AND c = ?")
        usable = [value for value in values if not (value in ("", b"") or isinstance(value, (str, bytes)) and len(value) > 60000)]
        for number, value in enumerate(usable):
            context.session.execute(insert, (usable[0], value, number))
        for number, value in enumerate(usable):
            got = context.rows(select, usable[0], value)
            if len(got) != 1 or plain(got[0][0]) != expected(cql_type, value) or got[0][1] != number:
                wrong.append(f"{cql_type}: expected {value!r:.100}, got {got!r:.100}")
        count = len(context.rows(f"SELECT c FROM {table}"))
        if count != len(usable):
            wrong.append(f"{cql_type}: {count} rows of {len(usable)}")
    holds(not wrong, f"{len(wrong)} values differ: {wrong[:5]}")


@check
def clustering_order_of_types(context):
    cases = {"int": [-2, -1, 0, 7], "varint": [-(2**70), -1, 0, 1, 2**70], "decimal": [Decimal("-1.5"), Decimal("0"), Decimal("1E-3"), Decimal("2")],
             "text": ["", "A", "a", "aa", "é"], "blob": [b"", b"\0", b"\x7f", b"\x80"], "boolean": [False, True], "double": [-1.0, 0.0, 2.5],
             "timestamp": [datetime.datetime(1960, 1, 1), datetime.datetime(1970, 1, 1), datetime.datetime(2020, 1, 1)],
             "date": [Date(-5), Date(0), Date(5)], "tinyint": [-128, 0, 127]}
    for cql_type, ordered in cases.items():
        for direction in ["ASC", "DESC"]:
            table = context.table(f"k int, c {cql_type}, PRIMARY KEY (k, c)", f"WITH CLUSTERING ORDER BY (c {direction})")
            insert = context.session.prepare(f"INSERT INTO {table} (k, c) VALUES (1, ?)")
            for value in sorted(ordered, key=repr):
                context.session.execute(insert, (value,))
            want = ordered if direction == "ASC" else ordered[::-1]
            equal([row[0] for row in context.rows(f"SELECT c FROM {table} WHERE k = 1")], want, f"{cql_type} {direction}")
            equal([row[0] for row in context.rows(f"SELECT c FROM {table} WHERE k = 1 ORDER BY c ASC")], ordered, f"{cql_type} {direction}, asked ASC")


@check
def user_defined_types(context):
    context.run("CREATE TYPE address (street text, zip int, phones frozen<set<text>>)", "CREATE TYPE person (name text, home frozen<address>)")
    table = context.table("id int PRIMARY KEY, p frozen<person>, a address, many list<frozen<address>>")
    insert = context.session.prepare(f"INSERT INTO {table} (id, p, a, many) VALUES (?, ?, ?, ?)")
    context.session.execute(insert, (1, ("Ann", ("Via 1", 98100, {"1", "2"})), ("Via 2", None, None), [("Via 3", 3, {"3"}), (None, 4, None)]))
    row = context.rows(f"SELECT p, a, many FROM {table} WHERE id = 1")[0]
    equal((row[0].name, row[0].home.street, row[0].home.zip, set(row[0].home.phones)), ("Ann", "Via 1", 98100, {"1", "2"}))
    equal((row[1].street, row[1].zip, row[1].phones), ("Via 2", None, None))
    equal([(each.street, each.zip) for each in row[2]], [("Via 3", 3), (None, 4)])
    context.run(f"UPDATE {table} SET a.zip = 7, a.street = null WHERE id = 1")
    equal(context.rows(f"SELECT a.zip, a.street, p.home.zip FROM {table} WHERE id = 1"), [(7, None, 98100)])
    context.run("ALTER TYPE address ADD country text")
    context.run(f"INSERT INTO {table} (id, p) VALUES (2, {{name: 'Bo', home: {{street: 'x', country: 'IT'}}}})")
    got = context.rows(f"SELECT p.name, p.home FROM {table} WHERE id = 2")[0]
    equal((got[0], got[1].country, got[1].zip), ("Bo", "IT", None))
    context.run("ALTER TYPE person RENAME name TO full_name")
    equal(context.rows(f"SELECT p.full_name FROM {table} WHERE id = 2"), [("Bo",)])


@check
def vectors(context):
    table = context.table("id int PRIMARY KEY, v vector<float, 3>")
    insert = context.session.prepare(f"INSERT INTO {table} (id, v) VALUES (?, ?)")
    context.session.execute(insert, (1, [1.0, -2.5, 3.25]))
    context.run(f"INSERT INTO {table} (id, v) VALUES (2, [4, 5.5, 6])")
    equal([list(row[0]) for row in context.rows(f"SELECT v FROM {table} WHERE id IN (1, 2)")], [[1.0, -2.5, 3.25], [4.0, 5.5, 6.0]])
