#!/usr/bin/env python3
"""Asks Cassandra's own tools about SSTables: sstableverify -e, sstabledump and sstablemetadata, on every SSTable of each case.

A case is a directory with
    schema.cql                              CREATE KEYSPACE, CREATE TYPE, CREATE TABLE ... WITH ID = <uuid>; names with their keyspace
    data/<keyspace>/<table>-<hex id>/       the SSTables, named as Cassandra names them
and gets
    out/<keyspace>.<table>/<generation>.json            what SSTableExport printed
    out/<keyspace>.<table>/<generation>.metadata.txt    what SSTableMetadataViewer printed
    out/<keyspace>.<table>/verify.txt                   what StandaloneVerifier printed
    out/summary.json                                    the verdict, and per table and SSTable the outcome of every tool

Beside the tools, a node reads each SSTable as queries do (java/messina/peers/ReadBack.java): by key, in reverse, row by row.

The tools run on a copy in a scratch home, so nothing here can change what it judges. Silence is not consent: a tool that exits with 0
but printed an error, skipped an SSTable, or counted other partitions than another tool fails the case (README.md says which of
them do that). The exit status is 0 if all cases passed, 1 if one did not, 2 if the harness could not do its work.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from toolchain import RELEASES, Toolchain, Trouble, say

VERIFIER = "org.apache.cassandra.tools.StandaloneVerifier"
EXPORT = "org.apache.cassandra.tools.SSTableExport"
READ_BACK = "messina.peers.ReadBack"
METADATA = "org.apache.cassandra.tools.SSTableMetadataViewer"

TABLE_DIR = re.compile(r"(?P<table>\w+)-(?P<id>[0-9a-f]{32})")
COMPONENT = re.compile(r"(?P<sstable>[a-z]{2}-(?P<generation>\w+)-(?:big|bti))-(?P<component>[A-Za-z]+\.(?:db|txt|crc32|sha1|adler32))")
KEYSPACE = re.compile(r'CREATE\s+KEYSPACE\s+(?:IF\s+NOT\s+EXISTS\s+)?("?\w+"?)', re.IGNORECASE)
SUCCEEDED = re.compile(r"Verify of [\w:]+\(path='([^']+)'\) succeeded\. All (\d+) rows read successfully")
READ = re.compile(r"^read back (\S+) (\d+)$", re.MULTILINE)

#: Where the reports keep how many partitions each tool met.
COUNTS = ["verified_partitions", "exported_partitions", "read_back_partitions"]

#: How much of a tool's complaint goes into a problem.
MOST_LINES = 8


class SSTable:
    """One SSTable of a table: its file name prefix, its components, and what the tools said of it."""

    def __init__(self, name, generation):
        self.name = name
        self.generation = generation
        self.components = set()
        self.report = {"sstable": name}


class Table:
    """A table directory of a case."""

    def __init__(self, keyspace, directory, match):
        self.keyspace = keyspace
        self.name = match["table"]
        self.id = match["id"]
        self.directory = directory
        self.sstables = []
        self.problems = []
        self.report = {"keyspace": keyspace, "table": self.name, "id": self.id}
        found = {}
        for file in sorted(path for path in directory.iterdir() if path.is_file()):
            part = COMPONENT.fullmatch(file.name)
            if part is None:
                self.problems.append(f"{file}: not the name of an SSTable's component")
                continue
            sstable = found.setdefault(part["sstable"], SSTable(part["sstable"], part["generation"]))
            sstable.components.add(part["component"])
        self.sstables = list(found.values())
        for sstable in self.sstables:
            self._check_toc(sstable)

    def _check_toc(self, sstable):
        toc = self.directory / f"{sstable.name}-TOC.txt"
        if not toc.exists():
            self.problems.append(f"{toc}: missing")
            return
        listed = set(toc.read_text().split())
        if listed != sstable.components:
            self.problems.append(f"{toc}: lists {sorted(listed)}, the directory has {sorted(sstable.components)}")

    def where(self):
        return f"{self.keyspace}.{self.name}"


class Case:
    """A case directory, and what is wrong with it."""

    def __init__(self, directory, out_name):
        self.directory = Path(directory).resolve()
        self.schema = self.directory / "schema.cql"
        self.out = self.directory / out_name
        data = self.directory / "data"
        if not self.schema.is_file():
            raise Trouble(f"{self.schema}: missing; a case needs its CREATE statements")
        if not data.is_dir():
            raise Trouble(f"{data}: missing; put the SSTables into data/<keyspace>/<table>-<hex id>/")
        self.problems = []
        self.tables = []
        for keyspace in sorted(path for path in data.iterdir() if path.is_dir()):
            for directory in sorted(path for path in keyspace.iterdir() if path.is_dir()):
                match = TABLE_DIR.fullmatch(directory.name)
                if match:
                    self.tables.append(Table(keyspace.name, directory, match))
                else:
                    self.problems.append(f"{directory}: not named <table>-<32 hex digits>")
        if not any(table.sstables for table in self.tables):
            self.problems.append(f"{data}: no SSTable found, so nothing was verified")
        # Two cases that define the same keyspace cannot share a schema.
        self.keyspaces = {name.strip('"') if name.startswith('"') else name.lower() for name in KEYSPACE.findall(self.schema.read_text())}
        self.keyspaces |= {table.keyspace for table in self.tables}

    def all_problems(self):
        return self.problems + [problem for table in self.tables for problem in table.problems]


class Step:
    """One run of a tool's main in the driver, and the judgement of it."""

    def __init__(self, case, table, sstable, kind, main, args, stdout):
        self.case, self.table, self.sstable, self.kind = case, table, sstable, kind
        self.main, self.args, self.stdout = main, args, stdout
        self.stderr = stdout.with_name(stdout.name + ".stderr")
        self.outcome, self.millis = None, None

    def line(self):
        return "\t".join(["run", self.main, *map(str, [self.stdout, self.stderr, *self.args])])

    def judge(self):
        """Notes the outcome in the report, and what is wrong as problems of the table. Returns whether the tool was content."""
        said = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        # The tools write nothing else to standard error, but the literal command line has the JVM's own complaints.
        said = "".join(line for line in said.splitlines(keepends=True) if not line.startswith(("WARNING:", "OpenJDK 64-Bit")))
        report = {"outcome": self.outcome or "not run", "milliseconds": self.millis, "stderr": said}
        (self.sstable or self.table).report[self.kind] = report
        what = f"{self.kind} of {self.sstable.name if self.sstable else 'the table'}"
        content = self.outcome == "exit 0" and not said
        if not content:
            lines = said.splitlines()
            if self.kind == "verify":
                lines += [line for line in self.stdout.read_text(errors="replace").splitlines() if line.startswith("WARNING:")]
            if len(lines) > MOST_LINES:
                lines[MOST_LINES:] = [f"... {len(lines) - MOST_LINES} more lines are in summary.json"]
            self.table.problems.append("\n".join([f"{self.table.where()}: {what}: {report['outcome']}", *("    " + line for line in lines)]))
        if self.stderr.exists():
            self.stderr.unlink()
        return content


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="See README.md beside this file.")
    parser.add_argument("cases", nargs="+", metavar="DIR", help="a case: schema.cql and data/<keyspace>/<table>-<hex id>/")
    parser.add_argument("--cassandra", choices=sorted(RELEASES), default="4.1", help="whose tools (default: %(default)s)")
    parser.add_argument("--config", action="append", default=[], metavar="LINE", help="a line for the cassandra.yaml of the scratch home; may be repeated")
    parser.add_argument("--out", default="out", metavar="NAME", help="folder for the results inside each case (default: %(default)s)")
    parser.add_argument("--raw-timestamps", action="store_true", help="sstabledump -t: times as numbers in strings, not as ISO 8601")
    parser.add_argument("--separate-jvms", action="store_true",
                        help="start every sstableverify as a command of its own (slower; the same main class either way)")
    parser.add_argument("--debug", action="store_true", help="sstableverify --debug: every partition, and the cause of a failure, in verify.txt")
    parser.add_argument("--keep-home", action="store_true", help="leave the scratch Cassandra home and say where it is")
    options = parser.parse_args()
    start = time.monotonic()
    try:
        toolchain = Toolchain(options.cassandra)
        cases = [Case(directory, options.out) for directory in options.cases]
        ready = time.monotonic()
        for case in cases:
            if case.out.exists():
                shutil.rmtree(case.out)
            case.out.mkdir()
        for batch in batches(cases):
            run_batch(toolchain, batch, options)
        good = [finish(toolchain, case) for case in cases]
    except Trouble as trouble:
        print(f"peers: {trouble}", file=sys.stderr)
        return 2
    sstables = sum(len(table.sstables) for case in cases for table in case.tables)
    say(f"Cassandra {toolchain.release}, Java {toolchain.java_major}: {sum(good)} of {len(cases)} cases passed, {sstables} SSTables, "
        f"{time.monotonic() - ready:.1f} s after {ready - start:.1f} s of setting up")
    return 0 if all(good) else 1


