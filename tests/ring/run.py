#!/usr/bin/env python3
"""Messina's compaction strategies inside real Cassandra 5.0 nodes.

    tests/ring/run.sh                   one node, a ring of three, and both again with native merges; first builds the jar
    tests/ring/run.sh --nodes 1         one node only
    tests/ring/run.sh --merges native   only with native merges (or cassandra: only with Cassandra's)
    tests/ring/run.sh --jar FILE        this jar, instead of the one that cassandra/build.sh makes
    tests/ring/run.sh --seed 7          the writes of this seed, which is printed at each run

The same random writes with explicit timestamps (overwrites, deletions of cells, rows, ranges and partitions, TTLs) go to a table of each of
Messina's strategies and to a reference table that Cassandra's own strategy compacts. Each round ends with a flush on every node. After the
background compactions, and again after each of `nodetool cleanup`, `upgradesstables -a`, `compact`, (three nodes) full and incremental repair, and
a restart after SIGKILL, every table must have the rows, timestamps and TTLs of the reference, and three nodes must agree by `repair --preview`. Each strategy must have decided at least one compaction, `nodetool verify -e` and the offline sstableverify must
pass on every SSTable, options outside their bounds must be refused, and no log line may be an error. At last the tables get Cassandra's
strategies and the nodes restart without the jar. The last line is `N passed, N failed`.

`nodetool scrub` and `garbagecollect` are left out: on these data scrub of a Cassandra 5.0.9 node without Messina's jar lost partitions
(NullPointerException in SortedTableScrubber's check of the order), and a garbagecollect after it had not ended after a minute.
"""

import argparse
import importlib.util
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy

import natives
from cluster import CQL_PORT, Ring, address, nodes

REPO = nodes.REPO


def load_exchange():
    """tests/drivers/exchange/run.py, for its tables of every type and shape and the writes to them."""
    spec = importlib.util.spec_from_file_location("exchange", REPO / "tests" / "drivers" / "exchange" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


exchange = load_exchange()
KEYSPACE = "ring"
REFERENCE = "reference"
#: Table name, class, options that make small data compact often.
STRATEGIES = [
    ("incremental", "IncrementalCompactionStrategy", "'sstable_size_in_mb': 1, 'min_sstable_size': 1000, 'tombstone_compaction_interval': 1"),
    ("size_tiered", "SizeTieredCompactionStrategy", "'min_sstable_size': 1000, 'min_threshold': 3"),
    ("leveled", "LeveledCompactionStrategy", "'sstable_size_in_mb': 1"),
    ("time_window", "TimeWindowCompactionStrategy", "'compaction_window_unit': 'MINUTES', 'compaction_window_size': 1, 'min_threshold': 3, 'min_sstable_size': 1000"),
    ("unified", "UnifiedCompactionStrategy", "'scaling_parameters': 'L3', 'target_sstable_size': '1MiB', 'min_sstable_size': '100KiB'"),
]
TABLES = [REFERENCE, *[name for name, _, _ in STRATEGIES]]
#: Tables with a secondary index, which Cassandra merges always.
INDEXED = ["size_tiered", "unified"]
#: Tables of every type and shape, one that Cassandra compacts and one that Messina's size-tiered strategy does.
SHAPES = {"wide": exchange.wide_write, "things": exchange.things_write}
COLUMNS = "p int, c int, s text static, v text, n int, PRIMARY KEY (p, c)"
QUERY = "SELECT p, c, s, v, n, writetime(s), writetime(v), writetime(n), ttl(v) FROM {}"
ROUNDS = 10
PARTITIONS = 40
ROWS = 60


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, is_good, detail=""):
        if is_good:
            self.passed += 1
            print(f"ok   {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {name}\n     {detail}", flush=True)


class Client:
    def __init__(self, ring):
        hosts = [node.host for node in ring]
        profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy(hosts), request_timeout=120,
                                   consistency_level=ConsistencyLevel.ALL)
        self.cluster = Cluster(hosts, port=CQL_PORT, execution_profiles={EXEC_PROFILE_DEFAULT: profile}, connect_timeout=30)
        self.session = self.cluster.connect()
        self.session.default_fetch_size = 1000

    def execute(self, text):
        return self.session.execute(text)

    def close(self):
        self.cluster.shutdown()


