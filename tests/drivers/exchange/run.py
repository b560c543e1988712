#!/usr/bin/env python3
"""SSTables change hands between running servers: what Messina wrote Cassandra serves, and the other way round.

    tests/drivers/exchange/run.sh                      with Cassandra 4.1 (nb), 5.0 (nb) and 5.0 with its latest settings (BTI, da)
    tests/drivers/exchange/run.sh --cassandra 4.1      with this one only; 4.1, 5.0 or 5.0-latest
    tests/drivers/exchange/run.sh --seed 7             the writes of this seed, which is printed at each run

Random writes go to one server (tables of every shape: collections, user types, static columns, both clustering orders, counters, TTL, deletions of
cells, rows, ranges and partitions). It flushes; its files are copied into the other server, which has the same schema and takes them by `nodetool import`
(Cassandra) or `nodetool refresh` (Messina). Then each query must have the same answer on both: whole tables, with timestamps and TTLs, and slices of
partitions in both orders. The last line is `N passed, N failed`.
"""

import argparse
import random
import shutil
import sys
from pathlib import Path

from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import WhiteListRoundRobinPolicy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import nodes  # noqa: E402

KEYSPACE = "exchange"
SCHEMA = [
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
    f"CREATE TYPE {KEYSPACE}.address (street text, number int, tags frozen<set<text>>)",
    f"CREATE TABLE {KEYSPACE}.wide (p int, q text, c int, d text, s text static, v text, n bigint, w double, PRIMARY KEY ((p, q), c, d))"
    " WITH CLUSTERING ORDER BY (c DESC, d ASC) AND compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}",
    f"CREATE TABLE {KEYSPACE}.things (k uuid PRIMARY KEY, l list<int>, m map<text, int>, st set<text>, fl frozen<list<text>>, a address, fa frozen<address>,"
    " t tuple<int, text>, i inet, d date, tm time, ts timestamp, dec decimal, vi varint, b blob, bo boolean, sm smallint, ti tinyint, f float, du duration)"
    " WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'} AND compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
    f"CREATE TABLE {KEYSPACE}.counts (p int, c int, n counter, PRIMARY KEY (p, c)) WITH compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}",
    f"CREATE TABLE {KEYSPACE}.large (p int, c int, v text, PRIMARY KEY (p, c)) WITH compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
    " AND compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}",
]
TABLES = ["wide", "things", "counts", "large"]
QUERIES = {
    "wide": ["SELECT p, q, c, d, s, v, n, w, writetime(v), ttl(v), writetime(s) FROM {}",
             *[f"SELECT * FROM {{}} WHERE p = {p} AND q = 'q{q}' ORDER BY c {order}" for p in range(4) for q in range(2) for order in ("ASC", "DESC")],
             *[f"SELECT * FROM {{}} WHERE p = {p} AND q = 'q1' AND c > 5 AND c <= 14" for p in range(4)]],
    "things": ["SELECT * FROM {}", "SELECT k, writetime(i), ttl(i), writetime(fa), ttl(b) FROM {}"],
    "counts": ["SELECT * FROM {}"],
    "large": ["SELECT p, c, v, writetime(v), ttl(v) FROM {}",
              *[f"SELECT c FROM {{}} WHERE p = 1 AND c >= {low} AND c < {low + 700} ORDER BY c DESC" for low in (0, 1999, 9500)]],
}


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def word(rng):
    return rng.choice(["", "a", "bee", "zoë", "x" * 50, "it's"])


def using(rng, clock):
    parts = [f"TIMESTAMP {clock}"]
    if rng.random() < 0.2:
        parts.append(f"TTL {rng.choice([86400, 1000000])}")
    return " AND ".join(parts)


def address(rng):
    tags = ", ".join(sorted({quoted(word(rng)) for _ in range(rng.randrange(3))}))
    return f"{{street: {quoted(word(rng))}, number: {rng.randrange(-5, 500)}, tags: {{{tags}}}}}"


def wide_write(rng, clock):
    table = f"{KEYSPACE}.wide"
    key = f"p = {rng.randrange(4)} AND q = 'q{rng.randrange(2)}'"
    row = f"{key} AND c = {rng.randrange(20)} AND d = {quoted(rng.choice('xyz'))}"
    kind = rng.random()
    if kind < 0.5:
        fields = rng.sample([f"v = {quoted(word(rng))}", f"n = {rng.randrange(-10**15, 10**15)}", f"w = {rng.uniform(-9, 9)!r}", "v = null"], 1)
        return f"UPDATE {table} USING {using(rng, clock)} SET {', '.join(fields)} WHERE {row}"
    if kind < 0.65:
        p, q, c, d = rng.randrange(4), rng.randrange(2), rng.randrange(20), rng.choice("xyz")
        return f"INSERT INTO {table} (p, q, c, d, v) VALUES ({p}, 'q{q}', {c}, '{d}', {quoted(word(rng))}) USING {using(rng, clock)}"
    if kind < 0.75:
        return f"UPDATE {table} USING {using(rng, clock)} SET s = {quoted(word(rng))} WHERE {key}"
    if kind < 0.83:
        return f"DELETE FROM {table} USING TIMESTAMP {clock} WHERE {row}"
    if kind < 0.88:
        return f"DELETE v FROM {table} USING TIMESTAMP {clock} WHERE {row}"
    if kind < 0.96:
        low = rng.randrange(20)
        return f"DELETE FROM {table} USING TIMESTAMP {clock} WHERE {key} AND c {rng.choice(['>', '>='])} {low} AND c {rng.choice(['<', '<='])} {low + rng.randrange(6)}"
    return f"DELETE FROM {table} USING TIMESTAMP {clock} WHERE {key}"


