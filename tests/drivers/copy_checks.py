#!/usr/bin/env python3
"""COPY of `messina shell` against cqlsh's: `copy_checks.py HOST:PORT MESSINA CQLSH...`, the program `messina` and the command that starts cqlsh.

    copy_checks.py HOST:PORT MESSINA --rate ROWS CQLSH...    CPU seconds and rows per second of both, for a table of ROWS rows

Each check prints PASS or FAIL; the last line is `N passed, N failed`.
"""

import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTACT, MESSINA, *REST = sys.argv[1:]
HOST, PORT = CONTACT.rsplit(":", 1)
RATE_ROWS = None
if REST[0] == "--rate":
    RATE_ROWS, REST = int(REST[1]), REST[2:]
CQLSH = REST
KEYSPACE = "by_copy"
WORK = Path(tempfile.mkdtemp(prefix="copy-"))
TYPES = {
    "k": "int", "a": "ascii", "b": "blob", "bi": "bigint", "bo": "boolean", "da": "date", "de": "decimal", "d": "double", "f": "float", "i": "inet", "si": "smallint",
    "t": "text", "ti": "time", "ts": "timestamp", "tu": "timeuuid", "ty": "tinyint", "u": "uuid", "v": "varint", "li": "list<text>", "se": "set<int>",
    "ma": "map<text, frozen<list<double>>>", "tp": "tuple<int, text, boolean>", "ud": "frozen<address>", "ve": "vector<float, 3>", "sts": "set<timestamp>",
    "mi": "map<inet, uuid>", "lu": "list<frozen<address>>",
}
ROWS = [
    {"k": 1, "a": "'a,b'", "b": "0xcafe00", "bi": "-9223372036854775808", "bo": "true", "da": "'2026-11-24'", "de": "-1.50", "d": "3.14159265358979", "f": "0.1",
     "i": "'2001:db8::1'", "si": "-5", "t": "'say \"hi\", it''s \\ naïve 日本 🦀'", "ti": "'23:59:59.999999999'", "ts": "'2026-11-24 18:53:01.123+0000'",
     "tu": "62c36092-82a1-1a00-93d1-46196ee77204", "ty": "127", "u": "62c36092-82a1-3a00-93d1-46196ee77204", "v": "123456789012345678901234567890",
     "li": "['it''s', 'a, b', '[x', '\"q\"', 'b\\s']", "se": "{3, 1, 2}", "ma": "{'a': [1, 2.123456789], 'b: c': []}", "tp": "(1, 'x, y', false)",
     "ud": "{street: 'Elm ''5''', zip: 7}", "ve": "[1, -2.5, 0.1]", "sts": "{0, 1}", "mi": "{'::1': 62c36092-82a1-3a00-93d1-46196ee77204}",
     "lu": "[{street: 'a', zip: 1}, {street: 'b, {c', zip: 2}]"},
    {"k": 2},
    {"k": 3, "t": "''", "a": "' '", "d": "1e300", "f": "123456.789", "de": "1E+30", "ts": "-1", "bo": "false", "v": "-1", "ud": "{street: null, zip: null}", "bi": "1234567"},
    {"k": 4, "d": "-0.00001234", "f": "1e10", "de": "0.0000001", "t": "'tab\tline\nreturn\r\x01\x7f\xa0end'", "ts": "0", "li": "['\n', '\\n']"},
    {"k": 5, "d": "NaN", "f": "-Infinity", "da": "'0999-01-01'", "ti": "'00:00:00'", "b": "0x", "i": "'127.0.0.1'"},
]


class Failed(Exception):
    pass


def run(command, fails=False):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=1800, cwd=WORK)
    if fails != (done.returncode != 0):
        raise Failed(f"exit status {done.returncode} of {command[-1]!r:.300}: {done.stdout[-600:]} {done.stderr[-900:]}")
    return done.stdout + (done.stderr if fails else "")


def cqlsh(statements):
    return run([*CQLSH, "--no-color", "--encoding", "utf-8", "--connect-timeout", "60", "--request-timeout", "120", HOST, PORT, "-k", KEYSPACE, "-e", statements])


def shell(statements, fails=False, keyspace=KEYSPACE):
    return run([MESSINA, "shell", *(["-k", keyspace] if keyspace else []), CONTACT, "-e", statements], fails)


def holds(condition, text):
    if not condition:
        raise Failed(f"not as it should be: {text!s:.1500}")


def lines(path):
    """The records of a file, sorted: their order depends on the workers."""
    return sorted(Path(path).read_bytes().split(b"\r\n"))


def content(table):
    """What the table has, exactly."""
    text = run([MESSINA, "shell", CONTACT, "--format", "json", "-e", f"SELECT * FROM {KEYSPACE}.{table}"])
    return sorted(text.splitlines())


def fresh(*tables):
    columns = ", ".join(f"{name} {cql_type}" for name, cql_type in TYPES.items())
    for table in tables:
        shell(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns}, PRIMARY KEY (k))")