def create(client, replicas):
    client.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
    client.execute(f"CREATE TABLE {KEYSPACE}.{REFERENCE} ({COLUMNS}) WITH gc_grace_seconds = 1"
                   " AND compaction = {'class': 'SizeTieredCompactionStrategy', 'min_sstable_size': 1000}")
    for name, strategy, options in STRATEGIES:
        client.execute(f"CREATE TABLE {KEYSPACE}.{name} ({COLUMNS}) WITH gc_grace_seconds = 1"
                       f" AND compaction = {{'class': 'io.messina.{strategy}', {options}}}")
    # An index of Cassandra's own kind inherits the strategy's class, but not the partitioner; SAI has components of its own.
    client.execute(f"CREATE INDEX by_n ON {KEYSPACE}.size_tiered (n)")
    client.execute(f"CREATE INDEX by_n_sai ON {KEYSPACE}.unified (n) USING 'sai'")


    client.execute(exchange.SCHEMA[1].replace("exchange.", f"{KEYSPACE}."))
    for table in SHAPES:
        schema = next(text for text in exchange.SCHEMA if f"CREATE TABLE exchange.{table} " in text)
        for name, strategy in [(f"{table}_cassandra", "SizeTieredCompactionStrategy"), (f"{table}_messina", "io.messina.SizeTieredCompactionStrategy")]:
            text = schema.replace(f"exchange.{table}", f"{KEYSPACE}.{name}").replace("'SizeTieredCompactionStrategy', 'enabled': 'false'", f"'{strategy}', 'min_threshold': 2")
            client.execute(text + " AND gc_grace_seconds = 1")


def statement(rng, clock):
    """A write with `{}` for the table."""
    p, c = rng.randrange(PARTITIONS), rng.randrange(ROWS)
    row = f"p = {p} AND c = {c}"
    kind = rng.random()
    if kind < 0.62:
        ttl = " AND TTL 3" if kind < 0.05 else " AND TTL 1000000" if kind < 0.12 else ""
        text = f"{rng.getrandbits(400):x}" * rng.randrange(1, 24)
        return f"INSERT INTO {{}} (p, c, v, n) VALUES ({p}, {c}, '{text}', {rng.randrange(50)}) USING TIMESTAMP {clock}{ttl}"
    if kind < 0.74:
        return f"UPDATE {{}} USING TIMESTAMP {clock} SET n = {rng.randrange(50)} WHERE {row}"
    if kind < 0.80:
        return f"UPDATE {{}} USING TIMESTAMP {clock} SET s = 's{clock}' WHERE p = {p}"
    if kind < 0.90:
        return f"DELETE FROM {{}} USING TIMESTAMP {clock} WHERE {row}"
    if kind < 0.95:
        return f"DELETE v FROM {{}} USING TIMESTAMP {clock} WHERE {row}"
    if kind < 0.99:
        return f"DELETE FROM {{}} USING TIMESTAMP {clock} WHERE p = {p} AND c >= {c} AND c < {c + rng.randrange(1, 9)}"
    return f"DELETE FROM {{}} USING TIMESTAMP {clock} WHERE p = {p}"


def write(ring, client, rng, rounds, writes):
    clock = int(time.time() * 1e6)
    for _ in range(rounds):
        futures = []
        for _ in range(writes):
            clock += 1
            text = statement(rng, clock)
            for table in TABLES:
                futures.append(client.session.execute_async(text.format(f"{KEYSPACE}.{table}")))
            for table, make in SHAPES.items():
                text = make(rng, clock)
                for name in (f"{table}_cassandra", f"{table}_messina"):
                    futures.append(client.session.execute_async(text.replace(f"exchange.{table}", f"{KEYSPACE}.{name}")))
            while len(futures) > 96:
                futures.pop(0).result()
        for future in futures:
            future.result()
        ring.nodetool("flush", KEYSPACE)


def rows(client, table):
    found = []
    for row in client.execute(QUERY.format(f"{KEYSPACE}.{table}")):
        fields = list(row)
        fields[-1] = None if fields[-1] is None else "some"
        found.append(tuple(fields))
    return found


