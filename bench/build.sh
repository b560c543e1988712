#!/usr/bin/env bash
# How long does a clean release build take, and how large is the binary?
#
# Builds `messina` into an empty directory, prints what it took, and appends one line to bench/results/build.ndjson:
# date, commit (with -dirty if files differ from it), cores, rustc, wall_s, cpu_s (user and system, all processes), binary_bytes.
# Crates are fetched before the clock starts. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=bench/results/build.ndjson
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
cargo fetch --locked

python3 - "$target" "$results" <<'PYTHON'
import datetime, json, os, pathlib, resource, subprocess, sys, time

target, results = map(pathlib.Path, sys.argv[1:])

def said(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

commit = said("git", "rev-parse", "--short=12", "HEAD")
if said("git", "status", "--porcelain", "--", ".", ":!bench/results"):
    commit += "-dirty"

def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

begin_s, begin_cpu_s = time.monotonic(), cpu_s()
subprocess.run(["cargo", "build", "--release", "--locked", "--offline", "-p", "messina"], check=True, env=dict(os.environ, CARGO_TARGET_DIR=str(target)))
line = {
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "commit": commit,
    "cores": len(os.sched_getaffinity(0)),
    "rustc": said("rustc", "--version"),
    "wall_s": round(time.monotonic() - begin_s, 1),
    "cpu_s": round(cpu_s() - begin_cpu_s, 1),
    "binary_bytes": (target / "release" / "messina").stat().st_size,
}
results.parent.mkdir(parents=True, exist_ok=True)
with results.open("a") as file:
    file.write(json.dumps(line) + "\n")
print(json.dumps(line))
PYTHON
