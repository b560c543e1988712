"""The sample tables: their definitions and the statements that fill them, for make_samples.py.

Small cases are committed with what Cassandra made of them; big ones are made in a test run.
"""

import uuid

#: The clock of MakeSamples.java, and the first write timestamp.
NOW_S = 1_700_000_000
BASE_US = NOW_S * 1_000_000


class Case:
    """A sample: its definitions and its statements. `{ks}` stands for the keyspace, which is named as the case."""

    def __init__(self, name, index_size=None):
        """`index_size`: the size of an index block (`column_index_size`), if not that of the target."""
        self.name = name
        self.index_size = index_size
        self.schema = [f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"]
        self.statements = []

    def type(self, name, fields):
        self.schema.append(f"CREATE TYPE {self.name}.{name} ({fields})")

    def table(self, name, columns, options=""):
        # The id is derived from the name, so that the directory is called the same in every run.
        table_id = uuid.uuid5(uuid.NAMESPACE_URL, f"messina:{self.name}.{name}")
        self.schema.append(f"CREATE TABLE {self.name}.{name} ({columns})\n  WITH ID = {table_id}{options and ' AND '}{options}")

    def run(self, *statements):
        self.statements += [statement.replace("{ks}", self.name) for statement in statements]


def all_types():
    case = Case("all_types")
    types = ["ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int", "smallint", "text",
             "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint"]
    case.table("t", "k int PRIMARY KEY, " + ", ".join(f"c_{name} {name}" for name in types))
    rows = [
        ["'plain'", "1", "0x00ff", "true", "'2023-11-14'", "1.50", "0.1", "1y2mo3d4h5m6s7ms8us9ns", "0.1", "'127.0.0.1'", "1", "1",
         "'häagen \"dazs\" \\ 🦀'", "'08:12:54.123456789'", "'2023-11-14T22:13:20.123Z'", "50554d6e-29bb-11e5-b345-feff819cdc9f", "1",
         "123e4567-e89b-12d3-a456-426614174000", "'varchar'", "1"],
        ["''", "-9223372036854775808", "0x", "false", "'-5877641-06-23'", "-12345678901234567890.0000000001", "-1.7976931348623157E308",
         "-1mo", "-3.4028235E38", "'::1'", "-2147483648", "-32768", "''", "'00:00:00'", "'1969-12-31T23:59:59.999Z'",
         "13814000-1dd2-11b2-8080-808080808080", "-128", "00000000-0000-0000-0000-000000000000", "''",
         "-170141183460469231731687303715884105728"],
        ["'~'", "9223372036854775807", "0x" + "ab" * 40, "true", "'1970-01-01'", "0E-10", "NaN", "0s", "Infinity",
         "'2001:db8::ff00:42:8329'", "2147483647", "32767", "'line\nbreak\ttab'", "'23:59:59.999999999'", "'9999-12-31T23:59:59Z'",
         "ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f", "127", "ffffffff-ffff-4fff-bfff-ffffffffffff", "'x'",
         "170141183460469231731687303715884105727"],
        ["null"] * len(types),
    ]
    names = ", ".join(f"c_{name}" for name in types)
    for key, row in enumerate(rows):
        case.run(f"INSERT INTO {{ks}}.t (k, {names}) VALUES ({key}, {', '.join(row)}) USING TIMESTAMP {BASE_US + key}")
    # A table for every type in the clustering key, in both orders.
    for name, values in [("bigint", ["-1", "0", "9223372036854775807"]), ("text", ["''", "'a'", "'b'"]),
                         ("decimal", ["-1.10", "0", "1E+3"]), ("varint", ["-128", "127", "128"]), ("double", ["-0.5", "0.0", "1E300"]),
                         ("boolean", ["false", "true"]), ("date", ["'1969-12-31'", "'2023-11-14'"]),
                         ("timestamp", ["'1969-12-31T23:59:59.999Z'", "'2023-11-14T22:13:20Z'"]),
                         ("timeuuid", ["50554d6e-29bb-11e5-b345-feff819cdc9f", "13814000-1dd2-11b2-8080-808080808080"]),
                         ("inet", ["'10.0.0.1'", "'::1'"]), ("blob", ["0x", "0x00", "0xff"]), ("tinyint", ["-1", "1"])]:
        case.table(f"by_{name}", f"k int, c {name}, d {name}, v int, PRIMARY KEY (k, c, d)", "CLUSTERING ORDER BY (c ASC, d DESC)")
        for i, c in enumerate(values):
            for j, d in enumerate(values):
                case.run(f"INSERT INTO {{ks}}.by_{name} (k, c, d, v) VALUES (1, {c}, {d}, {i * 10 + j}) USING TIMESTAMP {BASE_US}")
    return case


def collections():
    case = Case("collections")
    case.type("address", "street text, number int, tags frozen<set<text>>")
    case.table("t", "k int, c int, s static set<int>, l list<text>, st set<text>, m map<text, int>, fl frozen<list<int>>, "
               "fm frozen<map<int, text>>, nested map<int, frozen<list<frozen<set<text>>>>>, tup tuple<int, text, boolean>, "
               "a address, fa frozen<address>, la list<frozen<address>>, PRIMARY KEY (k, c)".replace("s static set<int>", "s set<int> static"))
    us = BASE_US
    case.run(
        # Lists made by INSERT take random time uuids for their cells' paths; the values are what a reader compares.
        f"INSERT INTO {{ks}}.t (k, c, s, l, st, m, fl, fm, nested, tup, a, fa, la) VALUES (1, 1, {{3, 1, 2}}, ['b', 'a'], {{'y', 'x'}}, "
        "{'one': 1, 'two': 2}, [3, 1], {2: 'two', 1: 'one'}, {1: [{'q', 'p'}, {}]}, (7, 'seven', null), "
        "{street: 'Via Roma', number: 1, tags: {'z', 'a'}}, {street: 'Via Roma', number: null, tags: {}}, "
        f"[{{street: 's', number: 2, tags: null}}]) USING TIMESTAMP {us + 10}",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 20} SET st = st + {{'later'}}, m['three'] = 3, m['one'] = null, a.number = 2 WHERE k = 1 AND c = 2",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 21} AND TTL 3600 SET st = st + {{'mortal'}}, a.street = 'gone' WHERE k = 1 AND c = 2",
        f"DELETE st, m, a, l FROM {{ks}}.t USING TIMESTAMP {us + 30} WHERE k = 1 AND c = 3",
        f"DELETE m['x'], fl, a.street FROM {{ks}}.t USING TIMESTAMP {us + 31} WHERE k = 1 AND c = 4",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 40} SET st = {{}}, fl = [], fm = {{}}, tup = (1, '', true) WHERE k = 1 AND c = 5",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 41} SET s = s - {{2}} WHERE k = 2")
    return case


