"""Debian's package index of this machine as records, and the tables that hold them.

`apt-cache dumpavail` prints one paragraph of `Field: value` lines a package. Of each comes a row of `packages`, and of each package that it
depends on, in whatever way, a row in that one's partition of `reverse_depends`: libc6 has tens of thousands.
"""

import re
import subprocess
from collections import defaultdict
from typing import NamedTuple

KEYSPACE = "debian"
SCHEMA = [
    f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}",
    f"CREATE TYPE {KEYSPACE}.maintainer (name text, email text)",
    f"""CREATE TABLE {KEYSPACE}.packages (name text, version text, architecture text, section text, priority text, source text, homepage text, description text,
        installed_kb bigint, size bigint, maintainer frozen<maintainer>, depends list<text>, tags set<text>, fields map<text, text>,
        PRIMARY KEY (name, version))""",
    f"""CREATE TABLE {KEYSPACE}.reverse_depends (package text, dependent text, kind text, relation text,
        PRIMARY KEY (package, dependent, kind)) WITH comment = 'who needs it'""",
]

#: which fields name packages that are depended on
KINDS = ["Pre-Depends", "Depends", "Recommends", "Suggests", "Enhances", "Breaks", "Conflicts", "Replaces", "Provides"]


class Package(NamedTuple):
    """A row of `packages`; the fields are its columns."""

    name: str
    version: str
    architecture: str | None
    section: str | None
    priority: str | None
    source: str | None
    homepage: str | None
    description: str | None
    installed_kb: int | None
    size: int | None
    maintainer: tuple | None
    depends: list | None
    tags: set | None
    fields: dict | None


class Dependent(NamedTuple):
    """A row of `reverse_depends`."""

    package: str
    dependent: str
    kind: str
    relation: str


def paragraphs(text):
    """The index as dictionaries of its fields; continued lines are joined with a newline."""
    for paragraph in re.split(r"\n{2,}", text):
        fields, last = {}, None
        for line in paragraph.splitlines():
            if line[:1] in (" ", "\t"):
                fields[last] += "\n" + line.strip()
            elif ":" in line:
                last, value = line.split(":", 1)
                fields[last] = value.strip()
        if "Package" in fields and "Version" in fields:
            yield fields


def package(fields):
    fields = dict(fields)

    def take(name):
        return fields.pop(name, None) or None

    def number(name):
        text = take(name)
        return int(text) if text else None

    maintainer = take("Maintainer")
    if maintainer:
        match = re.fullmatch(r"(.*?)\s*<([^<>]*)>", maintainer)
        maintainer = (match[1], match[2]) if match else (maintainer, None)
    depends, tags = take("Depends"), take("Tag")
    return Package(
        take("Package"), take("Version"), take("Architecture"), take("Section"), take("Priority"), take("Source"), take("Homepage"), take("Description"),
        number("Installed-Size"), number("Size"), maintainer,
        [each.strip() for each in depends.split(",")] if depends else None,
        {each.strip() for each in tags.replace("\n", " ").split(",") if each.strip()} or None if tags else None,
        {name: value for name, value in fields.items() if value} or None)


def dependents(fields):
    """What this package adds to others' partitions."""
    for kind in KINDS:
        for wish in re.split(r"[,|]", fields.get(kind, "")):
            match = re.match(r"\s*([^\s(:]+)(?::\w+)?\s*(?:\(([^)]*)\))?", wish)
            if match:
                yield Dependent(match[1], fields["Package"], kind, match[2] or "any version")


def load(limit=None):
    """The records of this machine's index, `limit` packages spread over it: packages by key, and dependents by key."""
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", errors="replace")
    all_fields = list(paragraphs(text))
    if limit and limit < len(all_fields):
        all_fields = [all_fields[index * len(all_fields) // limit] for index in range(limit)]
    packages, reverse = {}, {}
    for fields in all_fields:
        row = package(fields)
        packages.setdefault((row.name, row.version), row)
        for dependent in dependents(fields):
            reverse.setdefault(dependent[:3], dependent)
    return packages, reverse


def partitions(rows):
    """Rows of `reverse_depends` by partition, each in its order."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row.package].append(row)
    for group in grouped.values():
        group.sort(key=lambda row: (row.dependent.encode(), row.kind.encode()))
    return grouped
