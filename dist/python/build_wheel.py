#!/usr/bin/env python3
"""Puts a program and the Python module into a wheel: `build_wheel.py PROGRAM VERSION MACHINE GLIBC OUT_DIR`; dist/build.sh calls it."""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
METADATA = """Metadata-Version: 2.1
Name: messina
Version: {version}
Summary: A wide-column database for CQL: the program, and nodes for tests
License: Apache-2.0
Requires-Python: >=3.8
Provides-Extra: driver
Requires-Dist: cassandra-driver; extra == "driver"
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: messina-dist\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[pytest11]\nmessina = messina.pytest_plugin\n"


def main():
    program, version, machine, glibc, out = sys.argv[1:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{machine}"
    info = f"messina-{version}.dist-info"
    files = [(f"messina/{path.name}", path.read_bytes(), 0o644) for path in sorted((HERE / "messina").glob("*.py"))]
    files += [
        (f"messina-{version}.data/scripts/messina", Path(program).read_bytes(), 0o755),
        (f"{info}/METADATA", (METADATA.format(version=version) + (HERE / "README.md").read_text()).encode(), 0o644),
        (f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), 0o644),
        (f"{info}/entry_points.txt", ENTRY_POINTS.encode(), 0o644),
    ]
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, content, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    # ZIP has no times before 1980.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315_532_800))[:6]
    with zipfile.ZipFile(Path(out) / f"messina-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
