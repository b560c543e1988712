"""Queries on Debian's packages, the answers that the source gives to them, and those of each program.

An answer is the number of rows and a SHA-256 of them: a row is its columns with tabs between and a newline at the end; a column is `~` for null,
text as it is, numbers in decimal, lists and sets `[a,b]`, maps `{k=v,k=v}`, a user-defined type `(a|b)`; sets and maps in order of their UTF-8.
"""

import hashlib
import re
import subprocess

from cassandra.metadata import Murmur3Token

from packages import KEYSPACE, partitions

ALL_COLUMNS = "name, version, architecture, section, priority, source, homepage, description, installed_kb, size, maintainer, depends, tags, fields"


def text(value):
    """A value in the form above, from Python's own or from the driver."""
    if value is None:
        return "~"
    if isinstance(value, tuple):
        return "(" + "|".join(text(each) for each in value) + ")"
    if isinstance(value, list):
        return "[" + ",".join(text(each) for each in value) + "]"
    if hasattr(value, "items"):
        return "{" + ",".join(sorted((f"{text(key)}={text(each)}" for key, each in value.items()), key=str.encode)) + "}"
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        return "[" + ",".join(sorted((text(each) for each in value), key=str.encode)) + "]"
    return str(value)


def digest(rows):
    total = hashlib.sha256()
    count = 0
    for row in rows:
        total.update(("\t".join(text(value) for value in row) + "\n").encode())
        count += 1
    return count, total.hexdigest()


class Query:
    """`plain`: its columns are names and numbers, so that its rows can be read off the table that cqlsh draws."""

    def __init__(self, name, page_size, cql, values, rows, plain=False):
        self.name, self.page_size, self.cql, self.values, self.plain = name, page_size, cql, values, plain
        self.expected = digest(rows)

    def line(self):
        return "\t".join([self.name, str(self.page_size), self.cql, *self.values])


def token(name):
    return Murmur3Token.hash_fn(name.encode())


def queries(packages, reverse):
    """The queries, with what the source answers."""
    in_order = sorted(packages.values(), key=lambda row: (token(row.name), row.version.encode()))
    grouped = partitions(reverse.values())
    largest = sorted(grouped, key=lambda name: (-len(grouped[name]), name))[:3]
    names = sorted(packages)
    made = []
    for number in range(40):
        name = names[number * len(names) // 40][0]
        rows = [row for row in in_order if row.name == name]
        made.append(Query(f"package_{number}", 100, f"SELECT {ALL_COLUMNS} FROM {KEYSPACE}.packages WHERE name = ?", [name], rows))
        made.append(Query(f"plain_{number}", 100, f"SELECT name, version, section, installed_kb FROM {KEYSPACE}.packages WHERE name = ?", [name],
                          [(row.name, row.version, row.section, row.installed_kb) for row in rows], plain=True))
    made.append(Query("all_packages", 1000, f"SELECT {ALL_COLUMNS} FROM {KEYSPACE}.packages", [], in_order))
    made.append(Query("count", 5000, f"SELECT COUNT(*) FROM {KEYSPACE}.packages", [], [(len(in_order),)], plain=True))
    by_token = sorted(grouped, key=token)
    made.append(Query("distinct", 777, f"SELECT DISTINCT package FROM {KEYSPACE}.reverse_depends", [], [(name,) for name in by_token], plain=True))
    for number, name in enumerate(largest):
        rows = [row[1:] for row in grouped[name]]
        select = f"SELECT dependent, kind, relation FROM {KEYSPACE}.reverse_depends WHERE package = ?"
        middle = rows[len(rows) // 2]
        made.append(Query(f"wide_{number}_forward", 500, select, [name], rows, plain=True))
        made.append(Query(f"wide_{number}_reverse", 499, f"{select} ORDER BY dependent DESC, kind DESC", [name], rows[::-1], plain=True))
        made.append(Query(f"wide_{number}_slice", 100, f"{select} AND dependent >= ? AND dependent < ?", [name, "libg", "libx"],
                          [row for row in rows if b"libg" <= row[0].encode() < b"libx"], plain=True))
        made.append(Query(f"wide_{number}_after", 64, f"{select} AND (dependent, kind) > (?, ?) LIMIT 1000", [name, middle[0], middle[1]],
                          [row for row in rows if (row[0].encode(), row[1].encode()) > (middle[0].encode(), middle[1].encode())][:1000], plain=True))
        made.append(Query(f"wide_{number}_last", 10, f"{select} ORDER BY dependent DESC LIMIT 25", [name], rows[::-1][:25], plain=True))
        made.append(Query(f"wide_{number}_count", 100, f"SELECT COUNT(*) FROM {KEYSPACE}.reverse_depends WHERE package = ?", [name], [(len(rows),)], plain=True))
    return made


def by_driver(session, wanted):
    """name → (rows, digest) of the Python driver's answers."""
    answers = {}
    for query in wanted:
        prepared = session.prepare(query.cql)
        prepared.fetch_size = query.page_size
        answers[query.name] = digest(session.execute(prepared, query.values))
    return answers


def by_program(command, contact, file):
    """name → (rows, digest) that a program printed."""
    done = subprocess.run([*map(str, command), "queries", contact, str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    answers = {}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"(\w+) (\d+) ([0-9a-f]{64})", line)
        if match:
            answers[match[1]] = (int(match[2]), match[3])
    if done.returncode != 0:
        answers["?"] = f"exit status {done.returncode}: {done.stdout[-600:]}"
    return answers


def by_cqlsh(command, contact, wanted, directory):
    """name → (rows, digest) read off the tables that cqlsh draws."""
    host, port = contact.rsplit(":", 1)
    answers = {}
    plain = [query for query in wanted if query.plain]
    file = directory / "queries.cql"
    statements = []
    for query in plain:
        cql = query.cql
        for value in query.values:
            cql = cql.replace("?", "'" + value.replace("'", "''") + "'", 1)
        statements.append(f"PAGING {query.page_size};\n{cql};\n")
    file.write_text("".join(statements))
    done = subprocess.run([*map(str, command), "--no-color", "--request-timeout", "120", host, port, "-f", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600)
    if done.returncode != 0:
        return {"?": f"exit status {done.returncode}: {done.stderr[-600:]}"}
    tables = drawn_tables(done.stdout)
    if len(tables) != len(plain):
        return {"?": f"{len(tables)} tables for {len(plain)} queries"}
    for query, rows in zip(plain, tables):
        answers[query.name] = digest([None if cell == "null" else cell for cell in row] for row in rows)
    return answers


def drawn_tables(output):
    """The rows of each table; a page of a table begins with its heading again."""
    tables, rows, lines = [], [], output.splitlines()
    for number, line in enumerate(lines):
        if re.fullmatch(r"\(\d+ rows\)", line.strip()):
            tables.append(rows)
            rows = []
            continue
        heading = number + 1 < len(lines) and re.fullmatch(r"-[-+]+", lines[number + 1].strip())
        rule = re.fullmatch(r"-[-+]+", line.strip())
        chatter = line.startswith(("WARNING:", "Page size:", "Query paging", "Now Query paging", "Warnings :", "Aggregation query"))
        if line.strip() and not heading and not rule and not chatter and "---MORE---" not in line:
            rows.append([cell.strip() for cell in line.split(" | ")])
    return tables
