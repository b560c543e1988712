#!/usr/bin/env python3
"""Writes SSTables from random schemas and data and asks Apache Cassandra's own tools whether they are sound and hold what was written.

The generator (crates/sstable/examples/peer_case) makes one case of fixed tables and one of random tables for each seed: some seeds that
are always the same, and a fresh one, which is printed. Then, of every SSTable,
  - sstableverify -e, sstabledump, sstablemetadata and a node that queries it must have no complaint (verify.py; one verdict per case);
  - the JSON that sstabledump prints must equal the dump of the writes themselves, which never saw an SSTable;
  - and so must the dump of what our own reader reads.
At last the harness is tested itself (selftest.py): that damage is found, and that the samples of a real Cassandra pass.

The cases stay in target/peers/<series>/. The last line is `N passed, N failed`; the exit status is 0 if nothing failed, 2 if the
harness could not do its work.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import compare
from toolchain import RELEASES, REPO

HERE = Path(__file__).resolve().parent

#: Fields that depend on the file's layout, on the clock, and on the release.
IGNORED = frozenset(["position", "expired", "table kind"])

SEEDS = range(1, 4)


class Trouble(Exception):
    """What stops the run without being a verdict."""


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def count(self, good):
        self.passed += bool(good)
        self.failed += not good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=seeds, metavar="A..B", help="random cases of these seeds, B included, and no fresh one "
                        f"(default: {SEEDS[0]}..{SEEDS[-1]} and a fresh one)")
    parser.add_argument("--cassandra", choices=sorted(RELEASES), default="4.1", help="whose tools (default: %(default)s)")
    parser.add_argument("--no-selftest", action="store_true", help="leave the tests of the harness out")
    options = parser.parse_args()
    chosen = options.seeds
    if chosen is None:
        fresh = random.SystemRandom().randrange(1 << 32)
        print(f"fresh seed {fresh} (again: tests/peers/run.sh --cassandra {options.cassandra} --seeds {fresh}..{fresh})", flush=True)
        chosen = [*SEEDS, fresh]
    tally = Tally()
    try:
        cases = generate(REPO / "target" / "peers" / options.cassandra, chosen, options.cassandra)
        judge(cases, options.cassandra, tally)
        for case in cases:
            compare_dumps(case, tally)
        if not options.no_selftest:
            selftest(options.cassandra, tally)
    except Trouble as trouble:
        print(f"peers: {trouble}", file=sys.stderr)
        return 2
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


def seeds(text):
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if not match or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A up to B, like 1..3")
    return range(int(match[1]), int(match[2]) + 1)


def step(what, started):
    print(f"peers: {what}, {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def generate(root, chosen, series):
    """Builds the generator and makes the cases anew."""
    started = time.monotonic()
    cargo = ["cargo", "run", "-q", "-p", "sstable", "--example", "peer_case", "--"]
    if root.exists():
        shutil.rmtree(root)
    vectors = [] if series == "4.1" else ["--vectors"]
    wanted = [(root / "fixed", ["fixed", "1"])]
    wanted += [(root / f"seed_{seed}", ["random", str(seed), *vectors]) for seed in chosen]
    for directory, arguments in wanted:
        done = subprocess.run([*cargo, directory, *arguments], cwd=REPO, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Trouble(f"the generator failed ({done.returncode}): {' '.join(map(str, [*cargo, directory, *arguments]))}")
        sstables = done.stdout.splitlines()
        if not sstables:
            raise Trouble(f"{directory}: the generator wrote no SSTable")
    step(f"{len(wanted)} cases generated", started)
    return [directory for directory, _ in wanted]


def judge(cases, series, tally):
    """The tools' verdicts, all cases in one run."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, HERE / "verify.py", "--cassandra", series, "--raw-timestamps", *cases], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode not in (0, 1):
        raise Trouble(f"verify.py ended with {done.returncode}")
    verdicts = {line[6:].strip().rsplit(" (", 1)[0]: line.startswith("ok") for line in done.stdout.splitlines() if line.startswith(("ok ", "FAILED "))}
    for case in cases:
        if str(case) not in verdicts:
            raise Trouble(f"verify.py gave no verdict on {case}")
        tally.count(verdicts[str(case)])
    if (done.returncode == 0) != all(verdicts.values()):
        raise Trouble(f"verify.py ended with {done.returncode}, which its verdicts do not explain")
    step("judged", started)


def compare_dumps(case, tally):
    """What Cassandra exported and what we read, each SSTable against what was written."""
    written = sorted(path.relative_to(case / "written") for path in (case / "written").glob("*/*.json"))
    if len(written) != len(list((case / "data").rglob("*-Data.db"))):
        raise Trouble(f"{case}/written has {len(written)} dumps, data has other SSTables")
    for name in written:
        for other in ["out", "read"]:
            try:
                good = compare.compare(case / "written" / name, case / other / name, IGNORED, Decimal.__eq__, limit=5)
            except compare.NotComparable as error:
                print(error)
                good = False
            tally.count(good)


def selftest(series, tally):
    """The harness's own tests, one verdict each."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, HERE / "selftest.py", "--cassandra", series], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ran = re.search(r"^Ran (\d+) tests? in ", done.stdout, re.MULTILINE)
    if not ran or int(ran[1]) == 0:
        raise Trouble(f"selftest.py ran no test:\n{done.stdout}")
    failed = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stdout)))
    if failed or done.returncode != 0:
        print(done.stdout)
        failed = failed or 1
    tally.passed += int(ran[1]) - failed
    tally.failed += failed
    step("harness tested", started)


if __name__ == "__main__":
    sys.exit(main())