def things_write(rng, clock):
    table = f"{KEYSPACE}.things"
    key = f"k = 00000000-0000-4000-8000-{rng.randrange(12):012d}"
    if rng.random() < 0.06:
        return f"DELETE FROM {table} USING TIMESTAMP {clock} WHERE {key}"
    assignments = {
        "l": lambda: rng.choice([f"l = [{rng.randrange(9)}, {rng.randrange(9)}]", f"l = l + [{rng.randrange(9)}]", f"l = [{rng.randrange(9)}] + l", "l = null"]),
        "m": lambda: rng.choice([f"m = {{{quoted(word(rng))}: {rng.randrange(9)}}}", f"m[{quoted(word(rng))}] = {rng.randrange(9)}", f"m = m - {{{quoted(word(rng))}}}"]),
        "st": lambda: rng.choice([f"st = st + {{{quoted(word(rng))}}}", f"st = {{{quoted(word(rng))}}}", f"st = st - {{{quoted(word(rng))}}}"]),
        "fl": lambda: f"fl = [{quoted(word(rng))}, {quoted(word(rng))}]",
        "a": lambda: rng.choice([f"a = {address(rng)}", f"a.number = {rng.randrange(99)}", "a.street = null", "a = null"]),
        "fa": lambda: f"fa = {address(rng)}",
        "t": lambda: f"t = ({rng.randrange(9)}, {quoted(word(rng))})",
        "i": lambda: f"i = {rng.choice(['null', quoted('127.0.0.1'), quoted('fe80::1')])}",
        "d": lambda: f"d = {quoted(f'20{rng.randrange(10, 30)}-02-1{rng.randrange(9)}')}",
        "tm": lambda: f"tm = {quoted(f'0{rng.randrange(9)}:12:54.123456789')}",
        "ts": lambda: f"ts = {rng.randrange(-10**12, 2 * 10**12)}",
        "dec": lambda: f"dec = {rng.choice(['0', '1.50', '-12345678901234567890.123', '1E+3'])}",
        "vi": lambda: f"vi = {rng.choice([0, -1, 2**80, -(2**64), 127, 128])}",
        "b": lambda: f"b = {rng.choice(['0x', '0x00ff', 'null'])}",
        "bo": lambda: f"bo = {rng.choice(['true', 'false'])}",
        "sm": lambda: f"sm = {rng.randrange(-32768, 32768)}",
        "ti": lambda: f"ti = {rng.randrange(-128, 128)}",
        "f": lambda: f"f = {rng.choice(['0.0', '-1.5', '3e10'])}",
        "du": lambda: f"du = {rng.choice(['1y2mo3d', '4h5m', '-6ms7us8ns'])}",
    }
    chosen = rng.sample(sorted(assignments), rng.randrange(1, 5))
    return f"UPDATE {table} USING {using(rng, clock)} SET {', '.join(assignments[name]() for name in chosen)} WHERE {key}"


def counts_write(rng, _clock):
    key = f"p = {rng.randrange(3)} AND c = {rng.randrange(8)}"
    return f"UPDATE {KEYSPACE}.counts SET n = n + {rng.randrange(-5, 20)} WHERE {key}"