def statics():
    case = Case("statics")
    case.table("t", "k text, c int, s1 text static, s2 int static, v text, PRIMARY KEY (k, c)")
    us = BASE_US
    case.run(
        f"INSERT INTO {{ks}}.t (k, s1, s2) VALUES ('only static', 'here', 1) USING TIMESTAMP {us + 1}",
        f"INSERT INTO {{ks}}.t (k, c, s1, v) VALUES ('both', 1, 'shared', 'row') USING TIMESTAMP {us + 2}",
        f"INSERT INTO {{ks}}.t (k, s2) VALUES ('both', 5) USING TIMESTAMP {us + 3} AND TTL 86400",
        f"INSERT INTO {{ks}}.t (k, c, v) VALUES ('no static', 1, 'row') USING TIMESTAMP {us + 4}",
        f"DELETE s1 FROM {{ks}}.t USING TIMESTAMP {us + 5} WHERE k = 'deleted static'",
        f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 6} WHERE k = 'gone and back'",
        f"INSERT INTO {{ks}}.t (k, c, s1, v) VALUES ('gone and back', 1, 'new', 'new') USING TIMESTAMP {us + 7}")
    return case


def counters():
    case = Case("counters")
    case.table("t", "k text, c int, hits counter, misses counter, total counter static, PRIMARY KEY (k, c)")
    for i in range(6):
        case.run(f"UPDATE {{ks}}.t USING TIMESTAMP {BASE_US + i} SET hits = hits + {i * 1000 + 1}, total = total + 1 WHERE k = 'k{i % 2}' AND c = {i // 2}")
    case.run(f"UPDATE {{ks}}.t USING TIMESTAMP {BASE_US + 10} SET misses = misses - 5 WHERE k = 'k0' AND c = 0",
             f"DELETE hits FROM {{ks}}.t USING TIMESTAMP {BASE_US + 20} WHERE k = 'k0' AND c = 1",
             f"DELETE FROM {{ks}}.t USING TIMESTAMP {BASE_US + 21} WHERE k = 'k1' AND c = 1")
    return case


