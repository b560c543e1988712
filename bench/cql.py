#!/usr/bin/env python3
"""Messina and Apache Cassandra 5.0, in turn on core 0, under the same load from `latte` on core 1.

Messina: cargo's profile `dist`, `--smp 1`, 4 GB for memtables and cache. Cassandra: from Maven, G1, a heap of 4 GB, the values of its
cassandra_latest.yaml. Both keep a commit log with periodic sync, as they come, on the same disk. Each side gets rows to read, then
rounds of the same load until its figures stop improving (a JVM compiles while it runs), then a measurement of writes; the same for reads. Server CPU is user and system time of the process, from /proc, over the measurement.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests" / "drivers"))
import nodes  # noqa: E402

LATTE = "0.29.0"
RESULTS = REPO / "bench" / "results" / "cql-vs-cassandra.ndjson"
SERVER_CORE, CLIENT_CORE = "0", "1"
# A round is better than those before if it has so many times their operations; after so many rounds the measurement begins anyway, and says so.
WARM_GAIN = 1.03
WARM_ROUNDS_MAX = 12


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=int, default=30, metavar="S", help="of each measurement (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=30, metavar="S", help="a round of warming up before each measurement (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=200_000, help="that reads choose from (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=128, help="requests under way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of both sides (default: %(default)s)")
    parser.add_argument("--only", choices=["messina", "cassandra"])
    options = parser.parse_args()
    latte = install_latte()
    figures = []
    for round_number in range(options.rounds):
        for side in ["messina", "cassandra"]:
            if options.only in (None, side):
                figures += measure(side, latte, options, round_number)
    report(figures)


def install_latte():
    root = REPO / ".cache" / "bench" / f"latte-{LATTE}"
    binary = root / "bin" / "latte"
    if not binary.exists():
        print(f"installing latte {LATTE} (once)", file=sys.stderr, flush=True)
        subprocess.run(["cargo", "install", f"latte-cli@{LATTE}", "--locked", "--root", root], check=True)
    return binary


def measure(side, latte, options, round_number):
    home = Path(os.environ.get("BENCH_DIR", REPO / ".cache" / "bench")) / f"data-{side}"
    shutil.rmtree(home, ignore_errors=True)
    if side == "messina":
        node = nodes.Messina(home, cpus=SERVER_CORE, flags=["--smp", "1", "--memory", "4G"], profile="dist")
    else:
        node = nodes.Cassandra(home, cpus=SERVER_CORE, latest=True, heap="4G")
    figures = []
    try:
        ready_s = node.start()
        address = f"{nodes.HOST}:{node.port}"
        workload = str(REPO / "bench" / "cql.rn")
        params = ["-P", f"rows={options.rows}"]
        patience = ["--request-timeout", "30s", "--consistency", "LOCAL_ONE"]  # a pause of the JVM is not to end the run

        def run(command, *arguments):
            whole = ["taskset", "-c", CLIENT_CORE, str(latte), command, *params, *patience, *map(str, arguments), workload, address]
            done = subprocess.run(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home)
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(whole)}\n{done.stdout[-3000:]}\n{node.tail()}")

        run("schema")
        run("load", "-q")
        cycle = 0

        def load(what, seconds):
            nonlocal cycle
            output = home / f"{what}.json"
            cpu_s = node.cpu_s()
            run("run", "-q", "-f", what, "-p", options.concurrency, "-w", "1", "-d", f"{seconds}s", "--start-cycle", cycle, "-o", output)
            cpu_s = node.cpu_s() - cpu_s
            result = json.loads(output.read_text())
            cycle += result["result"]["cycle_count"] + 1000
            return result, cpu_s

        for what in ["write", "read"]:
            warmed = warm_up(lambda: ops_per_s(load(what, options.warmup)[0]))
            result, cpu_s = load(what, options.duration)
            figures.append(figure(side, what, result, cpu_s, ready_s, node.resident_bytes(), options, round_number, warmed))
    finally:
        node.kill()
    shutil.rmtree(home, ignore_errors=True)
    return figures


def ops_per_s(report):
    return report["result"]["request_count"] / report["result"]["elapsed_time_s"]


def warm_up(run_round):
    """Runs rounds until two in a row are no better than the best before them by WARM_GAIN; what each had, in operations a second."""
    rounds, best, flat = [], 0.0, 0
    while flat < 2 and len(rounds) < WARM_ROUNDS_MAX:
        rounds.append(round(run_round()))
        flat = flat + 1 if rounds[-1] <= best * WARM_GAIN else 0
        best = max(best, rounds[-1])
    if flat < 2:
        print(f"still improving after {WARM_ROUNDS_MAX} rounds of warming up: {rounds}", file=sys.stderr, flush=True)
    return {"warm": flat >= 2, "rounds_ops_per_s": rounds}


def figure(side, what, report, cpu_s, ready_s, resident_bytes, options, round_number, warmed):
    result, percents = report["result"], [round(percent, 4) for percent in report["percentiles"]]
    if result["error_count"]:
        raise SystemExit(f"{side} {what}: {result['error_count']} errors, like {result['errors'][:2]}")
    latency = result["request_latency"]["percentiles"]

    def percentile(percent):
        return round(latency[percents.index(percent)]["value"], 3)

    line = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": said("git", "rev-parse", "--short=12", "HEAD"),
        "side": side if side == "messina" else f"cassandra {nodes.toolchain.RELEASES['5.0']}",
        "build": "" if side != "messina" else "as given" if "BINARY_UNDER_TEST" in os.environ else "dist",
        "workload": what,
        "round": round_number,
        "ops_per_s": round(result["request_count"] / result["elapsed_time_s"]),
        "p50_ms": percentile(50.0),
        "p99_ms": percentile(99.0),
        "server_cpu_us_per_op": round(cpu_s * 1e6 / result["request_count"], 2),
        "client_cpu": round(result["cpu_time_s"] / result["elapsed_time_s"], 2),
        "duration_s": options.duration,
        "warm": warmed["warm"],
        "warm_up_ops_per_s": warmed["rounds_ops_per_s"],
        "concurrency": options.concurrency,
        "rows": options.rows,
        "ready_s": round(ready_s, 3),
        "resident_mb": round(resident_bytes / 1e6),
        "load_average": round(os.getloadavg()[0], 1),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{line['side']:16} {what:6} {line['ops_per_s']:8} ops/s  p50 {line['p50_ms']:7.3f} ms  p99 {line['p99_ms']:7.3f} ms  "
          f"server {line['server_cpu_us_per_op']:7.2f} us CPU/op  client {line['client_cpu']:4.0%} of its core", flush=True)
    return line


def report(figures):
    """How many times as much, per workload, of the medians."""
    for what in ["write", "read"]:
        median = {}
        for side in ["messina", "cassandra"]:
            lines = sorted((line for line in figures if line["workload"] == what and line["side"].startswith(side)), key=lambda line: line["ops_per_s"])
            if lines:
                median[side] = lines[len(lines) // 2]
        if len(median) == 2:
            ours, theirs = median["messina"], median["cassandra"]
            print(f"{what}: {ours['ops_per_s'] / theirs['ops_per_s']:.2f} times the ops/s, p99 {ours['p99_ms']:.2f} to {theirs['p99_ms']:.2f} ms, "
                  f"server CPU per operation 1 to {theirs['server_cpu_us_per_op'] / ours['server_cpu_us_per_op']:.1f}", flush=True)


def said(*command):
    return subprocess.run(command, cwd=REPO, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