def compare(report, client, when):
    expected = rows(client, REFERENCE)
    report.check(f"{when}: the reference has rows", len(expected) > 100, f"{len(expected)} rows")
    for name, _, _ in STRATEGIES:
        found = rows(client, name)
        differing = [pair for pair in zip(expected, found) if pair[0] != pair[1]][:2]
        report.check(f"{when}: {name} has the reference's {len(expected)} rows", found == expected, f"{len(found)} rows; {differing}")
    for table in SHAPES:
        for query in exchange.QUERIES[table]:
            answers = [[repr(tuple("some" if name.startswith("ttl") and value is not None else value for name, value in row._asdict().items()))
                        for row in client.execute(query.format(f"{KEYSPACE}.{table}_{owner}"))] for owner in ("cassandra", "messina")]
            if answers[0] != answers[1]:
                report.check(f"{when}: {query.format(table)}", False, str([pair for pair in zip(*answers) if pair[0] != pair[1]][:2])[:1500])
        report.check(f"{when}: {len(exchange.QUERIES[table])} queries of {table} were compared", True)
    for table in INDEXED:
        by_index = sorted(row.p * 1000 + row.c for row in client.execute(f"SELECT p, c FROM {KEYSPACE}.{table} WHERE n = 7"))
        by_scan = sorted(row[0] * 1000 + row[1] for row in expected if row[4] == 7)
        report.check(f"{when}: the index of {table} finds its {len(by_scan)} rows", by_index == by_scan, f"{by_index} instead of {by_scan}")


def settle(ring, within_s=180):
    """Waits until no compaction runs or is pending."""
    begin = time.monotonic()
    quiet = 0
    while quiet < 2:
        stats = ring.nodetool("compactionstats")
        quiet = quiet + 1 if all(re.search(r"pending tasks\s+0\b", text) and "Compaction" not in text for text in stats) else 0
        if time.monotonic() - begin > within_s:
            raise nodes.Trouble(f"compactions did not come to an end within {within_s} s:\n" + "\n".join(stats))
        time.sleep(1)


def check_refusals(report, client):
    for table, options, expected in [
        ("incremental", "'bucket_low': '1.5'", "between 0 and 1"),
        ("incremental", "'windows': '2'", "not understood"),
        ("unified", "'min_threshold': '4'", "not understood"),
        ("time_window", "'unsafe_aggressive_sstable_expiration': 'true'", "cannot be true"),
        ("leveled", "'sstable_size_in_mb': '0'", "must be larger than 0"),
    ]:
        strategy = next(strategy for name, strategy, _ in STRATEGIES if name == table)
        try:
            client.execute(f"ALTER TABLE {KEYSPACE}.{table} WITH compaction = {{'class': 'io.messina.{strategy}', {options}}}")
            report.check(f"refused: {strategy} {options}", False, "it was accepted")
        except Exception as error:  # noqa: BLE001 (the driver has a class for each kind of refusal)
            report.check(f"refused: {strategy} {options}", expected in str(error), str(error))


def decided(node, table):
    return re.findall(rf"Messina compacts \d+ SSTables of {KEYSPACE}\.{table} \([^)]*\): (.*)", node.log.read_text(errors="replace"))


def check_logs(report, ring, when):
    for node in ring:
        lines = [line for line in node.log.read_text(errors="replace").splitlines() if re.match(r"\s*ERROR|.*Exception in thread", line) or "Messina cannot" in line]
        report.check(f"{when}: no error in the log of node {node.number}", not lines, "\n     ".join(lines[:5]))


def check_structure(report, ring):
    """The shapes that the strategies promise: fragments of their size, and levels without overlaps."""
    for node in ring:
        directory = next((node.data_dir() / KEYSPACE).glob("incremental-*"))
        data = list(directory.glob("nb-*-Data.db"))
        runs = directory / "messina-runs.txt"
        known = runs.read_text().split("\n") if runs.exists() else []
        of_run = [file for file in data if any(line.split(" ")[0] == file.name.split("-")[1] for line in known if line)]
        report.check(f"node {node.number}: fragments of runs are recorded", len(of_run) > 0 and len(data) > 0, f"{len(data)} SSTables, runs: {known[:5]}")


def verify_offline(report, ring):
    for node in ring:
        for table in [*TABLES, *[f"{table}_messina" for table in SHAPES]]:
            status, printed = node.tool("StandaloneVerifier", "-f", "-e", KEYSPACE, table)
            files = len(list(next((node.data_dir() / KEYSPACE).glob(f"{table}-*")).glob("*-Data.db")))
            report.check(f"node {node.number}: sstableverify of {table}, {files} SSTables", status == 0 and files > 0, printed[-1500:])


