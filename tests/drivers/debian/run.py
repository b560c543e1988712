#!/usr/bin/env python3
"""Real input: the Debian package index of this machine, loaded by an ordinary driver into a server that is killed in the middle.

    tests/drivers/debian/run.sh [--packages N | --all] [--peer]

The load runs until two fifths are acknowledged, then the server gets SIGKILL, is started again on its files, and must have every
acknowledged record; the load is completed, and every record is compared with the source. Then the same queries go through the Python driver,
cqlsh, the Java driver, gocql and the Rust driver, and each must give the answer that the source gives. By default 15,000 packages.
`--peer` does it with a real Apache Cassandra 5.0. The last line is `N passed, N failed`.
"""

import argparse
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import nodes  # noqa: E402
import setup  # noqa: E402

import answers  # noqa: E402
import packages as source  # noqa: E402

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: E402
from cassandra.policies import FallthroughRetryPolicy, RoundRobinPolicy  # noqa: E402
from cassandra.query import BatchStatement, BatchType, tuple_factory  # noqa: E402

IN_FLIGHT = 200
BATCH_ROWS = 40


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def verdict(self, good, name, why=""):
        self.passed += bool(good)
        self.failed += not good
        print(f"{'PASS' if good else 'FAIL'} {name}{'' if good or not why else ': ' + why}", flush=True)
        return good


def connect(node):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), row_factory=tuple_factory, request_timeout=60, retry_policy=FallthroughRetryPolicy())
    cluster = Cluster([nodes.HOST], port=node.port, protocol_version=5, compression="lz4", execution_profiles={EXEC_PROFILE_DEFAULT: profile},
                      connect_timeout=60, control_connection_timeout=60, max_schema_agreement_wait=60)
    return cluster, cluster.connect()


class Load:
    """The records as requests, and which of them were acknowledged."""

    def __init__(self, packages, reverse):
        groups = source.partitions(reverse.values())
        self.requests = [("package", row) for row in packages.values()]
        for rows in groups.values():
            self.requests += [("dependents", rows[begin : begin + BATCH_ROWS]) for begin in range(0, len(rows), BATCH_ROWS)]
        # Mixed in a fixed order, so that both tables are half full when the server is killed.
        self.requests.sort(key=lambda each: hash_of(each[1].name if each[0] == "package" else each[1][0][:3]))
        self.acknowledged = [False] * len(self.requests)

    def run(self, session, stop_after=None, kill=None):
        """Sends what is not acknowledged. After `stop_after` acknowledgements `kill` is called; gives how many requests then failed."""
        package = session.prepare(f"INSERT INTO {source.KEYSPACE}.packages ({answers.ALL_COLUMNS}) VALUES ({', '.join('?' * 14)})")
        dependent = session.prepare(f"INSERT INTO {source.KEYSPACE}.reverse_depends (package, dependent, kind, relation) VALUES (?, ?, ?, ?)")
        free = threading.Semaphore(IN_FLIGHT)
        failures, done, lock = [], [0], threading.Lock()

        def finished(number, good):
            with lock:
                self.acknowledged[number] |= good
                done[0] += good
                if not good:
                    failures.append(number)
            free.release()

        killed = False
        for number, (kind, what) in enumerate(self.requests):
            if self.acknowledged[number]:
                continue
            if kind == "package":
                statement = package.bind(what)
            else:
                statement = BatchStatement(BatchType.UNLOGGED)
                for row in what:
                    statement.add(dependent, row)
            free.acquire()
            if stop_after and done[0] >= stop_after and not killed:
                killed = True
                kill()
            try:
                future = session.execute_async(statement)
            except Exception:  # noqa: BLE001  (no host left)
                finished(number, False)
                break
            future.add_callbacks(lambda _, n=number: finished(n, True), lambda _, n=number: finished(n, False))
            if killed:
                break
        for _ in range(IN_FLIGHT):
            free.acquire()
        return len(failures)


def hash_of(what):
    return zlib.crc32(repr(what).encode())