def create():
    shell(f"""DROP KEYSPACE IF EXISTS {KEYSPACE}; CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
        CREATE TYPE {KEYSPACE}.address (street text, zip int)""", keyspace=None)
    fresh("source")
    for row in ROWS:
        shell(f"INSERT INTO source ({', '.join(row)}) VALUES ({', '.join(map(str, row.values()))})")


def files_are_the_same():
    """COPY TO writes what cqlsh writes, byte for byte but for the order of rows."""
    for options in ["HEADER = true", "DELIMITER = '|' AND QUOTE = '''' AND ESCAPE = ''''", "NULL = '<null>' AND BOOLSTYLE = 'yes, no'",
                    "DECIMALSEP = '_'", "FLOATPRECISION = 9 AND DOUBLEPRECISION = 17", "DATETIMEFORMAT = '%Y/%m/%dT%H:%M:%S.%f%z'"]:
        cqlsh(f"COPY source TO '{WORK}/theirs' WITH NUMPROCESSES = 1 AND {options}")
        said = shell(f"COPY source TO '{WORK}/ours' WITH {options}")
        holds(f"{len(ROWS)} rows exported to 1 files" in said, said)
        for one, other in zip(lines(WORK / "theirs"), lines(WORK / "ours")):
            holds(one == other, f"{options}: cqlsh wrote {one}, the shell {other}")


def their_file_is_read():
    """A file of cqlsh gives the same table by both."""
    cqlsh(f"COPY source TO '{WORK}/theirs' WITH NUMPROCESSES = 1")
    fresh("by_cqlsh", "by_shell")
    cqlsh(f"COPY by_cqlsh FROM '{WORK}/theirs' WITH NUMPROCESSES = 1")
    said = shell(f"COPY by_shell FROM '{WORK}/theirs'")
    holds(f"{len(ROWS)} rows imported from 1 files" in said, said)
    for one, other in zip(content("by_cqlsh"), content("by_shell"), strict=True):
        holds(one == other, f"cqlsh read {one}, the shell {other}")


def csv_loses_nothing_with_these_options():
    fresh("by_shell")
    shell(f"COPY source TO '{WORK}/ours' WITH HEADER = true AND TEXTESCAPES = false AND DOUBLEPRECISION = 17 AND FLOATPRECISION = 9 AND NULL = '<null>'")
    shell(f"COPY by_shell FROM '{WORK}/ours' WITH HEADER = true AND NULL = '<null>'")
    for one, other in zip(content("source"), content("by_shell"), strict=True):
        holds(one == other, f"{one} came back as {other}")


def json_loses_nothing():
    fresh("by_shell")
    said = shell(f"COPY source TO '{WORK}/rows.json' WITH FORMAT = json; COPY by_shell FROM '{WORK}/rows.json' WITH FORMAT = json")
    holds(f"{len(ROWS)} rows imported" in said, said)
    query = "SELECT * FROM {}.{}"
    text = [run([MESSINA, "shell", CONTACT, "-e", query.format(KEYSPACE, table)]).splitlines() for table in ("source", "by_shell")]
    holds(sorted(text[0]) == sorted(text[1]), text)


def counters_and_durations():
    shell("CREATE TABLE hits (page text, day date, n counter, m counter, PRIMARY KEY (page, day)); CREATE TABLE waits (k int PRIMARY KEY, w duration)")
    shell("UPDATE hits SET n = n + 3, m = m - 1 WHERE page = 'a' AND day = '2026-01-01'; INSERT INTO waits (k, w) VALUES (1, 1mo2d3ns)")
    cqlsh(f"COPY hits TO '{WORK}/theirs' WITH NUMPROCESSES = 1")
    shell(f"COPY hits TO '{WORK}/ours'; COPY hits FROM '{WORK}/ours'; COPY waits TO '{WORK}/waits'")
    holds(lines(WORK / "theirs") == lines(WORK / "ours"), lines(WORK / "ours"))
    holds('"m": -2, "n": 6' in content("hits")[0], content("hits"))
    before = content("waits")
    shell(f"TRUNCATE waits; COPY waits FROM '{WORK}/waits'")
    holds(content("waits") == before, content("waits"))


def errors_are_in_the_file():
    shell("CREATE TABLE few (p int, c int, v text, PRIMARY KEY (p, c))")
    (WORK / "few.csv").write_text("p,c,v\n1,1,a\n1,x,b\n1,2\n,3,c\n1,4,\"d\ne\"\n1,4,last\n")
    said = shell("COPY few FROM 'few.csv' WITH HEADER = true AND ERRFILE = 'few.err' AND CHUNKSIZE = 2", fails=True)
    holds("Failed to parse x" in said and "Invalid row length 2 should be 3" in said and "primary key column 'p'" in said, said)
    holds("3 rows imported" in said and "Failed to process 3 rows; failed rows written to few.err" in said, said)
    holds(sorted((WORK / "few.err").read_text().splitlines()) == [",3,c", "1,2", "1,x,b"], (WORK / "few.err").read_text())
    holds(content("few") == ['{"p": 1, "c": 1, "v": "a"}', '{"p": 1, "c": 4, "v": "last"}'], content("few"))
    said = shell("COPY few FROM 'few.csv' WITH HEADER = true AND MAXPARSEERRORS = 1", fails=True)
    holds("Exceeded maximum number of parse errors 1" in said, said)
    said = shell("COPY few (p, c) FROM 'few.csv' WITH HAEDER = true", fails=True)
    holds("Unrecognized COPY FROM options: HAEDER; did you mean HEADER?" in said, said)