def expiring():
    case = Case("expiring")
    case.table("t", "k int, c int, v text, w text, PRIMARY KEY (k, c)")
    case.table("by_default", "k int PRIMARY KEY, v text", "default_time_to_live = 600 AND gc_grace_seconds = 0")
    us = BASE_US
    case.run(
        f"INSERT INTO {{ks}}.t (k, c, v, w) VALUES (1, 1, 'dead', 'dead') USING TIMESTAMP {us + 1} AND TTL 1",
        f"INSERT INTO {{ks}}.t (k, c, v, w) VALUES (1, 2, 'long', 'long') USING TIMESTAMP {us + 2} AND TTL 300000000",
        f"INSERT INTO {{ks}}.t (k, c, v) VALUES (1, 3, 'forever') USING TIMESTAMP {us + 3}",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 3} AND TTL 60 SET w = 'cell only' WHERE k = 1 AND c = 3",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 4} AND TTL 120 SET v = 'no liveness' WHERE k = 1 AND c = 4",
        f"INSERT INTO {{ks}}.t (k, c, v) VALUES (1, 5, 'x') USING TIMESTAMP {us + 5} AND TTL 100",
        f"UPDATE {{ks}}.t USING TIMESTAMP {us + 6} AND TTL 100 SET w = 'same ttl, other time' WHERE k = 1 AND c = 5",
        f"INSERT INTO {{ks}}.by_default (k, v) VALUES (1, 'a') USING TIMESTAMP {us + 7}",
        f"INSERT INTO {{ks}}.by_default (k, v) VALUES (2, 'b') USING TIMESTAMP {us + 8} AND TTL 0")
    return case


def deletions():
    case = Case("deletions")
    case.table("t", "k int, a int, b text, v text, w int, PRIMARY KEY (k, a, b)", "CLUSTERING ORDER BY (a ASC, b ASC)")
    case.table("reversed", "k int, a int, b text, v text, PRIMARY KEY (k, a, b)", "CLUSTERING ORDER BY (a DESC, b ASC)")
    us = BASE_US
    bounds = ["a > 2 AND a < 4", "a >= 2 AND a <= 4", "a > 2", "a >= 2", "a < 2", "a <= 2", "a = 2", "a = 2 AND b > 'b'", "a = 2 AND b >= 'b'",
              "a = 2 AND b < 'b'", "a = 2 AND b <= 'b'", "a = 2 AND b > 'a' AND b < 'c'"]
    for table in ["t", "reversed"]:
        for key, bound in enumerate(bounds):
            case.run(f"INSERT INTO {{ks}}.{table} (k, a, b, v) VALUES ({key}, 3, 'b', 'newer') USING TIMESTAMP {us + 200}",
                     f"INSERT INTO {{ks}}.{table} (k, a, b, v) VALUES ({key}, 2, 'b', 'newer') USING TIMESTAMP {us + 200}",
                     f"DELETE FROM {{ks}}.{table} USING TIMESTAMP {us + 100 + key} WHERE k = {key} AND {bound}")
        # Ranges that touch and overlap give boundaries; the newer deletion wins where they overlap.
        for offset, bound in enumerate(["a >= 0 AND a < 10", "a >= 10 AND a < 20", "a > 5 AND a <= 15", "a = 7", "a = 8 AND b >= 'm'", "a > 20"]):
            case.run(f"DELETE FROM {{ks}}.{table} USING TIMESTAMP {us + 300 + offset} WHERE k = 100 AND {bound}")
        for a in range(0, 22, 3):
            case.run(f"INSERT INTO {{ks}}.{table} (k, a, b, v) VALUES (100, {a}, 'n', 'above') USING TIMESTAMP {us + 400 + a}")
        # A range tombstone under a partition deletion that is older.
        case.run(f"DELETE FROM {{ks}}.{table} USING TIMESTAMP {us + 500} WHERE k = 101",
                 f"DELETE FROM {{ks}}.{table} USING TIMESTAMP {us + 501} WHERE k = 101 AND a > 1 AND a < 3",
                 f"INSERT INTO {{ks}}.{table} (k, a, b, v) VALUES (101, 2, 'x', 'newest') USING TIMESTAMP {us + 502}",
                 f"DELETE FROM {{ks}}.{table} USING TIMESTAMP {us + 503} WHERE k = 102")
    case.run(f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 600} WHERE k = 103 AND a = 1 AND b = 'row'",
             f"DELETE v FROM {{ks}}.t USING TIMESTAMP {us + 601} WHERE k = 103 AND a = 1 AND b = 'cell'",
             f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 602} WHERE k = 103 AND a = 1 AND b = 'row and newer cell'",
             f"UPDATE {{ks}}.t USING TIMESTAMP {us + 603} SET v = 'newer' WHERE k = 103 AND a = 1 AND b = 'row and newer cell'",
             f"INSERT INTO {{ks}}.t (k, a, b, v, w) VALUES (103, 2, 'null', null, null) USING TIMESTAMP {us + 604}",
             f"INSERT INTO {{ks}}.t (k, a, b) VALUES (103, 3, 'key only') USING TIMESTAMP {us + 605}")
    return case


