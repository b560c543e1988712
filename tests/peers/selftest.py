#!/usr/bin/env python3
"""Tests of the harness itself: it passes what Cassandra wrote, fails what was damaged, and says which. Takes --cassandra as verify.py does."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import compare

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "testdata" / "cassandra-4.1"

#: Further arguments for verify.py.
FLAGS = []


def verify(*arguments):
    done = subprocess.run([sys.executable, HERE / "verify.py", *FLAGS, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def flip(directory, component, offset):
    """Changes one byte of the component of the first SSTable found; a negative offset counts from the end."""
    file = sorted(directory.rglob(f"*-{component}"))[0]
    content = bytearray(file.read_bytes())
    content[offset] ^= 0x55
    file.write_bytes(content)


def cut(directory, component, length):
    file = sorted(directory.rglob(f"*-{component}"))[0]
    file.write_bytes(file.read_bytes()[:length])


def rename_table(directory, _component, _offset):
    """Gives the directory another table id, so that Cassandra finds no SSTable of the table."""
    table = next(path for path in directory.rglob("*-*") if path.is_dir())
    table.rename(table.with_name(table.name[:-4] + "ffff"))


def drop(directory, component, _offset):
    sorted(directory.rglob(f"*-{component}"))[0].unlink()


def foreign_filter(directory, component, _offset):
    """A filter made for other keys is sound in itself, so no offline tool objects; but a node finds nothing in such an SSTable."""
    shutil.copy(next((SAMPLES / "keys").rglob("of_blob-*/nb-1-big-Filter.db")), next(directory.rglob(f"t-*/*-{component}")))


def reckon_digest(directory, component, offset):
    """Damages uncompressed data and makes the digest agree, so that only reading the values can tell."""
    import zlib
    flip(directory, component, offset)
    data = sorted(directory.rglob("*-Data.db"))[0]
    next(data.parent.glob("*-Digest.crc32")).write_text(str(zlib.crc32(data.read_bytes())))


class Samples(unittest.TestCase):
    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="peers-selftest-"))
        self.addCleanup(shutil.rmtree, self.scratch)

    def copy(self, name):
        shutil.copytree(SAMPLES / name, self.scratch / name)
        return self.scratch / name

    def test_samples_pass_and_export_as_recorded(self):
        names = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
        cases = [self.copy(name) for name in names]
        status, said = verify("--raw-timestamps", *cases)
        self.assertEqual(status, 0, said)
        exports = 0
        for case in cases:
            for expected in sorted((case / "expected").rglob("*.json")):
                if expected.name == "summary.json":
                    continue
                # 5.0 counts positions differently and adds a field; the passing of time expires cells.
                ignore = frozenset(["expired", "position", "table kind"])
                found = list(compare.differences(compare.load(expected), compare.load(case / "out" / expected.relative_to(case / "expected")), ignore))
                self.assertEqual(found, [], expected)
                exports += 1
        self.assertGreater(exports, 30)

    def test_damage_is_found_and_named(self):
        damages = {
            "wide_lz4": (flip, "Data.db", 3000, "wide_lz4.t"),
            "wide_uncompressed": (reckon_digest, "Data.db", 3, "wide_uncompressed.t"),
            "statics": (flip, "Index.db", 3, "statics.t"),
            "all_types": (foreign_filter, "Filter.db", None, "read_back"),
            "counters": (cut, "Statistics.db", 200, "counters.t"),
            "expiring": (drop, "TOC.txt", None, "TOC.txt: missing"),
            "collections": (rename_table, None, None, "did not report success"),
            "deletions": (cut, "Summary.db", 10, "deletions."),
            "keys": (flip, "Digest.crc32", 0, "keys."),
        }
        for name, (damage, component, where, _) in damages.items():
            damage(self.copy(name) / "data", component, where)
        sound = self.copy("compressors")
        # All in one batch: the damage of one case must not reach another.
        status, said = verify(*(self.scratch / name for name in damages), sound)
        self.assertEqual(status, 1, said)
        blocks = {}
        for line in said.splitlines():
            if line.startswith(("FAILED", "ok")):
                verdict, case = line.split()[:2]
                block = blocks.setdefault(Path(case).name, [verdict])
            else:
                block.append(line)
        self.assertEqual(blocks["compressors"][0], "ok", said)
        for name, (_, _, _, clue) in damages.items():
            self.assertEqual(blocks[name][0], "FAILED", f"{name}:\n{said}")
            self.assertIn(clue, "\n".join(blocks[name]), said)
            self.assertFalse(json.loads((self.scratch / name / "out" / "summary.json").read_text())["ok"])

    def test_a_jvm_for_each_verifier_says_the_same(self):
        good, bad = self.copy("statics"), self.copy("wide_lz4")
        flip(bad / "data", "Data.db", 3000)
        status, said = verify("--separate-jvms", good, bad)
        self.assertEqual(status, 1, said)
        self.assertIn(f"ok     {good}", said)
        self.assertIn(f"FAILED {bad}", said)

    def test_a_schema_that_does_not_parse_is_trouble_not_a_verdict(self):
        case = self.copy("statics")
        (case / "schema.cql").write_text("CREATE KEYSPACE statics WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\nCREATE TABLE statics.t (k nonsense PRIMARY KEY);")
        status, said = verify(case)
        self.assertEqual(status, 2, said)
        self.assertIn("nonsense", said)


class Compare(unittest.TestCase):
    def paths(self, left, right, **more):
        with tempfile.TemporaryDirectory() as scratch:
            files = [Path(scratch, name) for name in ["left", "right"]]
            for file, text in zip(files, [left, right]):
                file.write_text(text)
            return [path for path, _, _ in compare.differences(*map(compare.load, files), **more)]

    def test_order_of_keys_does_not_matter_and_of_elements_does(self):
        self.assertEqual(self.paths('{"a": 1, "b": [1, 2]}', '{"b": [1, 2], "a": 1}'), [])
        self.assertEqual(self.paths('[{"a": [1, 2]}]', '[{"a": [2, 1]}]'), ["$[0].a[0]", "$[0].a[1]"])

    def test_kinds_are_strict(self):
        for left, right in [('1', '"1"'), ('1', 'true'), ('0', 'false'), ('null', '""'), ('[]', '{}'), ('null', '0')]:
            self.assertEqual(self.paths(left, right), ["$"], f"{left} {right}")

    def test_numbers_are_exact(self):
        self.assertEqual(self.paths("[1.0, 1E1]", "[1, 10]"), [])
        self.assertEqual(self.paths("12345678901234567890.1", "12345678901234567890.2"), ["$"])
        self.assertEqual(self.paths("2.0E-3", "0.0020000000000000000001"), ["$"])
        self.assertEqual(self.paths("2.0E-3", "0.0020000000000000000001", same_number=compare.as_binary64), [])
        self.assertEqual(self.paths("1.4E-45", "1E-45", same_number=compare.as_binary32), [])
        self.assertFalse(compare.as_binary32(Decimal("1.5"), Decimal("1.25")))

    def test_what_is_missing_is_found(self):
        self.assertEqual(self.paths('{"a": 1}', '{"a": 1, "b": null}'), ["$.b"])
        self.assertEqual(self.paths('[1]', '[1, 2]'), ["$[1]"])
        self.assertEqual(self.paths('[{"position": 1}]', '[{"position": 2}]', ignore={"position"}), [])

    def test_directories_are_compared_file_by_file(self):
        with tempfile.TemporaryDirectory() as scratch:
            sides = [Path(scratch, name) for name in ["left", "right"]]
            for side in sides:
                (side / "ks.t").mkdir(parents=True)
                (side / "ks.t" / "1.json").write_text("[1]")

            def status():
                command = [sys.executable, HERE / "compare.py", *sides]
                return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).returncode

            self.assertEqual(status(), 0)
            (sides[1] / "ks.t" / "1.json").write_text("[2]")
            self.assertEqual(status(), 1)
            (sides[1] / "ks.t" / "1.json").rename(sides[1] / "ks.t" / "2.json")
            self.assertEqual(status(), 2)

    def test_a_repeated_key_is_refused(self):
        with self.assertRaises(compare.NotComparable):
            self.paths('{"a": 1, "a": 1}', '{}')


if __name__ == "__main__":
    if "--cassandra" in sys.argv:
        at = sys.argv.index("--cassandra")
        FLAGS = sys.argv[at:at + 2]
        del sys.argv[at:at + 2]
    unittest.main()
