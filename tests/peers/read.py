#!/usr/bin/env python3
"""Asks whether we read big tables as Cassandra wrote them, in every version that a Cassandra here writes.

Makes the big cases of samples.py (partitions of 30,000 rows, 30,000 partitions, every compressor with every chunk length) in
target/peers/corpus/, with what sstabledump prints of them, and runs the test that reads them in every way. The files are kept for the next run;
--anew makes them again. --rows 100000 takes three times as long.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import samples
from toolchain import REPO

HERE = Path(__file__).resolve().parent
CORPUS = REPO / "target" / "peers" / "corpus"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--anew", action="store_true", help="make the tables again")
    parser.add_argument("--rows", type=int, default=30_000, help="rows of the big partition, and partitions (default: %(default)s)")
    parser.add_argument("--release", action="store_true", help="read with an optimized build")
    options = parser.parse_args()
    for target in samples.TARGETS:
        whole = CORPUS / target / "complete"
        if whole.exists() and whole.read_text() == str(options.rows) and not options.anew:
            continue
        shutil.rmtree(CORPUS / target, ignore_errors=True)
        made = subprocess.run([sys.executable, HERE / "make_samples.py", "--big", str(options.rows), "--into", CORPUS, target]).returncode
        if made != 0:
            return made
        whole.write_text(str(options.rows))
    cargo = ["cargo", "test", "-p", "sstable", "--lib", *(["--release"] if options.release else []), "--", "--ignored", "--nocapture", "big_tables"]
    return subprocess.run(cargo, cwd=REPO).returncode


if __name__ == "__main__":
    sys.exit(main())
