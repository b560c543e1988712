#!/usr/bin/env python3
"""The checks of cqlsh (PyPI), as a person or a script would use it: `cqlsh_checks.py HOST:PORT CQLSH...` (the command that starts it)."""

import csv
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HOST, PORT = sys.argv[1].rsplit(":", 1)
CQLSH = sys.argv[2:]
KEYSPACE = "by_cqlsh"
WORK = Path(tempfile.mkdtemp(prefix="cqlsh-"))
ROWS = 3000
DIALECT = {"doublequote": False, "escapechar": "\\"}  # what COPY reads and writes if nothing else is said


class Failed(Exception):
    pass


def cqlsh(statements, keyspace=KEYSPACE, fails=False):
    """What cqlsh prints for these statements; it must succeed, or fail and say why."""
    command = [*CQLSH, "--no-color", "--encoding", "utf-8", "--connect-timeout", "60", "--request-timeout", "120", HOST, PORT]
    if keyspace:
        command += ["-k", keyspace]
    done = subprocess.run([*command, "-e", statements], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, cwd=WORK)
    if fails != (done.returncode != 0):
        raise Failed(f"exit status {done.returncode} of {statements!r:.200}: {done.stdout[-300:]} {done.stderr[-600:]}")
    # It says so whenever the server's version is not to the letter the one it came with.
    return done.stderr if fails else re.sub(r"^WARNING: cqlsh was built against .*\n", "", done.stdout, flags=re.M)


def holds(condition, text):
    if not condition:
        raise Failed(f"not as it should be: {text!r:.1500}")


def table(text):
    """The rows of a table that cqlsh drew, as lists of texts."""
    lines = [line for line in text.splitlines() if " | " in line or line.strip()]
    rule = next(number for number, line in enumerate(lines) if re.fullmatch(r"-[-+]+", line.strip()))
    rows = []
    for line in lines[rule + 1 :]:
        if re.fullmatch(r"\(\d+ rows\)", line.strip()):
            return rows
        rows.append([cell.strip() for cell in line.split(" | ")])
    raise Failed(f"no number of rows at the end: {text[-200:]!r}")


def greeting():
    text = cqlsh("SHOW VERSION; SHOW HOST; DESCRIBE CLUSTER", keyspace=None)
    holds(re.search(r"cqlsh \S+ \| \S.* \| CQL spec [\d.]+ \| Native protocol v\d", text), text)
    holds(f"{HOST}:{PORT}" in text and "Murmur3Partitioner" in text, text)


def create():
    cqlsh(f"""DROP KEYSPACE IF EXISTS {KEYSPACE};
        CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
        USE {KEYSPACE};
        CREATE TYPE address (street text, zip int);
        CREATE TABLE people (id int PRIMARY KEY, name text, born date, mails set<text>, marks map<text, int>, steps list<frozen<tuple<int, text>>>, home frozen<address>,
            seen timestamp, raw blob, rate decimal, ok boolean) WITH comment = 'people''s table' AND gc_grace_seconds = 1000;
        CREATE TABLE wide (k int, c int, s text STATIC, v text, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC);
        CREATE TABLE hits (page text PRIMARY KEY, n counter)""", keyspace=None)
    cqlsh("""INSERT INTO people (id, name, born, mails, marks, steps, home, seen, raw, rate, ok) VALUES (1, 'Ann "O''Neil"', '1980-02-29', {'b@x', 'a@x'}, {'one': 1},
        [(1, 'a'), (2, null)], {street: 'Via 1', zip: 98100}, '2023-11-14 22:13:20.123+0000', 0xcafe, -1.50, true); INSERT INTO people (id) VALUES (2)""")


def select():
    rows = table(cqlsh("SELECT id, name, born, mails, marks, steps, home, seen, raw, rate, ok FROM people"))
    by_id = {row[0]: row for row in rows}
    holds(by_id["1"][1:] == ['Ann "O\'Neil"', "1980-02-29", "{'a@x', 'b@x'}", "{'one': 1}", "[(1, 'a'), (2, None)]", "{street: 'Via 1', zip: 98100}",
                             "2023-11-14 22:13:20.123000+0000", "0xcafe", "-1.50", "True"], by_id["1"])
    holds(by_id["2"][1:] == ["null"] * 10, by_id["2"])
    text = cqlsh("EXPAND ON; SELECT id, name FROM people WHERE id = 2")
    holds("@ Row 1" in text and re.search(r"id\s+\| 2", text), text)


def errors():
    holds("SyntaxException" in cqlsh("SELEC 1", fails=True), "SyntaxException")
    holds("InvalidRequest" in cqlsh("SELECT * FROM nothing", fails=True), "InvalidRequest")
    holds("InvalidRequest" in cqlsh("SELECT * FROM people WHERE name = 'x'", fails=True), "InvalidRequest")


