#!/usr/bin/env python3
"""docs/compatibility.md: executes every line of compatibility.txt, and writes or compares the page.

    tests/differential/compatibility.py            builds and starts Messina, executes each line, and compares the page with the list
    tests/differential/compatibility.py --write    writes the page

The page ends with the tables of Cassandra's system keyspaces (system_tables.txt; each is read) and the explained differences (explained.toml).
"""

import argparse
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import sides  # noqa: E402
import wire  # noqa: E402
from sides import nodes  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "compatibility.md"
SETUP = [
    "CREATE KEYSPACE {ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE {ks}",
    "CREATE TYPE u (f int, g text)",
    "CREATE TABLE t (k int, c int, v int, x text, l list<int>, m map<text, int>, s set<int>, st int static, PRIMARY KEY (k, c))",
    "CREATE TABLE n (k int PRIMARY KEY, n counter)",
    "CREATE TABLE plain (k int, c int, v int, PRIMARY KEY (k, c))",
    "INSERT INTO t (k, c, v, x, l, m, s, st) VALUES (1, 1, 1, 'a', [1], {'a': 1}, {1}, 1)",
]


def sections():
    """(title, [(status, what, statements, note)])."""
    found = []
    for line in (HERE / "compatibility.txt").read_text().splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        elif line and not line.startswith("#"):
            status, what, statements, note = (part.strip() for part in (line + " ").rsplit(" | ", 1)[0].split(" | ", 2) + [(line + " ").rsplit(" | ", 1)[1]])
            found[-1][1].append((status, what, statements.split(" ;; "), note))
    return found


def system_tables():
    """(name, note) of each table of Cassandra 5.0's system keyspaces; a note that begins with "absent" says why Messina does not have it."""
    lines = (HERE / "system_tables.txt").read_text().splitlines()
    return [(name, note.strip()) for name, _, note in (line.partition(" ") for line in lines if line and not line.startswith("#"))]


def page():
    out = ["# Compatibility", "", "<!-- Written by tests/differential/compatibility.py --write; do not edit. -->", "",
           "What Cassandra 5.0 and ScyllaDB document, line by line, and whether Messina has it. `./test.sh differential` executes each line, and compares some 3,000 other",
           "statements with a running Cassandra 5.0.9; the differences that stay are listed at the end with their reasons."]
    for title, rows in sections():
        out += ["", f"## {title}", "", "| | | |", "|---|---|---|"]
        out += [f"| {cell(what)} | {status} | {cell(note)} |" for status, what, _, note in rows]
    out += ["", "## System tables of Cassandra 5.0", "", "| | | |", "|---|---|---|"]
    out += [f"| {name} | {'absent' if note.startswith('absent') else 'works'} | {cell(note.removeprefix('absent: '))} |" for name, note in system_tables()]
    out += ["", "## Explained differences", "",
            "Found by the [differential runner](../tests/differential/README.md), which compares rows and their order, metadata, warnings and errors with their texts.", ""]
    entries = tomllib.loads((HERE / "explained.toml").read_text())["difference"]
    out += [f"- **{entry['name'].replace('-', ' ')}**: {entry['reason']}" for entry in entries]
    return "\n".join(out) + "\n"


def cell(text):
    return text.replace("|", "\\|")


def walk(with_all, by_default):
    """Executes each line, on a node that has all of CQL turned on (`with_all`) or, if the line says "by default", on one without settings (`by_default`). Gives the
    number of lines that do what they say, and prints the others."""
    passed = failed = 0

    def note(good, line, answer):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAIL {line}: {answer.kind} {answer.text}", flush=True)

    for title, rows in sections():
        for number, (status, what, statements, _) in enumerate(rows):
            client = by_default if what.endswith("by default") else with_all
            keyspace = f"compatibility_{number}"
            client.query(f"DROP KEYSPACE IF EXISTS {keyspace}")
            for text in SETUP:
                answer = client.query(text.replace("{ks}", keyspace))
                if answer.is_error():
                    raise nodes.Trouble(f"{text}: {answer.kind} {answer.text}")
            answers = [client.query(text.strip().replace("{ks}", keyspace)) for text in statements]
            good = not any(answer.is_error() for answer in answers[:-1]) and answers[-1].is_error() == (status == "refused")
            if status not in ("works", "differs", "refused"):
                raise nodes.Trouble(f"{title}: {status!r} is no status")
            note(good, f"{title}: {what} ({status})", next((answer for answer in answers if answer.is_error()), answers[-1]))
            client.query(f"DROP KEYSPACE {keyspace}")
    for name, why in system_tables():
        answer = with_all.query(f"SELECT * FROM {name} LIMIT 1")
        note(answer.is_error() == why.startswith("absent"), name, answer)
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--profile", default="release")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(page())
        return 0
    started = []

    def client(settings):
        node = nodes.Messina(profile=options.profile, host=sides.MESSINA_HOST, flags=["--smp", "2", *sides.known_settings(settings)])
        started.append(node)
        node.start()
        return wire.Client(node.host, int(node.port))

    try:
        passed, failed = walk(client(sides.SETTINGS), client({}))
    except nodes.Trouble as trouble:
        print(f"compatibility: {trouble}", file=sys.stderr)
        return 2
    finally:
        for node in started:
            node.remove()
    if PAGE.read_text() != page():
        failed += 1
        print("FAIL docs/compatibility.md is not what the list says; write it anew: tests/differential/compatibility.py --write")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
