#!/bin/sh
# How many point reads a second does the server do over CQL, on one core, from memory and from the disk, beside Apache Cassandra 5.0 on the same core?
# As bench/cql.sh; the disk's own limit is measured by fio (Debian: apt-get install fio) in the same run. Appends to
# bench/results/reads-vs-cassandra.ndjson. Options: see reads.py --help. Cold reads drop the kernel's caches and need root.
cd "$(dirname "$0")/.." && PYTHONDONTWRITEBYTECODE=1 exec python3 bench/reads.py "$@"
