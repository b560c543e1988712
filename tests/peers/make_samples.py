#!/usr/bin/env python3
"""Makes testdata/cassandra-*/: SSTables that Cassandra itself wrote, with what its sstabledump says of them.

Each case of samples.py is a schema and a list of CQL statements. The statements run in a real Cassandra (java/messina/peers/MakeSamples.java:
its executor, its memtables, its flush) under a fixed clock, so another run gives the same data; only host and counter ids, commit log
positions and the like inside Statistics.db differ, and the time uuids of list cells. The statements are kept beside the SSTables as statements.cql,
in the folder of the oldest Cassandra that has the case.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import samples
from toolchain import REPO, Toolchain, Trouble, say

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"which to make: {', '.join(samples.TARGETS)} (default: all)")
    parser.add_argument("--into", type=Path, default=REPO / "testdata", help="where the targets' folders are (default: %(default)s)")
    parser.add_argument("--case", action="append", help="only this case, and leave the others as they are; may be repeated")
    parser.add_argument("--byte-comparable", action="store_true", help="only testdata/byte_comparable/: values as Cassandra 5.0's tries have them")
    parser.add_argument("--big", type=int, metavar="ROWS", help="the big cases, with so many rows or partitions in a table; not into testdata/")
    options = parser.parse_args()
    unknown = set(options.targets) - set(samples.TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    try:
        if options.byte_comparable:
            return byte_comparable(options.into / "byte_comparable")
        for target in options.targets or samples.TARGETS:
            series, config, index_size, cases = samples.TARGETS[target]
            chosen = samples.big(options.big) if options.big else [make() for make in cases]
            if options.case:
                chosen = [case for case in chosen if case.name in options.case]
            if chosen and make(options.into / target, series, config, index_size, chosen) != 0:
                return 1
    except Trouble as trouble:
        print(f"peers: {trouble}", file=sys.stderr)
        return 2
    return 0


def make(into, series, config, index_size, cases):
    """Makes the cases anew in the folder `into`. Returns the status of the tools that judge them."""
    toolchain = Toolchain(series)
    # The index size is Cassandra's configuration: cases that share one share a process.
    for size in sorted({case.index_size or index_size for case in cases}):
        write(toolchain, into, [f"column_index_size: {size}", "flush_compression: table", *config], [case for case in cases if (case.index_size or index_size) == size])
    # What Cassandra's dump says of each; the times as numbers, so that nothing depends on the formatting of dates.
    places = [str(into / case.name) for case in cases]
    extra = [argument for line in config for argument in ("--config", line)]
    status = subprocess.run([sys.executable, HERE / "verify.py", "--cassandra", series, "--out", "expected", "--raw-timestamps", *extra, *places]).returncode
    if status != 0:
        return status
    # Only what the SSTables decide is kept, not where and how fast the tools ran.
    for place in places:
        for file in [*Path(place).rglob("verify.txt"), Path(place, "expected", "summary.json")]:
            file.unlink()
        for file in Path(place).rglob("*.metadata.txt"):
            file.write_text(re.sub(r"^SSTable: .*/", "SSTable: ", file.read_text()))
    say(f"{len(cases)} cases in {into}")
    return 0


def byte_comparable(into):
    """Encodes the values of values.txt, and some numbers. Returns the status of the encoder."""
    home = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        toolchain = Toolchain("5.0")
        toolchain.write_home(home)
        command = toolchain.command(home, "messina.peers.ByteComparableSamples", into / "values.txt")
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            (into / "cassandra-5.0.txt").write_text(done.stdout.replace(" , ", ","))
        return done.returncode
    finally:
        shutil.rmtree(home)


def write(toolchain, into, config, cases):
    """Runs the cases' statements in one Cassandra and keeps the files that it flushed."""
    home = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        toolchain.write_home(home, extra="".join(f"{line}\n" for line in config))
        plan = []
        schemas = []
        for case in cases:
            schemas.append(home / f"{case.name}.schema.cql")
            schemas[-1].write_text("".join(f"{statement};\n" for statement in case.schema))
            statements = home / f"{case.name}.statements.cql"
            statements.write_text("".join(f"{statement};\n" for statement in case.statements))
            plan.append(f"write\t{statements}\n")
        (home / "plan").write_text("\t".join(["schema", *map(str, schemas)]) + "\n" + "".join(plan))
        with open(home / "log", "wb") as log:
            status = subprocess.run(toolchain.command(home, "messina.peers.PeerTools", home / "plan", home / "results"), stdout=log,
                                    stderr=subprocess.STDOUT, cwd=home).returncode
        if status != 0:
            raise Trouble(f"Cassandra could not write the samples:\n{(home / 'log').read_text()[-6000:]}")
        for case in cases:
            place = into / case.name
            if place.exists():
                shutil.rmtree(place)
            place.mkdir(parents=True)
            shutil.copy(home / f"{case.name}.schema.cql", place / "schema.cql")
            if is_oldest(into.name, case):
                shutil.copy(home / f"{case.name}.statements.cql", place / "statements.cql")
            for directory in (home / "data" / case.name).iterdir():
                shutil.copytree(directory, place / "data" / case.name / directory.name, ignore=shutil.ignore_patterns("backups"))
    finally:
        shutil.rmtree(home)


def is_oldest(target, case):
    """Whether this target is the first that has the case."""
    have = [name for name, (_, _, _, makes) in samples.TARGETS.items() if any(make.__name__ == case.name for make in makes)]
    return not have or have[0] == target


if __name__ == "__main__":
    sys.exit(main())