def check_merges(report, ring, title, native):
    """Who merged: every table without an index natively, or none."""
    for name in [*[name for name, _, _ in STRATEGIES], *[f"{table}_messina" for table in SHAPES]]:
        merged = 0
        for node in ring:
            text = node.log.read_text(errors="replace")
            ids = re.findall(rf"Messina compacts \d+ SSTables of {KEYSPACE}\.{name} \(([^)]*)\)", text)
            merged += sum(f"Messina merged ({task})" in text for task in ids)
        is_expected = merged > 0 if native and name not in INDEXED else merged == 0
        report.check(f"{title}: {merged} native merges of {name}", is_expected)
    failed = [line for node in ring for line in node.log.read_text(errors="replace").splitlines() if "Messina could not merge" in line]
    report.check(f"{title}: no native merge failed", not failed, "\n     ".join(failed[:5]))


def suite(report, count, jar, native, seed, writes):
    title = f"{count} node{'s' if count > 1 else ''}{', native merges' if native else ''}"
    print(f"{title}: starting", flush=True)
    rng = random.Random(seed)
    ring = Ring(count, jar, native)
    client = None
    try:
        client = Client(ring)
        create(client, count)
        check_refusals(report, client)
        begin = time.monotonic()
        write(ring, client, rng, ROUNDS, writes)
        print(f"{title}: {ROUNDS} rounds of {writes} writes to {len(TABLES)} tables in {time.monotonic() - begin:.0f} s", flush=True)
        settle(ring)
        time.sleep(3)  # the short TTLs expire
        compare(report, client, f"{title}, background compactions")
        for name, strategy, _ in STRATEGIES:
            reasons = [reason for node in ring for reason in decided(node, name)]
            report.check(f"{title}: {strategy} decided {len(reasons)} compactions", len(reasons) > 0)
            print("     " + "; ".join(sorted(set(reasons))[:3]), flush=True)
        check_structure(report, ring)
        for command in (["cleanup", KEYSPACE], ["upgradesstables", "-a", KEYSPACE], ["compact", KEYSPACE]):
            ring.nodetool(*command)
            settle(ring)
            compare(report, client, f"{title}, nodetool {command[0]}")
        if count > 1:
            for command in (["repair", "-full", KEYSPACE], ["repair", KEYSPACE]):
                ring.members[0].nodetool(*command)
                write(ring, client, rng, 2, writes // 4)
                settle(ring)
                time.sleep(3)
                compare(report, client, f"{title}, nodetool {' '.join(command)}, more writes")
            printed = ring.members[0].nodetool("repair", "--preview", "-full", KEYSPACE)
            report.check(f"{title}: the replicas agree", "in sync" in printed and "differ" not in printed, printed[-800:])
        ring.nodetool("verify", "-e", "-f", KEYSPACE)
        client.close()
        ring.restart(jar, kill=True)
        client = Client(ring)
        settle(ring)
        compare(report, client, f"{title}, after SIGKILL")
        check_logs(report, ring, title)
        check_merges(report, ring, title, native)
        for name, _, _ in STRATEGIES:
            client.execute(f"ALTER TABLE {KEYSPACE}.{name} WITH compaction = {{'class': 'SizeTieredCompactionStrategy'}}")
        for table in SHAPES:
            client.execute(f"ALTER TABLE {KEYSPACE}.{table}_messina WITH compaction = {{'class': 'SizeTieredCompactionStrategy'}}")
        client.close()
        client = None
        for node in ring:
            node.stop(120)
        verify_offline(report, ring)
        for node in ring:
            node.jar = None
            node.start()
        client = Client(ring)
        settle(ring)
        compare(report, client, f"{title}, without the jar")
    finally:
        if client:
            client.close()
        ring.remove()


def build_jar():
    done = subprocess.run([REPO / "cassandra" / "build.sh"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise nodes.Trouble("cassandra/build.sh failed")
    return REPO / done.stdout.strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, choices=[1, 3])
    parser.add_argument("--merges", choices=["cassandra", "native"])
    parser.add_argument("--jar", type=Path)
    parser.add_argument("--seed", type=int, default=random.randrange(10000))
    parser.add_argument("--writes", type=int, default=800, help="writes of a round")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    report = Report()
    try:
        jar = (options.jar or build_jar()).resolve()
        natives.check(report, jar)
        for merges in [options.merges] if options.merges else ["cassandra", "native"]:
            for count in [options.nodes] if options.nodes else [1, 3]:
                suite(report, count, jar, merges == "native", options.seed, options.writes)
    except (nodes.Trouble, nodes.toolchain.Trouble) as trouble:
        print(f"ring: {trouble}", file=sys.stderr)
        return 2
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