def batches(cases):
    """Cases that can share a schema go into one batch: first fit by keyspace."""
    found = []
    for case in cases:
        for taken, batch in found:
            if not taken & case.keyspaces:
                taken |= case.keyspaces
                batch.append(case)
                break
        else:
            found.append((set(case.keyspaces), [case]))
    return [batch for _, batch in found]


def run_batch(toolchain, cases, options):
    """Lays the cases out in a scratch home and runs all tools on them."""
    home = Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        toolchain.write_home(home, extra="".join(f"{line}\n" for line in options.config))
        verify, export, read_back = [], [], []
        for case in cases:
            for table in case.tables:
                if not table.sstables:
                    continue
                out = case.out / table.where()
                out.mkdir()
                shutil.copytree(table.directory, home / "data" / table.keyspace / table.directory.name)
                # The export works on a copy of its own: not knowing the schema, it deletes the Summary.db of a table whose
                # min_index_interval or max_index_interval is not the default, and the verifier would miss it.
                copy = home / "export" / table.keyspace / table.directory.name
                shutil.copytree(table.directory, copy)
                flags = ["-e", "-f", *(["--debug"] if options.debug else [])]
                verify.append(Step(case, table, None, "verify", VERIFIER, [*flags, table.keyspace, table.name], out / "verify.txt"))
                for sstable in table.sstables:
                    data = copy / f"{sstable.name}-Data.db"
                    raw = ["-t"] if options.raw_timestamps else []
                    export.append(Step(case, table, sstable, "export", EXPORT, [data, *raw], out / f"{sstable.generation}.json"))
                    export.append(Step(case, table, sstable, "metadata", METADATA, [data], out / f"{sstable.generation}.metadata.txt"))
                read_back.append(Step(case, table, None, "read_back", READ_BACK, [table.keyspace, table.name], out / "read_back.txt"))
        # These two read everything they need from the SSTable, so they do not wait for the schema; and they set Cassandra up as a
        # client, the verifier as a tool, which one JVM does not do both of.
        exporting = start_driver(toolchain, home, "export", [step.line() for step in export])
        # The node that writes the schema also reads the SSTables as queries do, while it is there.
        node = start_driver(toolchain, home, "node", ["\t".join(["schema", *(str(case.schema) for case in cases)]), "open",
                                                      *(step.line() for step in read_back)])
        status = node.wait()
        take_results(home, "node", read_back, skip=2)
        if status != 0:
            exporting.wait()
            raise Trouble(f"the schema could not be set up, or the node ended early ({status}):\n{indent(driver_log(home, 'node'))}")
        # A node mends what it opens (a missing Summary.db, say), and the verifier shall see what was handed in.
        for table in (table for case in cases for table in case.tables if table.sstables):
            copy = home / "data" / table.keyspace / table.directory.name
            shutil.rmtree(copy)
            shutil.copytree(table.directory, copy)
        if options.separate_jvms:
            for step in verify:
                run_command(toolchain, home, step)
            drivers = [("export", exporting, export)]
        else:
            verifying = start_driver(toolchain, home, "verify", [step.line() for step in verify])
            drivers = [("export", exporting, export), ("verify", verifying, verify)]
        for name, process, steps in drivers:
            status = process.wait()
            take_results(home, name, steps)
            if status != 0:
                raise Trouble(f"the JVM of the {name} runs ended with {status} after "
                              f"{sum(step.outcome is not None for step in steps)} of {len(steps)} steps:\n{indent(driver_log(home, name))}")
        for step in export + verify + read_back:
            content = step.judge()
            if step.kind == "verify":
                judge_verifier(step, home)
            elif step.kind == "export" and content:
                judge_export(step)
            elif step.kind == "read_back":
                judge_read_back(step)
        for table in (table for case in cases for table in case.tables):
            for sstable in table.sstables:
                counts = {kind: sstable.report[kind] for kind in COUNTS if sstable.report.get(kind) is not None}
                if len(set(counts.values())) > 1:
                    table.problems.append(f"{table.where()}: {sstable.name}: the tools count different partitions: {counts}")
    finally:
        if options.keep_home:
            say(f"the Cassandra home is {home}")
        else:
            shutil.rmtree(home)


