#!/usr/bin/env python3
"""Point reads of Messina and Apache Cassandra 5.0, in turn on core 0, under the same load from `latte` on core 1: hot and cold.

Hot: few rows, flushed and read until they are warm; 4 GB for each side. Cold: many rows, flushed; 64 MB for Messina's caches, a file cache of
32 MB for Cassandra, whose heap stays 4 GB (a smaller one would measure its collector), and the kernel's page cache is dropped every half a
second, since Cassandra reads through it and Messina past it. The limit of cold reads is what `fio` gets out of the same disk with as many reads of 16 KiB under way.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import cql
from cql import CLIENT_CORE, REPO, SERVER_CORE, nodes

RESULTS = REPO / "bench" / "results" / "reads-vs-cassandra.ndjson"
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=int, default=30, metavar="S", help="of each measurement (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=30, metavar="S", help="a round of warming up before each measurement (default: %(default)s)")
    parser.add_argument("--hot-rows", type=int, default=200_000, help="(default: %(default)s)")
    parser.add_argument("--cold-rows", type=int, default=3_000_000, help="(default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=128, help="requests under way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of both sides (default: %(default)s)")
    parser.add_argument("--only", choices=["messina", "cassandra"])
    parser.add_argument("--what", choices=["hot", "cold"])
    options = parser.parse_args()
    cql.RESULTS = RESULTS
    latte = cql.install_latte()
    figures = []
    for round_number in range(options.rounds):
        for what in ["hot", "cold"]:
            for side in ["messina", "cassandra"]:
                if options.only in (None, side) and options.what in (None, what):
                    figures.append(measure(side, what, latte, options, round_number))
    for what in ["hot", "cold"]:
        compare(what, figures)
    limit = fio(options)
    if limit:
        print(f"the disk alone: {limit:.0f} reads of 16 KiB a second (fio)", flush=True)


def measure(side, what, latte, options, round_number):
    home = Path(os.environ.get("BENCH_DIR", REPO / ".cache" / "bench")) / f"reads-{side}"
    shutil.rmtree(home, ignore_errors=True)
    options.rows = options.hot_rows if what == "hot" else options.cold_rows
    if side == "messina":
        memory = "4G" if what == "hot" else "64M"
        node = nodes.Messina(home, cpus=SERVER_CORE, flags=["--smp", "1", "--memory", memory], profile="dist")
    else:
        node = nodes.Cassandra(home, cpus=SERVER_CORE, latest=True, heap="4G")
        if what == "cold":
            with (home / "cassandra.yaml").open("a") as settings:
                settings.write("file_cache_size: 32MiB\n")
    try:
        ready_s = node.start()
        address = f"{nodes.HOST}:{node.port}"
        patience = ["--request-timeout", "30s", "--consistency", "LOCAL_ONE"]

        def run(command, *arguments):
            words = [str(latte), command, "-P", f"rows={options.rows}", *patience, *map(str, arguments), str(REPO / "bench" / "reads.rn"), address]
            done = subprocess.run(["taskset", "-c", CLIENT_CORE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(words)}\n{done.stdout[-3000:]}\n{node.tail()}")

        run("schema")
        run("load", "-q")
        node.nodetool("flush", "bench")
        with Dropping(what == "cold"):
            def load(seconds):
                output = home / "load.json"
                cpu_s = node.cpu_s()
                run("run", "-q", "-f", "read", "-p", options.concurrency, "-w", "1", "-d", f"{seconds}s", "-o", output)
                return json.loads(output.read_text()), node.cpu_s() - cpu_s

            warmed = cql.warm_up(lambda: cql.ops_per_s(load(options.warmup)[0]))
            result, cpu_s = load(options.duration)
        return cql.figure(side, what, result, cpu_s, ready_s, node.resident_bytes(), options, round_number, warmed)
    finally:
        node.kill()
        shutil.rmtree(home, ignore_errors=True)


class Dropping:
    """Drops the kernel's page cache again and again, if it is to."""

    def __init__(self, drops):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run) if drops else None
        if drops and not os.access(DROP_CACHES, os.W_OK):
            raise SystemExit(f"cold reads need the right to write to {DROP_CACHES}: run as root, or with --what hot")

    def run(self):
        while not self.over.wait(0.5):
            DROP_CACHES.write_text("1")

    def __enter__(self):
        if self.thread:
            self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        if self.thread:
            self.thread.join()


def compare(what, figures):
    """How many times as much, of the medians."""
    median = {}
    for side in ["messina", "cassandra"]:
        lines = sorted((line for line in figures if line["workload"] == what and line["side"].startswith(side)), key=lambda line: line["ops_per_s"])
        if lines:
            median[side] = lines[len(lines) // 2]
    if len(median) == 2:
        ours, theirs = median["messina"], median["cassandra"]
        print(f"{what}: {ours['ops_per_s'] / theirs['ops_per_s']:.2f} times the reads/s, p99 {ours['p99_ms']:.2f} to {theirs['p99_ms']:.2f} ms, "
              f"server CPU per read 1 to {theirs['server_cpu_us_per_op'] / ours['server_cpu_us_per_op']:.1f}", flush=True)


def fio(options):
    """Reads a second of the disk below the benchmark's directory; None without fio."""
    if not shutil.which("fio"):
        print("fio is not installed (Debian: apt-get install fio): no limit of the disk", file=sys.stderr, flush=True)
        return None
    home = Path(os.environ.get("BENCH_DIR", REPO / ".cache" / "bench"))
    home.mkdir(parents=True, exist_ok=True)
    file = home / "fio"
    try:
        command = ["fio", "--name=limit", "--rw=randread", "--direct=1", "--time_based", "--runtime=10", "--bs=16k", "--size=1g", "--ioengine=libaio",
                   f"--iodepth={options.concurrency}", f"--filename={file}", "--output-format=json"]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        iops = json.loads(said)["jobs"][0]["read"]["iops"]
    finally:
        file.unlink(missing_ok=True)
    with RESULTS.open("a") as results:
        results.write(json.dumps({"side": "fio", "workload": "cold", "ops_per_s": round(iops), "concurrency": options.concurrency}) + "\n")
    return iops


if __name__ == "__main__":
    main()