def paging():
    insert = "".join(f"INSERT INTO wide (k, c, v) VALUES (1, {c}, 'v{c}'); " for c in range(120))
    cqlsh(insert + "UPDATE wide SET s = 'static' WHERE k = 1")
    for size in [1, 7, 119, 120, 121]:
        text = cqlsh(f"PAGING {size}; SELECT c, v FROM wide WHERE k = 1")
        found = re.findall(r"^\s*(\d+) \|\s*v(\d+)$", text, re.M)
        holds([(str(c), str(c)) for c in range(119, -1, -1)] == found, text)
    holds(table(cqlsh("PAGING OFF; SELECT COUNT(*) FROM wide")) == [["120"]], "COUNT")


def consistency_and_tracing():
    text = cqlsh("CONSISTENCY QUORUM; SERIAL CONSISTENCY LOCAL_SERIAL; SELECT id FROM people WHERE id = 1; CONSISTENCY")
    holds("Consistency level set to QUORUM" in text and "Current consistency level is QUORUM" in text, text)


def counters():
    cqlsh("UPDATE hits SET n = n + 5 WHERE page = '/'; UPDATE hits SET n = n - 2 WHERE page = '/'")
    holds(table(cqlsh("SELECT page, n FROM hits")) == [["/", "3"]], "counter")


def describe_and_source():
    """What DESCRIBE prints is CQL that makes the same again."""
    text = cqlsh(f"DESCRIBE KEYSPACE {KEYSPACE}")
    for part in [f"CREATE KEYSPACE {KEYSPACE}", f"CREATE TYPE {KEYSPACE}.address", f"CREATE TABLE {KEYSPACE}.people", "people''s table", "CLUSTERING ORDER BY (c DESC)"]:
        holds(part in text, f"{part} is not in {text}")
    file = WORK / "schema.cql"
    file.write_text(text.replace(KEYSPACE, "sourced"))
    cqlsh("DROP KEYSPACE IF EXISTS sourced", keyspace=None)
    cqlsh(f"SOURCE '{file}'", keyspace=None)
    again = cqlsh("DESCRIBE KEYSPACE sourced", keyspace=None)
    holds(again.replace("sourced", KEYSPACE) == text, f"{text}\n-- is not --\n{again}")
    cqlsh("DROP KEYSPACE sourced", keyspace=None)
    holds("people" in cqlsh("DESCRIBE TABLES"), "DESCRIBE TABLES")
    holds("address" in cqlsh("DESCRIBE TYPES"), "DESCRIBE TYPES")
    holds("CREATE TABLE" in cqlsh("DESCRIBE TABLE people"), "DESCRIBE TABLE")
    holds("CREATE TYPE" in cqlsh("DESCRIBE TYPE address"), "DESCRIBE TYPE")
    holds("system_schema" in cqlsh("DESCRIBE KEYSPACES"), "DESCRIBE KEYSPACES")
    holds("CREATE KEYSPACE" in cqlsh("DESCRIBE SCHEMA"), "DESCRIBE SCHEMA")


def copy():
    """COPY FROM and COPY TO: what went in comes out."""
    source, result = WORK / "in.csv", WORK / "out.csv"
    rows = [[str(k), f'text "{k}", naïve', f"{{'m{k}', 'n'}}", f"{{'x': {k}}}", str(k % 2 == 0), f"{k}.25"] for k in range(10, 10 + ROWS)]
    with source.open("w", newline="") as file:
        csv.writer(file, **DIALECT).writerows(rows)
    columns = "(id, name, mails, marks, ok, rate)"
    cqlsh("TRUNCATE people")
    text = cqlsh(f"COPY people {columns} FROM '{source}' WITH NUMPROCESSES = 1")
    holds(f"{ROWS} rows imported" in text, text)
    text = cqlsh(f"COPY people {columns} TO '{result}' WITH NUMPROCESSES = 1")
    holds(f"{ROWS} rows exported" in text, text)
    with result.open(newline="") as file:
        got = sorted(csv.reader(file, **DIALECT), key=lambda row: int(row[0]))
    for one, other in zip(rows, got):
        holds(one == other, f"{one} came back as {other}")
    holds(len(got) == ROWS, f"{len(got)} rows")


def end():
    cqlsh(f"DROP KEYSPACE {KEYSPACE}", keyspace=None)


def main():
    passed = failed = 0
    for check in [greeting, create, select, errors, paging, consistency_and_tracing, counters, describe_and_source, copy, end]:
        try:
            check()
        except Exception as error:  # noqa: BLE001  (any failure is a verdict)
            failed += 1
            print(f"FAIL cqlsh {check.__name__}: {type(error).__name__}: {error}", flush=True)
        else:
            passed += 1
            print(f"PASS cqlsh {check.__name__}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