def compare(session, packages, reverse, load, tally, stage):
    """Every record that must be there, and none that must not; `stage` "killed" asks for the acknowledged ones only."""
    must_packages = {(row.name, row.version) for (kind, row), good in zip(load.requests, load.acknowledged) if good and kind == "package"}
    must_reverse = {row[:3] for (kind, rows), good in zip(load.requests, load.acknowledged) if good and kind == "dependents" for row in rows}
    for table, columns, known, must, key_columns in [("packages", answers.ALL_COLUMNS, packages, must_packages, 2),
                                                     ("reverse_depends", "package, dependent, kind, relation", reverse, must_reverse, 3)]:
        statement = session.prepare(f"SELECT {columns} FROM {source.KEYSPACE}.{table}")
        statement.fetch_size = 2000
        seen, wrong = set(), []
        for row in session.execute(statement):
            key = tuple(row[:key_columns])
            if key in seen:
                wrong.append(f"{key} comes twice")
            seen.add(key)
            if key not in known:
                wrong.append(f"{key} was never written")
            elif [answers.text(value) for value in row] != [answers.text(value) for value in known[key]]:
                wrong.append(f"{key} is {[answers.text(value) for value in row]!r:.200}")
        missing = must - seen
        tally.verdict(not wrong and not missing, f"{stage}: {table}: {len(must)} acknowledged rows, {len(seen)} there",
                      f"{len(missing)} missing, like {sorted(missing)[:3]}; {len(wrong)} wrong, like {wrong[:2]}")


def judge_answers(wanted, given, name, tally):
    due = [query for query in wanted if name != "cqlsh" or query.plain]
    wrong = [f"{query.name}: expected {query.expected[0]} rows {query.expected[1][:8]}, got {given.get(query.name, given.get('?', 'nothing'))}"
             for query in due if given.get(query.name) != query.expected]
    tally.verdict(not wrong, f"{name}: {len(due)} queries, {sum(query.expected[0] for query in due)} rows", f"{len(wrong)} differ: {wrong[:3]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=int, default=15000, metavar="N", help="so many, spread over the index (default: %(default)s)")
    parser.add_argument("--all", action="store_true", help="every package of the index")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--profile", default="release", help="cargo's profile of the server (default: %(default)s)")
    options = parser.parse_args()
    tally = Tally()
    node = None
    try:
        limit = None if options.all else options.packages
        packages, reverse = source.load(limit)
        if len(packages) < (limit or 50_000) * 9 // 10:
            setup.update_index()
            packages, reverse = source.load(limit)
        if len(packages) < (limit or 50_000) * 9 // 10:
            raise nodes.Trouble(f"apt-cache knows {len(packages)} packages only")
        setup.say(f"{len(packages)} packages, {len(reverse)} reverse dependencies")
        programs = {"java": setup.java(), "gocql": setup.go(), "rust": setup.rust()}
        node = nodes.Cassandra() if options.peer else nodes.Messina(flags=["--smp", "2"], profile=options.profile)
        run(node, packages, reverse, programs, tally)
    except (nodes.Trouble, nodes.toolchain.Trouble) as trouble:
        print(f"real input: {trouble}", file=sys.stderr)
        return 2
    finally:
        if node:
            node.remove()
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or not tally.passed else 0


def run(node, packages, reverse, programs, tally):
    node.start()
    cluster, session = connect(node)
    for statement in source.SCHEMA:
        session.execute(statement)
    load = Load(packages, reverse)
    begin = time.monotonic()
    failed = load.run(session, stop_after=len(load.requests) * 2 // 5, kill=node.kill)
    acknowledged = sum(load.acknowledged)
    tally.verdict(not node.running() and acknowledged < len(load.requests),
                  f"killed by SIGKILL after {acknowledged} of {len(load.requests)} requests and {time.monotonic() - begin:.1f} s; {failed} got no answer")
    cluster.shutdown()

    seconds = node.start()
    setup.say(f"ready {seconds:.2f} s after the start that follows the kill")
    cluster, session = connect(node)
    compare(session, packages, reverse, load, tally, "killed")
    begin = time.monotonic()
    failed = load.run(session)
    tally.verdict(not failed and all(load.acknowledged), f"load completed in {time.monotonic() - begin:.1f} s", f"{failed} requests failed")
    compare(session, packages, reverse, load, tally, "complete")

    wanted = answers.queries(packages, reverse)
    judge_answers(wanted, answers.by_driver(session, wanted), "python", tally)
    cluster.shutdown()
    contact = f"{nodes.HOST}:{node.port}"
    with tempfile.TemporaryDirectory(prefix="debian-") as directory:
        file = Path(directory) / "queries.tsv"
        file.write_text("".join(query.line() + "\n" for query in wanted))
        for name, command in programs.items():
            judge_answers(wanted, answers.by_program(command, contact, file), name, tally)
        judge_answers(wanted, answers.by_cqlsh(setup.cqlsh(), contact, wanted, Path(directory)), "cqlsh", tally)
    if isinstance(node, nodes.Messina):
        tally.verdict(node.running(), "the server is still there", node.tail())
        if node.running():
            status = node.stop()
            tally.verdict(status == 0, f"the server stops on SIGTERM (exit status {status})")


if __name__ == "__main__":
    sys.exit(main())
