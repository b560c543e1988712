#!/usr/bin/env python3
"""Makes testdata/cassandra-4.1/: SSTables that Cassandra itself wrote, with what its sstabledump says of them.

Each case is a schema and a list of CQL statements, below. The statements run in a real Cassandra (java/messina/peers/MakeSamples.java:
its executor, its memtables, its flush) under a fixed clock, so another run gives the same data; only host and counter ids, commit log
positions and the like inside Statistics.db differ, and the time uuids of list cells. The statements are kept beside the SSTables as statements.cql.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from toolchain import REPO, RELEASES, Toolchain, Trouble, say

HERE = Path(__file__).resolve().parent

#: The clock of MakeSamples.java, and the first write timestamp.
NOW_S = 1_700_000_000
BASE_US = NOW_S * 1_000_000


class Case:
    """A sample: its definitions and its statements. `{ks}` stands for the keyspace, which is named as the case."""

    def __init__(self, name):
        self.name = name
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


CASES = [all_types, collections, statics, counters, expiring, deletions, lambda: wide("wide_lz4", "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}", 60),
         lambda: wide("wide_uncompressed", "{'enabled': false}", 60), compressors, keys]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--into", type=Path, default=REPO / "testdata" / "cassandra-4.1", help="where (default: %(default)s)")
    parser.add_argument("--cassandra", choices=sorted(RELEASES), default="4.1", help="which Cassandra writes (default: %(default)s)")
    options = parser.parse_args()
    cases = [make() for make in CASES]
    home = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        toolchain = Toolchain(options.cassandra)
        toolchain.write_home(home, extra="column_index_size: 4KiB\nflush_compression: table\n")
        plan = []
        schemas = []
        for case in cases:
            schemas.append(home / f"{case.name}.schema.cql")
            schemas[-1].write_text("".join(f"{statement};\n" for statement in case.schema))
            statements = home / f"{case.name}.statements.cql"
            statements.write_text("".join(f"{statement};\n" for statement in case.statements))
            plan.append(f"write\t{statements}\n")
        (home / "plan").write_text("\t".join(["schema", *map(str, schemas)]) + "\n" + "".join(plan))
        with open(home / "log", "wb") as log:
            status = subprocess.run(toolchain.command(home, "messina.peers.PeerTools", home / "plan", home / "results"), stdout=log,
                                    stderr=subprocess.STDOUT, cwd=home).returncode
        if status != 0:
            raise Trouble(f"Cassandra could not write the samples:\n{(home / 'log').read_text()[-6000:]}")
        for case in cases:
            place = options.into / case.name
            if place.exists():
                shutil.rmtree(place)
            place.mkdir(parents=True)
            shutil.copy(home / f"{case.name}.schema.cql", place / "schema.cql")
            shutil.copy(home / f"{case.name}.statements.cql", place / "statements.cql")
            for directory in (home / "data" / case.name).iterdir():
                shutil.copytree(directory, place / "data" / case.name / directory.name, ignore=shutil.ignore_patterns("backups"))
    except Trouble as trouble:
        print(f"peers: {trouble}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(home)
    # What Cassandra's dump says of each; the times as numbers, so that nothing depends on the formatting of dates.
    places = [str(options.into / case.name) for case in cases]
    status = subprocess.run([sys.executable, HERE / "verify.py", "--cassandra", options.cassandra, "--out", "expected", "--raw-timestamps", *places]).returncode
    # Only what the SSTables decide is kept, not where and how fast the tools ran.
    for place in places:
        for file in [*Path(place).rglob("verify.txt"), Path(place, "expected", "summary.json")]:
            file.unlink()
        for file in Path(place).rglob("*.metadata.txt"):
            file.write_text(re.sub(r"^SSTable: .*/", "SSTable: ", file.read_text()))
    if status == 0:
        say(f"{len(cases)} cases in {options.into}")
    return status


if __name__ == "__main__":
    sys.exit(main())