def start_driver(toolchain, home, name, plan):
    """Starts a JVM on the plan; its results go to <name>.results."""
    (home / f"{name}.plan").write_text("".join(line + "\n" for line in plan))
    with open(home / f"{name}.log", "wb") as log:
        command = toolchain.command(home, "messina.peers.PeerTools", home / f"{name}.plan", home / f"{name}.results")
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=home)


def run_command(toolchain, home, step):
    """Runs the tool of a step as a user would, in a JVM of its own."""
    begin = time.monotonic()
    with open(step.stdout, "wb") as out, open(step.stderr, "wb") as err:
        status = subprocess.run(toolchain.command(home, step.main, *step.args), stdout=out, stderr=err, cwd=home).returncode
    step.outcome, step.millis = f"exit {status}", int((time.monotonic() - begin) * 1000)


def take_results(home, name, steps, skip=0):
    results = home / f"{name}.results"
    for step, line in zip(steps, results.read_text().splitlines()[skip:] if results.exists() else []):
        outcome, millis = line.rsplit(" ", 1)
        step.outcome, step.millis = outcome, int(millis)


def driver_log(home, name):
    return (home / f"{name}.log").read_text(errors="replace")[-6000:]


def judge_verifier(step, home):
    """Each SSTable on disk must be named among those verified: the tool passes over files it does not see as complete."""
    table = step.table
    verified = {Path(path).name: int(rows) for path, rows in SUCCEEDED.findall(step.stdout.read_text(errors="replace"))}
    for sstable in table.sstables:
        rows = verified.get(f"{sstable.name}-Data.db")
        sstable.report["verified_partitions"] = rows
        if rows is None:
            table.problems.append(f"{table.where()}: {sstable.name}: sstableverify did not report success; see {step.stdout}")


