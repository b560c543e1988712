#!/usr/bin/env bash
# How long does a node take from its start in an empty directory to its first answered query, and how much memory has it then?
#
# Five starts with default settings (release build); a query by `messina shell`, tried every few milliseconds from the start on. Prints each, and appends
# the median to bench/results/start.ndjson: date, commit, cores, first_answer_ms, resident_mb (two seconds later), binary_bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release --locked
python3 - <<'PYTHON'
import datetime, json, os, pathlib, shutil, statistics, subprocess, tempfile, time

binary = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "release" / "messina"
PORT = "9342"
FLAGS = ["--native-transport-port", PORT, "--api-port", "9343", "--prometheus-port", "0", "--set", "native_shard_aware_transport_port=0"]

def once():
    home = tempfile.mkdtemp(prefix="messina-start-", dir=".")
    begin_s = time.monotonic()
    node = subprocess.Popen([binary, "--data-dir", home, *FLAGS], stderr=subprocess.DEVNULL)
    try:
        query = [binary, "shell", "127.0.0.1", PORT, "-e", "SELECT key FROM system.local"]
        while subprocess.run(query, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            if node.poll() is not None or time.monotonic() - begin_s > 30:
                raise SystemExit("the node did not start")
            time.sleep(0.002)
        first_answer_ms = (time.monotonic() - begin_s) * 1000
        time.sleep(2)
        status = pathlib.Path(f"/proc/{node.pid}/status").read_text()
        resident_mb = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    finally:
        node.terminate()
        node.wait()
        shutil.rmtree(home)
    print(f"{first_answer_ms:.0f} ms to the first answer, {resident_mb:.1f} MB resident")
    return first_answer_ms, resident_mb

runs = [once() for _ in range(5)]
commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
line = {
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "commit": commit,
    "cores": len(os.sched_getaffinity(0)),
    "first_answer_ms": round(statistics.median(run[0] for run in runs)),
    "resident_mb": round(statistics.median(run[1] for run in runs), 1),
    "binary_bytes": binary.stat().st_size,
}
results = pathlib.Path("bench/results/start.ndjson")
with results.open("a") as file:
    file.write(json.dumps(line) + "\n")
print(json.dumps(line))
PYTHON