class Side:
    """A running server with a session."""

    def __init__(self, node):
        self.node = node
        node.start()
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([nodes.HOST]), request_timeout=60)
        self.cluster = Cluster([nodes.HOST], port=node.port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=30)
        self.session = self.cluster.connect()
        for statement in SCHEMA:
            self.session.execute(statement)

    def write(self, seed, counters):
        """The writes of a seed, in two flushed rounds. `counters`: counters too, which must be written on one side only."""
        rng = random.Random(seed)
        clock = 1_700_000_000_000_000 + seed * 1_000_000
        for _ in range(2):
            for _ in range(400):
                clock += 1
                writer = rng.choice([wide_write, things_write, *([counts_write] if counters else [])])
                self.session.execute(writer(rng, clock))
            insert = self.session.prepare(f"INSERT INTO {KEYSPACE}.large (p, c, v) VALUES (?, ?, ?) USING TIMESTAMP ?")
            futures = []
            for _ in range(6000):
                clock += 1
                if len(futures) == 64:
                    futures.pop(0).result()
                futures.append(self.session.execute_async(insert, (1 + (rng.random() < 0.1), rng.randrange(10000), "v" * rng.randrange(60), clock)))
            for future in futures:
                future.result()
            low = rng.randrange(9000)
            self.session.execute(f"DELETE FROM {KEYSPACE}.large USING TIMESTAMP {clock} WHERE p = 1 AND c >= {low} AND c < {low + 500}")
            self.node.nodetool("flush", KEYSPACE)

    def directory(self, table):
        found = list((self.node.data_dir() / KEYSPACE).glob(f"{table}-*"))
        if len(found) != 1:
            raise nodes.Trouble(f"{self.node.name} has {len(found)} directories of {table}")
        return found[0]

    def files(self, table):
        return [file for file in self.directory(table).iterdir() if file.is_file() and file.suffix in (".db", ".txt", ".crc32")]

    def answers(self, table):
        """Each query's rows, as text. TTLs count down: all that is asked of them is whether there is one."""
        answers = {}
        for query in QUERIES[table]:
            rows = []
            for row in self.session.execute(query.format(f"{KEYSPACE}.{table}")):
                fields = row._asdict()
                rows.append("\t".join("some" if name.startswith("ttl") and value is not None else repr(value) for name, value in fields.items()))
            answers[query] = rows
        return answers

    def close(self):
        self.cluster.shutdown()
        self.node.remove()


def to_cassandra(messina, cassandra):
    for table in TABLES:
        staged = cassandra.node.home / "staged" / KEYSPACE / table
        staged.mkdir(parents=True)
        for file in messina.files(table):
            shutil.copy(file, staged)
        printed = cassandra.node.nodetool("import", "--extended-verify", KEYSPACE, table, str(staged))
        left = sorted(file.name for file in staged.glob("*Data.db"))
        if left:
            raise nodes.Trouble(f"Cassandra did not take {left} of {table}:\n{printed}\n{cassandra.node.tail()}")


def to_messina(cassandra, messina):
    for table in TABLES:
        upload = messina.directory(table) / "upload"
        upload.mkdir(exist_ok=True)
        for file in cassandra.files(table):
            shutil.copy(file, upload)
        printed = messina.node.nodetool("refresh", KEYSPACE, table)
        left = sorted(file.name for file in upload.glob("*Data.db"))
        if left:
            raise nodes.Trouble(f"Messina did not take {left} of {table}:\n{printed}")


def compare(one, other, title):
    passed = failed = 0
    for table in TABLES:
        expected, found = one.answers(table), other.answers(table)
        for query in QUERIES[table]:
            name = f"{title}: {query.format(table)}"
            # A slice may be empty; a table may not.
            if expected[query] == found[query] and (expected[query] or "WHERE" in query):
                passed += 1
                continue
            failed += 1
            print(f"FAIL {name}: {len(expected[query])} rows on {one.node.name}, {len(found[query])} on {other.node.name}")
            for ours, theirs in [pair for pair in zip(expected[query], found[query]) if pair[0] != pair[1]][:3]:
                print(f"  {one.node.name}: {ours[:600]}\n  {other.node.name}: {theirs[:600]}")
    print(f"{title}: {passed} passed, {failed} failed", flush=True)
    return passed, failed


def exchange(name, make_cassandra, seed):
    """Each direction between fresh servers, so that every row comes from one side."""
    totals = [0, 0]
    for title, giving, taking, move in [
        (f"Messina to Cassandra {name}", lambda: nodes.Messina(flags=["--smp", "2"]), make_cassandra, to_cassandra),
        (f"Cassandra {name} to Messina", make_cassandra, lambda: nodes.Messina(flags=["--smp", "2"]), to_messina),
    ]:
        sides = []
        try:
            sides = [Side(giving())]
            sides.append(Side(taking()))
            sides[0].write(seed, counters=True)
            move(*sides)
            counted = compare(*sides, title)
            totals = [total + more for total, more in zip(totals, counted)]
        finally:
            for side in sides:
                side.close()
    return totals


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cassandras = {
        "4.1": lambda: nodes.Cassandra(series="4.1", heap="512M"),
        "5.0": lambda: nodes.Cassandra(heap="512M"),
        "5.0-latest": lambda: nodes.Cassandra(latest=True, heap="512M"),
    }
    parser.add_argument("--cassandra", choices=cassandras)
    parser.add_argument("--seed", type=int, default=random.randrange(10000))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    passed = failed = 0
    try:
        for name, make in cassandras.items():
            if options.cassandra in (None, name):
                more_passed, more_failed = exchange(name, make, options.seed)
                passed, failed = passed + more_passed, failed + more_failed
    except (nodes.Trouble, nodes.toolchain.Trouble) as trouble:
        print(f"exchange: {trouble}", file=sys.stderr)
        return 2
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