def an_interrupted_load_goes_on():
    shell("CREATE TABLE many (p int, c int, v text, PRIMARY KEY (p, c))")
    rows = 60_000
    (WORK / "many.csv").write_text("".join(f"{i // 10},{i % 10},value {i}\n" for i in range(rows)))
    statement = "COPY many FROM 'many.csv' WITH CHECKPOINT = 'many.checkpoint' AND CHUNKSIZE = 500"
    command = [MESSINA, "shell", "-k", KEYSPACE, CONTACT, "-e", f"{statement} AND INGESTRATE = 10000"]
    kills = 0
    for kill in (signal.SIGKILL, signal.SIGINT):
        process = subprocess.Popen(list(map(str, command)), cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(2.5)
        kills += process.poll() is None
        process.send_signal(kill)
        process.wait(60)
    holds(kills == 2 and (WORK / "many.checkpoint").exists(), f"{kills} interruptions")
    said = shell(statement)
    holds("Going on after record" in said and f"{rows} rows imported" not in said.splitlines()[0], said)
    holds(not (WORK / "many.checkpoint").exists(), "the checkpoint is still there")
    found = {(row["p"], row["c"]): row["v"] for row in map(json.loads, content("many"))}
    holds(len(found) == rows and all(found[i // 10, i % 10] == f"value {i}" for i in range(rows)), f"{len(found)} rows")


def split_and_limited():
    said = shell("COPY many TO 'part.csv' WITH MAXOUTPUTSIZE = 25000")
    parts = [len((WORK / name).read_text().splitlines()) for name in ("part.csv", "part.csv.1", "part.csv.2")]
    holds(parts == [25000, 25000, 10000] and "to 3 files" in said, said)
    said = shell("CREATE TABLE again (p int, c int, v text, PRIMARY KEY (p, c)); COPY again FROM 'part.csv, part.csv.?' WITH MAXROWS = 59000 AND SKIPROWS = 1000")
    holds("58000 rows imported from 3 files" in said and "(1000 skipped)" in said, said)
    half = shell("COPY many (p) TO STDOUT WITH BEGINTOKEN = '0'").splitlines()
    other = shell("COPY many (p) TO STDOUT WITH ENDTOKEN = '0'").splitlines()
    holds(len(half) + len(other) == 60_000 and min(len(half), len(other)) > 20_000, (len(half), len(other)))


def end():
    shell(f"DROP KEYSPACE {KEYSPACE}", keyspace=None)


def rate():
    """CPU seconds of the client, and rows per second, of both programs."""
    shell(f"""DROP KEYSPACE IF EXISTS {KEYSPACE}; CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
        CREATE TABLE {KEYSPACE}.by_cqlsh (id int PRIMARY KEY, name text, mails set<text>, seen timestamp, rate double);
        CREATE TABLE {KEYSPACE}.by_shell (id int PRIMARY KEY, name text, mails set<text>, seen timestamp, rate double)""", keyspace=None)
    with (WORK / "in.csv").open("w") as file:
        for i in range(RATE_ROWS):
            file.write(f"{i},\"name, {i}\",\"{{'a{i}@x', 'b{i}@x'}}\",2026-11-24 18:53:{i % 60:02}.123+0000,{i}.25\r\n")
    columns = "(id, name, mails, seen, rate)"
    for name, program in [("cqlsh", cqlsh), ("shell", shell)]:
        for verb, file in [("FROM", "in.csv"), ("TO", f"{name}.csv")]:
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            said = program(f"COPY by_{name} {columns} {verb} '{WORK}/{file}'")
            holds(f"{RATE_ROWS} rows " in said, said)
            after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{name} {verb}: {wall_s:.1f} s, {RATE_ROWS / wall_s:.0f} rows/s; client CPU {cpu_s:.1f} s, {RATE_ROWS / cpu_s:.0f} rows per CPU second", flush=True)
    holds(lines(WORK / "cqlsh.csv") == lines(WORK / "shell.csv") == lines(WORK / "in.csv"), "the files differ")
    print("both wrote the file that both read")
    end()


def main():
    if RATE_ROWS:
        rate()
        return
    passed = failed = 0
    for check in [create, files_are_the_same, their_file_is_read, csv_loses_nothing_with_these_options, json_loses_nothing, counters_and_durations, errors_are_in_the_file,
                  an_interrupted_load_goes_on, split_and_limited, end]:
        try:
            check()
        except Exception as error:  # noqa: BLE001  (any failure is a verdict)
            failed += 1
            print(f"FAIL copy {check.__name__}: {type(error).__name__}: {error}", flush=True)
        else:
            passed += 1
            print(f"PASS copy {check.__name__}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