def wide(name, compression, pad):
    """Partitions over several index blocks, with range tombstones open across block ends."""
    case = Case(name)
    case.table("t", "k text, c int, s text static, v text, PRIMARY KEY (k, c)", f"compression = {compression}")
    us = BASE_US
    for key, rows in [("wide", 400), ("medium", 60), ("narrow", 2)]:
        case.run(f"INSERT INTO {{ks}}.t (k, s) VALUES ('{key}', 'static of {key}') USING TIMESTAMP {us}")
        for c in range(rows):
            case.run(f"INSERT INTO {{ks}}.t (k, c, v) VALUES ('{key}', {c * 2}, '{key} {c} {chr(97 + c % 26) * pad}') USING TIMESTAMP {us + c * 1000}")
        case.run(f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 50_000} WHERE k = '{key}' AND c > {rows // 3} AND c < {rows}",
                 f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 60_000} WHERE k = '{key}' AND c >= {rows} AND c <= {rows + rows // 2}")
    return case


def compressors():
    case = Case("compressors")
    for name, options in [("lz4", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}"), ("snappy", "{'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}"),
                          ("deflate", "{'class': 'DeflateCompressor', 'chunk_length_in_kb': 4}"), ("zstd", "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 4}"),
                          ("zstd_high", "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 64, 'compression_level': 19}"),
                          ("lz4_high", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 1, 'lz4_compressor_type': 'high', 'lz4_high_compressor_level': 17}"),
                          ("noop", "{'class': 'NoopCompressor', 'chunk_length_in_kb': 4}"),
                          ("zstd_min_ratio", "{'class': 'ZstdCompressor', 'chunk_length_in_kb': 4, 'min_compress_ratio': 2}"),
                          ("lz4_min_ratio", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4, 'min_compress_ratio': 4}"),
                          ("uncompressed", "{'enabled': false}")]:
        case.table(name, "k int PRIMARY KEY, v blob", f"compression = {options}")
        for key in range(12):
            # Every third value does not compress.
            value = "ab" * 700 if key % 3 else "".join(f"{(i * i * 7919 + key * 104729 + i // 3) % 65536:04x}" for i in range(350))
            case.run(f"INSERT INTO {{ks}}.{name} (k, v) VALUES ({key}, 0x{value}) USING TIMESTAMP {BASE_US + key}")
    return case


def keys():
    case = Case("keys")
    case.table("composite", "a int, b text, c uuid, v int, PRIMARY KEY ((a, b, c))")
    case.table("many", "k text PRIMARY KEY, v int", "min_index_interval = 8 AND max_index_interval = 16")
    case.table("no_columns", "k int, c int, PRIMARY KEY (k, c)")
    case.table("quoted", '"Key" int PRIMARY KEY, "MixedCase" int, "with space" text')
    # The dump prints a key as text, in other words than a value of the same type.
    case.type("pair", "a int, b text")
    for name, kind, values in [("blob", "blob", ["0x00ff"]), ("timestamp", "timestamp", ["'2023-11-14T22:13:20.123Z'"]), ("double", "double", ["NaN", "1E300", "0.1"]),
                               ("inet", "inet", ["'::1'"]), ("date", "date", ["'2023-11-14'"]), ("time", "time", ["'08:12:54.5'"]),
                               ("decimal", "decimal", ["1E+3", "-0.10"]), ("boolean", "boolean", ["true"]),
                               ("list", "frozen<list<int>>", ["[1, 2]"]), ("udt", "frozen<pair>", ["{a: 1, b: 'x:y@z'}", "{a: null, b: ''}"]),
                               ("tuple", "frozen<tuple<int, text>>", ["(1, 'x')"])]:
        case.table(f"of_{name}", f"k {kind}, c {kind}, m map<{kind}, int>, PRIMARY KEY (k, c)")
        for value in values:
            case.run(f"INSERT INTO {{ks}}.of_{name} (k, c, m) VALUES ({value}, {value}, {{{value}: 1}}) USING TIMESTAMP {BASE_US}")
    us = BASE_US
    case.run(f"INSERT INTO {{ks}}.composite (a, b, c, v) VALUES (1, 'x:y', 123e4567-e89b-12d3-a456-426614174000, 1) USING TIMESTAMP {us}",
             f"INSERT INTO {{ks}}.composite (a, b, c, v) VALUES (-1, '', 00000000-0000-0000-0000-000000000000, 2) USING TIMESTAMP {us + 1}",
             f"INSERT INTO {{ks}}.no_columns (k, c) VALUES (1, 1) USING TIMESTAMP {us}",
             f'INSERT INTO {{ks}}.quoted ("Key", "MixedCase", "with space") VALUES (1, 2, \'three\') USING TIMESTAMP {us}')
    for key in range(200):
        case.run(f"INSERT INTO {{ks}}.many (k, v) VALUES ('key {key}', {key}) USING TIMESTAMP {us + key}")
    # A second SSTable of the same table.
    case.run("FLUSH", f"INSERT INTO {{ks}}.many (k, v) VALUES ('key 7', 700) USING TIMESTAMP {us + 1000}",
             f"DELETE FROM {{ks}}.many USING TIMESTAMP {us + 1001} WHERE k = 'key 8'")
    return case


def wide_lz4():
    return wide("wide_lz4", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}", 60)


def wide_uncompressed():
    return wide("wide_uncompressed", "{'enabled': false}", 60)


def empty_values():
    """Values of no bytes, which are not nulls, of types that need some."""
    case = Case("empty_values")
    kinds = ["int", "bigint", "uuid", "timestamp", "double", "varint", "boolean", "inet", "decimal"]
    case.table("t", "k int, c int, " + ", ".join(f"c_{kind} {kind}" for kind in kinds) + ", m map<int, int>, PRIMARY KEY (k, c)")
    case.table("reversed", "k int, c int, d text, v int, PRIMARY KEY (k, c, d)", "CLUSTERING ORDER BY (c DESC, d ASC)")
    us = BASE_US
    for i, kind in enumerate(kinds):
        if kind != "boolean":  # which sstabledump cannot print
            case.run(f"UPDATE {{ks}}.t USING TIMESTAMP {us + i} SET c_{kind} = blobAs{kind.capitalize() if kind != 'bigint' else 'Bigint'}(0x) WHERE k = 1 AND c = {i}")
    case.run(f"UPDATE {{ks}}.t USING TIMESTAMP {us + 20} AND TTL 300000000 SET c_int = blobAsInt(0x) WHERE k = 2 AND c = blobAsInt(0x)")
    for c in ["blobAsInt(0x)", "1", "-1"]:
        for d in ["''", "'d'"]:
            case.run(f"INSERT INTO {{ks}}.reversed (k, c, d, v) VALUES (1, {c}, {d}, 1) USING TIMESTAMP {us}")
    return case


def wide_schema():
    """More columns than a bitmap has bits: rows with none, few, half, most and all of them."""
    case = Case("wide_schema")
    columns = [f"c{number:02}" for number in range(70)]
    statics = [f"s{number:02}" for number in range(66)]
    case.table("t", "k int, c int, " + ", ".join(f"{name} int" for name in columns) + ", " + ", ".join(f"{name} int static" for name in statics)
               + ", m map<int, int>, PRIMARY KEY (k, c)")
    for c, chosen in enumerate([columns, columns[:1], columns[69:], columns[::2], columns[1:], columns[:35], columns[:36], []]):
        names = ", ".join(["k", "c", *chosen])
        case.run(f"INSERT INTO {{ks}}.t ({names}) VALUES (1, {c}{''.join(f', {number}' for number, _ in enumerate(chosen))}) USING TIMESTAMP {BASE_US + c}")
    case.run(f"UPDATE {{ks}}.t USING TIMESTAMP {BASE_US + 20} SET m[1] = 2, c69 = 7 WHERE k = 1 AND c = 20",
             f"INSERT INTO {{ks}}.t (k, {', '.join(statics)}) VALUES (1{', 5' * 66}) USING TIMESTAMP {BASE_US + 21}",
             f"UPDATE {{ks}}.t USING TIMESTAMP {BASE_US + 22} SET s65 = 1 WHERE k = 2")
    return case


COMPRESSORS = ["LZ4", "Snappy", "Deflate", "Zstd"]


def chunks():
    """Each compressor with each chunk length; the last chunk is a short one."""
    case = Case("chunks")
    for name in COMPRESSORS:
        for kib in [1, 16, 64]:
            table = f"{name.lower()}_{kib}"
            case.table(table, "k int PRIMARY KEY, v text", f"compression = {{'class': '{name}Compressor', 'chunk_length_in_kb': {kib}}}")
            for key in range(14):
                case.run(f"INSERT INTO {{ks}}.{table} (k, v) VALUES ({key}, '{chr(97 + key) * 150} {key * 7919 % 1000}') USING TIMESTAMP {BASE_US + key}")
    return case


def far_expiry():
    """Times beyond 2038, which fit into 32 bits only without a sign: Cassandra 5."""
    case = Case("far_expiry")
    case.table("t", "k int, c int, v text, m map<int, int>, PRIMARY KEY (k, c)")
    us = BASE_US
    case.run(f"INSERT INTO {{ks}}.t (k, c, v, m) VALUES (1, 1, 'in 2043', {{1: 1}}) USING TIMESTAMP {us} AND TTL 630720000",
             f"UPDATE {{ks}}.t USING TIMESTAMP {us + 1} AND TTL 600000000 SET v = 'cell' WHERE k = 1 AND c = 2",
             f"UPDATE {{ks}}.t USING TIMESTAMP {us + 1} SET m[3] = 3 WHERE k = 1 AND c = 3",
             f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 2} WHERE k = 1 AND c > 5 AND c < 7",
             f"DELETE FROM {{ks}}.t USING TIMESTAMP {us + 3} WHERE k = 2")
    return case


def vectors():
    """Cassandra 5."""
    case = Case("vectors")
    case.table("t", "k int PRIMARY KEY, f vector<float, 3>, i vector<int, 2>, t vector<text, 2>, n vector<vector<int, 2>, 2>, l list<frozen<vector<float, 2>>>, "
               "s vector<smallint, 3>")
    case.table("by_fixed", "k int, c vector<int, 2>, v int, PRIMARY KEY (k, c)")
    case.table("by_text", "k int, c vector<text, 2>, v int, PRIMARY KEY (k, c)", "CLUSTERING ORDER BY (c DESC)")
    us = BASE_US
    case.run(f"INSERT INTO {{ks}}.t (k, f, i, t, n, l, s) VALUES (1, [1.5, -2, 0], [1, -1], ['', 'x'], [[1, 2], [3, 4]], [[1, 2], [3, 4]], [1, 2, 3]) USING TIMESTAMP {us}",
             f"INSERT INTO {{ks}}.t (k, f) VALUES (2, null) USING TIMESTAMP {us + 1}")
    for number, (fixed, text) in enumerate([("[1, 2]", "['a', 'b']"), ("[-1, 2]", "['', '']"), ("[1, -2]", "['a', '']"), ("[0, 0]", "['ab', 'b']")]):
        case.run(f"INSERT INTO {{ks}}.by_fixed (k, c, v) VALUES (1, {fixed}, {number}) USING TIMESTAMP {us + number}",
                 f"INSERT INTO {{ks}}.by_text (k, c, v) VALUES (1, {text}, {number}) USING TIMESTAMP {us + number}")
    return case


#: Values of every type that a clustering column may have, in no order.
CLUSTERING = {
    "ascii": ["''", "'a'", "'ab'", "'b'", "'~'"],
    "bigint": ["-9223372036854775808", "-1", "0", "1", "9223372036854775807"],
    "blob": ["0x", "0x00", "0x0000", "0x0001", "0x01", "0xff", "0xff00"],
    "boolean": ["false", "true"],
    "date": ["'1969-12-31'", "'1970-01-01'", "'2023-11-14'"],
    "decimal": ["0", "1", "-1", "1.1", "-1.1", "98.9", "-98.9", "99.9", "1E+300", "-1E-300", "0.001", "100", "123456789.123456789"],
    "double": ["-1E300", "-0.5", "-0.0", "0.0", "0.5", "1E300", "Infinity"],
    "float": ["-1E30", "-0.5", "0.0", "0.5", "1E30"],
    "inet": ["'10.0.0.1'", "'127.0.0.1'", "'::1'", "'2001:db8::1'"],
    "int": ["-2147483648", "-1", "0", "1", "2147483647", "blobAsInt(0x)"],
    "smallint": ["-32768", "-1", "0", "32767"],
    "text": ["''", "'a'", "'a b'", "'ab'", "'\u00e4'", "'z'"],
    "time": ["'00:00:00'", "'08:12:54.5'", "'23:59:59.999999999'"],
    "timestamp": ["'1969-12-31T23:59:59.999Z'", "'1970-01-01T00:00:00Z'", "'2023-11-14T22:13:20Z'"],
    "timeuuid": ["50554d6e-29bb-11e5-b345-feff819cdc9f", "13814000-1dd2-11b2-8080-808080808080", "50554d6e-29bb-11e5-b345-7eff819cdc9f"],
    "tinyint": ["-128", "-1", "0", "127"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff",
             "50554d6e-29bb-11e5-b345-feff819cdc9f"],
    "varint": ["0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "65536", "-4294967296", str(2 ** 1024), str(-2 ** 1032), "blobAsVarint(0x)"],
    "frozen<list<int>>": ["[]", "[1]", "[1, 2]", "[-1]", "[2]"],
    "frozen<set<text>>": ["{}", "{''}", "{'a'}", "{'a', 'b'}"],
    "frozen<map<text, int>>": ["{'a': 1}", "{'a': 1, 'b': 2}", "{'a': 2}"],
    "frozen<tuple<int, text>>": ["(1, 'a')", "(1, null)", "(1, '')", "(-1, 'b')", "(null, 'x')"],
}


def row_index():
    """An index block for every row, in both orders and for every type: what a trie of rows can get wrong."""
    case = Case("row_index", index_size="0KiB")
    us = BASE_US
    for number, (kind, values) in enumerate(CLUSTERING.items()):
        name = f"by_{kind.replace('frozen<', '').split('<')[0].strip('>')}"
        case.table(name, f"k int, c {kind}, d {kind}, v int, PRIMARY KEY (k, c, d)", "CLUSTERING ORDER BY (c ASC, d DESC)")
        for i, c in enumerate(values):
            for j, d in enumerate(values):
                # A part of the square: every value in both columns, and neighbours in each.
                if (i + j) % 3 == 0 or i == j:
                    case.run(f"INSERT INTO {{ks}}.{name} (k, c, d, v) VALUES (1, {c}, {d}, {i * 100 + j}) USING TIMESTAMP {us}")
        if kind not in ["decimal", "varint"]:
            case.run(f"DELETE FROM {{ks}}.{name} USING TIMESTAMP {us + 1} WHERE k = 1 AND c > {values[0]} AND c <= {values[-1]}")
    return case


def long_keys():
    """Keys that share long beginnings, and keys one of which begins another."""
    case = Case("long_keys", index_size="0KiB")
    case.table("t", "k blob, c text, v int, PRIMARY KEY (k, c)")
    for number, key in enumerate(["", "00", "0000", "ff", "ffff", "ab" * 40, "ab" * 40 + "00", "ab" * 41]):
        for c in range(number % 4):
            case.run(f"INSERT INTO {{ks}}.t (k, c, v) VALUES (0x{key}01, '{'common beginning ' * 6}{c * 7}', {c}) USING TIMESTAMP {BASE_US + c}")
        case.run(f"INSERT INTO {{ks}}.t (k, c, v) VALUES (0x{key or '02'}, '', 1) USING TIMESTAMP {BASE_US}")
    return case


def big_partition(rows):
    """One partition of `rows` rows, with range tombstones that go on over many blocks; a table with a text key and one in reverse."""
    case = Case("big_partition", index_size="4KiB")
    case.table("by_number", "k int, c int, v text, PRIMARY KEY (k, c)", "CLUSTERING ORDER BY (c DESC) AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}")
    case.table("by_text", "k int, a text, b int, s int static, v text, PRIMARY KEY (k, a, b)", "compression = {'enabled': false}")
    us = BASE_US
    for c in range(rows):
        case.run(f"INSERT INTO {{ks}}.by_number (k, c, v) VALUES (1, {c}, 'row {c}') USING TIMESTAMP {us + c}")
        a = f"{c * 7919 % 1000:03}{'x' * (c % 7)}"
        case.run(f"INSERT INTO {{ks}}.by_text (k, a, b, v) VALUES ({c % 2}, '{a}', {c}, 'row {c}') USING TIMESTAMP {us + c}")
    case.run(f"UPDATE {{ks}}.by_text USING TIMESTAMP {us} SET s = 1 WHERE k = 0")
    for number in range(60):
        low = number * rows // 61
        case.run(f"DELETE FROM {{ks}}.by_number USING TIMESTAMP {us + low + 200} WHERE k = 1 AND c > {low} AND c < {low + rows // 80}",
                 f"DELETE FROM {{ks}}.by_text USING TIMESTAMP {us + low} WHERE k = {number % 2} AND a >= '{number * 16:03}' AND a < '{number * 16 + 10:03}xx'")
    return case


def many_partitions(count):
    """`count` partitions of one row; every hundredth has enough for a row index."""
    case = Case("many_partitions", index_size="1KiB")
    case.table("t", "k text, c int, v int, PRIMARY KEY (k, c)", "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}")
    for number in range(count):
        for c in range(120 if number % 500 == 0 else 1):
            case.run(f"INSERT INTO {{ks}}.t (k, c, v) VALUES ('key {number}', {c}, {number}) USING TIMESTAMP {BASE_US + c}")
    return case


def many_chunks():
    """Each compressor with each chunk length, over many chunks of data that compress by half."""
    case = Case("many_chunks")
    for name in COMPRESSORS + [None]:
        for kib in [1, 4, 16, 64]:
            table = f"{name.lower() if name else 'plain'}_{kib}"
            options = f"{{'class': '{name}Compressor', 'chunk_length_in_kb': {kib}}}" if name else "{'enabled': false}"
            case.table(table, "k int PRIMARY KEY, v text", f"compression = {options}")
            for key in range(900):
                text = "".join(f"{key * key * (i + 3) * 7919 % 65536:04x}" for i in range(60)) + "filler " * 20
                case.run(f"INSERT INTO {{ks}}.{table} (k, v) VALUES ({key}, '{text}') USING TIMESTAMP {BASE_US + key}")
    return case


BASE = [all_types, collections, statics, counters, expiring, deletions, wide_lz4, wide_uncompressed, compressors, keys, empty_values, wide_schema, chunks]

#: What is committed, by folder of testdata/: which Cassandra, its configuration, the size of its index blocks, and the cases.
TARGETS = {
    "cassandra-4.1": ("4.1", [], "4KiB", BASE),
    "cassandra-5.0-oa": ("5.0", ["storage_compatibility_mode: NONE", "sstable:", "  selected_format: big"], "4KiB",
                         [collections, statics, counters, expiring, deletions, wide_uncompressed, empty_values, far_expiry, vectors]),
    "cassandra-5.0-da": ("5.0", ["storage_compatibility_mode: NONE", "sstable:", "  selected_format: bti"], "1KiB",
                         [*(case for case in BASE if case is not compressors), far_expiry, vectors, row_index, long_keys]),
}

def big(rows):
    """What is too big to be committed, for each of the targets: `rows` rows or partitions in a table."""
    return [big_partition(rows), many_partitions(rows), many_chunks()]
