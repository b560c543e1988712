#!/usr/bin/env python3
"""The same merges by Messina, Apache Cassandra 5.0 and RocksDB, in turn on core 0.

Messina: `messina-bench compaction merge`, cargo's profile `dist`; the SSTables it makes are kept. Cassandra: from Maven, the values of its
cassandra_latest.yaml, G1, a heap of 4 GB; it takes copies of these SSTables by `nodetool import` and merges them by `nodetool compact`, not throttled,
with one compactor, after a merge that warms the JVM up. What is counted is what its log says the merge took, and the CPU time of the process from the
command's start to its end. Cassandra reads through the page cache, where the copies are; the others read the disk directly. RocksDB: `bench-peers merge`.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests" / "drivers"))
import nodes  # noqa: E402

RESULTS = REPO / "bench" / "results" / "merge.ndjson"
CORE = "0"
SIDES = ["messina", "cassandra", "rocksdb"]
COMPACTED = re.compile(r"Compacted \(.*?\) (\d+) sstables to .* in ([\d,.]+)ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of 600 MB of rows (default: %(default)s)")
    parser.add_argument("--cases", default="2,4,2-overwrites,4-overwrites", help="(default: %(default)s)")
    parser.add_argument("--partition-rows", type=int, default=1, metavar="N", help="rows in a partition (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of all sides (default: %(default)s)")
    parser.add_argument("--only", choices=SIDES, action="append", help="one side; may be repeated")
    options = parser.parse_args()
    sides = options.only or SIDES
    home = Path(os.environ.get("BENCH_DIR", REPO / ".cache" / "bench")) / "merge"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    begin = len(RESULTS.read_text().splitlines()) if RESULTS.exists() else 0
    messina = nodes.build_messina("dist")
    peers = build_peers() if "rocksdb" in sides else None
    common = ["--scale", options.scale, "--cases", options.cases, "--partition-rows", options.partition_rows, "--runs", 1, "--core", CORE,
              "--dir", home / "scratch"]
    try:
        for _ in range(options.rounds):
            # The inputs are made in the first round; without Messina's own figures by a merge that does not count.
            if "messina" in sides or not (home / "inputs").exists():
                results = RESULTS if "messina" in sides else "none"
                run(nodes.build("dist", "bench", "messina-bench"), "compaction", "merge", *common, "--results", results, "--inputs", home / "inputs")
            if "cassandra" in sides:
                cassandra(messina, home, options)
            if "rocksdb" in sides:
                run(peers, "merge", *common, "--results", RESULTS)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    report(RESULTS.read_text().splitlines()[begin:])


def run(*command):
    done = subprocess.run([*map(str, command)], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}")
    print(done.stdout, flush=True)
    return done.stdout


def build_peers():
    """Cargo reads .cargo/config.toml of the directory it runs in."""
    done = subprocess.run(["cargo", "build", "--release", "--locked"], cwd=REPO / "bench" / "peers")
    if done.returncode != 0:
        raise SystemExit("bench/peers was not built; bench/engine.sh installs what it needs")
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "bench" / "peers" / "target"))
    return target.resolve() / "release" / "bench-peers"


def cassandra(messina, home, options):
    """One merge of each case in a process of its own, after one that warms it up."""
    node = nodes.Cassandra(home / "cassandra", cpus=CORE, latest=True, heap="4G")
    rows = (max(1000, int(2_000_000 * options.scale)) + 3) // 4 * 4
    user_mb = rows * 300 / 1e6
    try:
        node.start()
        node.nodetool("setcompactionthroughput", "0")
        node.nodetool("setconcurrentcompactors", "1")
        shell = [messina, "shell", nodes.HOST, str(node.port), "--request-timeout", "60", "-e"]
        subprocess.run([*shell, "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"], check=True)
        cases = options.cases.split(",")
        for number, case in enumerate([cases[0], *cases]):
            table = f"rows{number}"
            key = "key blob PRIMARY KEY, value blob" if options.partition_rows == 1 else "key blob, number bigint, value blob, PRIMARY KEY (key, number)"
            subprocess.run([*shell, f"CREATE TABLE bench.{table} ({key}) WITH compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}"
                            " AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}"], check=True)
            staged = node.home / "staged" / "bench" / table
            staged.mkdir(parents=True)
            inputs = next((home / "inputs" / case / "data" / "bench").glob("rows-*"))
            for file in inputs.iterdir():
                if file.is_file() and file.suffix in (".db", ".txt", ".crc32"):
                    shutil.copy(file, staged)
            node.nodetool("import", "--no-verify", "--no-tokens", "bench", table, str(staged))
            left = [file.name for file in staged.glob("*Data.db")]
            if left:
                raise SystemExit(f"Cassandra did not take {left}:\n{node.tail()}")
            from_byte, cpu_s = node.log.stat().st_size, node.cpu_s()
            node.nodetool("compact", "bench", table)
            cpu_s = node.cpu_s() - cpu_s
            with node.log.open() as log:
                log.seek(from_byte)
                merges = [line for line in log if f"/{table}-" in line and COMPACTED.search(line)]
            if len(merges) != 1:
                raise SystemExit(f"{len(merges)} merges of {table} in Cassandra's log:\n{node.tail()}")
            sstables, took_ms = COMPACTED.search(merges[0]).groups()
            if sstables != case[0]:
                raise SystemExit(f"{sstables} SSTables were merged, not {case[0]}: {merges[0]}")
            if number > 0:
                keep(f"merge-{case}-user", user_mb / (float(took_ms.replace(",", "")) / 1000), cpu_s * 1e6 / user_mb, options)
    finally:
        node.kill()
    shutil.rmtree(node.home, ignore_errors=True)


def keep(figure, mb_per_s, cpu_us, options):
    line = {
        "bench": f"merge/cassandra/{figure}",
        "commit": said("git", "rev-parse", "--short=12", "HEAD"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "release": nodes.toolchain.RELEASES["5.0"],
        "unit": "MB/s",
        "median": round(mb_per_s, 1),
        "runs": [round(mb_per_s, 1)],
        "cpu_us": round(cpu_us, 1),
        "settings": {"scale": options.scale, "partition_rows": options.partition_rows, "core": int(CORE)},
        "machine": {"load": round(os.getloadavg()[0], 1)},
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"cassandra {figure:24} {mb_per_s:8.1f} MB/s  {cpu_us:8.0f} us CPU/MB", flush=True)


def report(lines):
    """Medians over the rounds: MB of keys and values per second, and CPU time for each."""
    rows = {}
    for line in map(json.loads, lines):
        _, side, figure = line["bench"].split("/")
        if figure.endswith("-user"):
            rows.setdefault(figure.removesuffix("-user"), {}).setdefault(side, []).append((line["median"], line["cpu_us"]))
    print(f"{'MB/s of keys and values':26}" + "".join(f"{side:>12}{'us CPU/MB':>12}" for side in SIDES))
    for figure, sides in rows.items():
        cells = ""
        for side in SIDES:
            runs = sorted(sides.get(side, []))
            rate, cpu_us = runs[len(runs) // 2] if runs else (0, 0)
            cells += f"{rate:12.1f}{cpu_us:12.0f}"
        print(f"{figure:26}{cells}", flush=True)


def said(*command):
    return subprocess.run(command, cwd=REPO, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