def judge_read_back(step):
    """Each SSTable on disk must have been opened and read without a complaint."""
    read = {name: int(partitions) for name, partitions in READ.findall(step.stdout.read_text(errors="replace"))}
    for sstable in step.table.sstables:
        partitions = read.get(f"{sstable.name}-Data.db")
        sstable.report["read_back_partitions"] = partitions
        if partitions is None:
            step.table.problems.append(f"{step.table.where()}: {sstable.name}: a node did not read it back")
    step.stdout.unlink()


def judge_export(step):
    """The export must be JSON: the tool prints half an array when it meets damage."""
    try:
        partitions = json.loads(step.stdout.read_text())
    except ValueError as error:
        step.table.problems.append(f"{step.table.where()}: {step.sstable.name}: the export is not JSON: {error}")
        return
    step.sstable.report["exported_partitions"] = len(partitions)
    step.sstable.report["json"] = str(step.stdout.relative_to(step.case.out))


def finish(toolchain, case):
    """Writes the case's summary and prints its verdict. Returns whether it passed."""
    problems = case.all_problems()
    for table in case.tables:
        table.report["sstables"] = [sstable.report for sstable in table.sstables]
    summary = {
        "cassandra": toolchain.release,
        "java": toolchain.java_major,
        "ok": not problems,
        "problems": problems,
        "tables": [table.report for table in case.tables],
    }
    (case.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    sstables = sum(len(table.sstables) for table in case.tables)
    print(f"{'ok    ' if not problems else 'FAILED'} {case.directory} ({len(case.tables)} tables, {sstables} SSTables)")
    for problem in problems:
        print(indent(problem))
    return not problems


def indent(text):
    return "".join(f"    {line}" for line in text.rstrip("\n").splitlines(keepends=True))


if __name__ == "__main__":
    sys.exit(main())
